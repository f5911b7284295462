#include "engine/grammar/grammar.h"

#include <algorithm>

namespace spillway::grammar {

// Frames above the one below it. A sequence's last part takes the sequence's own place.
uint32_t Grammar::NeedOf(const Node& node) const {
  switch (node.kind) {
    case Kind::kLiteral:
      return 1;
    case Kind::kDfa:
      return dfa(node).empty() ? kNever : 1;
    case Kind::kSequence: {
      uint32_t need = 1;
      for (size_t i = 0; i < node.children.size(); ++i) {
        const uint32_t child = need_[node.children[i]];
        if (child == kNever) return kNever;
        need = std::max(need, child + (i + 1 < node.children.size() ? 1 : 0));
      }
      return need;
    }
    case Kind::kChoice: {
      uint32_t need = kNever;
      for (const uint32_t child : node.children) need = std::min(need, need_[child]);
      return need;
    }
    case Kind::kRepeat: {
      if (node.min > node.max) return kNever;
      if (node.min == 0) return 1;
      const uint32_t child = need_[node.children[0]];
      return child == kNever ? kNever : child + 1;
    }
  }
  return kNever;
}

// The least solution, by rounds from "never" downwards. A node's value only falls; each round settles at
// least the nodes of one more level.
void Grammar::Finish(uint32_t root) {
  root_ = root;
  need_.assign(nodes_.size(), kNever);
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = nodes_.size(); i-- > 0;) {
      const uint32_t need = NeedOf(nodes_[i]);
      changed = changed || need != need_[i];
      need_[i] = need;
    }
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const uint32_t need = NeedOf(nodes_[i]);
      changed = changed || need != need_[i];
      need_[i] = need;
    }
  }
  has_long_repeats_ = std::any_of(nodes_.begin(), nodes_.end(), [](const Node& node) {
    return node.kind == Kind::kRepeat && (node.min > 1 || (node.max != kUnbounded && node.max > 1));
  });
}

}  // namespace spillway::grammar
