// The trie's insertion and search.
#include "engine/tokenizer/special_tokens.h"

namespace spillway {

void SpecialTokens::Add(std::string_view text, int32_t id) {
  if (text.empty()) return;
  starts_[static_cast<uint8_t>(text[0])] = true;
  uint32_t node = 0;
  for (const char byte : text) {
    const auto [edge, is_new] = edges_.try_emplace(Edge(node, byte), n_nodes_);
    if (is_new) ++n_nodes_;
    node = edge->second;
  }
  ids_.try_emplace(node, id);
}

SpecialTokens::Match SpecialTokens::Find(std::string_view text, size_t from) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!starts_[static_cast<uint8_t>(text[begin])]) continue;
    Match match{begin, 0, -1};
    uint32_t node = 0;
    for (size_t i = begin; i < text.size(); ++i) {
      const auto edge = edges_.find(Edge(node, text[i]));
      if (edge == edges_.end()) break;
      node = edge->second;
      if (const auto id = ids_.find(node); id != ids_.end()) match = {begin, i + 1 - begin, id->second};
    }
    if (match.length > 0) return match;
  }
  return {text.size(), 0, -1};
}

}  // namespace spillway
