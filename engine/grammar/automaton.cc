#include "engine/grammar/automaton.h"

#include <algorithm>
#include <utility>

#include "engine/base/status.h"

namespace spillway::grammar {
namespace {

using Kind = Grammar::Kind;

constexpr Automaton::Configuration kUnknown = -2;
constexpr size_t kMaxFrames = 200'000;
constexpr size_t kMaxMasks = 256;

}  // namespace

Automaton::Automaton(const Grammar& grammar, const TokenTrie& trie) : grammar_(grammar), trie_(trie) {
  frames_.push_back({0, 0, 0, 0});
}

void Automaton::Fail(std::string_view what) {
  if (error_.ok()) error_ = ResourceExhausted("{}", what);
}

uint32_t Automaton::Push(uint32_t parent, uint32_t node, uint32_t counter) {
  const Frame frame = {parent, node, counter, frames_[parent].depth + 1};
  const auto [position, added] = frame_ids_.try_emplace(frame, static_cast<uint32_t>(frames_.size()));
  if (added) frames_.push_back(frame);
  return position->second;
}

// Nothing is begun that could not come to its end within the depth, so no text runs into a dead end.
void Automaton::Enter(uint32_t parent, uint32_t node) {
  const uint32_t need = grammar_.Need(node);
  if (need == Grammar::kNever || frames_[parent].depth + need > kMaxStackDepth) return;
  work_.push_back(Push(parent, node, 0));
}

// Puts `stack` among the entry's where it waits for a byte, and on work_ what it may become without one.
void Automaton::Expand(uint32_t stack, Entry& entry) {
  if (stack == 0) {
    entry.accepting = true;
    return;
  }
  const Frame frame = frames_[stack];
  const Grammar::Node& node = grammar_.nodes()[frame.node];
  switch (node.kind) {
    case Kind::kLiteral:
      if (frame.counter < grammar_.text(node).size()) {
        entry.stacks.push_back(stack);
      } else {
        work_.push_back(frame.parent);
      }
      return;
    case Kind::kDfa:
      entry.stacks.push_back(stack);
      if (grammar_.dfa(node).accepting[frame.counter]) work_.push_back(frame.parent);
      return;
    case Kind::kSequence: {
      const size_t size = node.children.size();
      if (frame.counter == size) {
        work_.push_back(frame.parent);
        return;
      }
      const bool last = frame.counter + 1 == size;
      const uint32_t rest = last ? frame.parent : Push(frame.parent, frame.node, frame.counter + 1);
      return Enter(rest, node.children[frame.counter]);
    }
    case Kind::kChoice:
      for (const uint32_t child : node.children) Enter(frame.parent, child);
      return;
    case Kind::kRepeat: {
      if (frame.counter >= node.min) work_.push_back(frame.parent);
      if (frame.counter >= node.max) return;
      const uint32_t done =
          node.max == Grammar::kUnbounded ? std::min(frame.counter + 1, node.min) : frame.counter + 1;
      const uint32_t rest = done == node.max ? frame.parent : Push(frame.parent, frame.node, done);
      return Enter(rest, node.children[0]);
    }
  }
}

Automaton::Configuration Automaton::Close() {
  Entry entry;
  ++round_;
  while (!work_.empty()) {
    const uint32_t stack = work_.back();
    work_.pop_back();
    if (seen_.size() < frames_.size()) seen_.resize(frames_.size() + frames_.size() / 2);
    if (std::exchange(seen_[stack], round_) == round_) continue;
    if (left_ == 0 || frames_.size() > kMaxFrames * 4) {
      Fail("it leaves too much open at once: computing which tokens may follow was stopped");
      work_.clear();
      return kDead;
    }
    --left_;
    Expand(stack, entry);
    if (entry.stacks.size() > kMaxStacksAtOnce) {
      Fail(fmt::format("it leaves more than {} ways open at once", kMaxStacksAtOnce));
      work_.clear();
      return kDead;
    }
  }
  if (entry.stacks.empty() && !entry.accepting) return kDead;
  std::sort(entry.stacks.begin(), entry.stacks.end());
  return Number(std::move(entry));
}

Automaton::Configuration Automaton::Number(Entry entry) {
  Stacks key = entry.stacks;
  if (entry.accepting) key.insert(key.begin(), 0);
  const auto [position, added] =
      entry_ids_.try_emplace(std::move(key), static_cast<Configuration>(entries_.size()));
  if (added) {
    if (entries_.size() > kMaxConfigurations * 8) Fail("it has too many states within one token");
    entries_.push_back(std::move(entry));
  }
  return position->second;
}

Automaton::Configuration Automaton::Start() {
  left_ = kMaxMaskWork;
  work_.clear();
  Enter(0, grammar_.root());
  return Close();
}

Automaton::Configuration Automaton::Next(Configuration from, uint8_t byte) {
  if (from == kDead || !error_.ok()) return kDead;
  if (entries_[from].next == nullptr) {
    entries_[from].next = std::make_unique<std::array<Configuration, 256>>();
    entries_[from].next->fill(kUnknown);
  }
  const Configuration known = (*entries_[from].next)[byte];
  if (known != kUnknown) return known;
  work_.clear();
  for (const uint32_t stack : entries_[from].stacks) {
    const Frame frame = frames_[stack];
    const Grammar::Node& node = grammar_.nodes()[frame.node];
    if (node.kind == Kind::kLiteral) {
      const std::string& text = grammar_.text(node);
      if (static_cast<uint8_t>(text[frame.counter]) != byte) continue;
      const bool last = frame.counter + 1 == text.size();
      work_.push_back(last ? frame.parent : Push(frame.parent, frame.node, frame.counter + 1));
    } else {
      const uint16_t state = grammar_.dfa(node).next[frame.counter][byte];
      if (state != Dfa::kDead) work_.push_back(Push(frame.parent, frame.node, state));
    }
  }
  left_ -= std::min<uint64_t>(left_, entries_[from].stacks.size() / 8);
  const Configuration to = work_.empty() ? kDead : Close();
  if (error_.ok()) (*entries_[from].next)[byte] = to;
  return to;
}

// A count that no token can tell from `count`: further from the bounds than the longest token reaches.
uint32_t Automaton::ShortenedCount(const Grammar::Node& node, uint32_t count) const {
  const uint32_t reach = trie_.longest() + 1;
  if (count < node.min) return node.min - count > reach ? node.min - reach : count;
  if (node.max == Grammar::kUnbounded || node.max - count <= reach) return count;
  return std::max(node.min, node.max - reach);
}

uint32_t Automaton::ShortenedStack(uint32_t stack, absl::flat_hash_map<uint32_t, uint32_t>& done) {
  std::vector<uint32_t> path;
  for (; stack != 0 && !done.contains(stack); stack = frames_[stack].parent) path.push_back(stack);
  uint32_t shortened = stack == 0 ? 0 : done.at(stack);
  for (; !path.empty(); path.pop_back()) {
    const Frame frame = frames_[path.back()];
    const Grammar::Node& node = grammar_.nodes()[frame.node];
    const uint32_t counter = node.kind == Kind::kRepeat ? ShortenedCount(node, frame.counter) : frame.counter;
    shortened = Push(shortened, frame.node, counter);
    done.emplace(path.back(), shortened);
  }
  return shortened;
}

// The configuration whose mask is the same, with counts that many others share: a string of bounded length
// would else have a mask of its own for every character.
Automaton::Configuration Automaton::Shortened(Configuration configuration) {
  if (!grammar_.has_long_repeats()) return configuration;
  absl::flat_hash_map<uint32_t, uint32_t> done;
  Entry entry;
  entry.accepting = entries_[configuration].accepting;
  for (const uint32_t stack : entries_[configuration].stacks)
    entry.stacks.push_back(ShortenedStack(stack, done));
  std::sort(entry.stacks.begin(), entry.stacks.end());
  entry.stacks.erase(std::unique(entry.stacks.begin(), entry.stacks.end()), entry.stacks.end());
  return Number(std::move(entry));
}

absl::StatusOr<std::shared_ptr<const std::vector<uint8_t>>> Automaton::Mask(Configuration configuration) {
  left_ = kMaxMaskWork;
  const Configuration start = Shortened(configuration);
  if (entries_[start].mask == nullptr) {
    auto mask = std::make_shared<std::vector<uint8_t>>((trie_.n_vocab() + 7) / 8);
    const auto allow = [&mask](int32_t token) {
      const auto id = static_cast<size_t>(token);
      if (id / 8 < mask->size()) (*mask)[id / 8] |= static_cast<uint8_t>(1u << (id % 8));
    };
    std::array<Configuration, TokenTrie::kMaxTokenBytes + 1> at;  // by depth
    at[0] = start;
    const auto& nodes = trie_.nodes();
    for (size_t i = 0; i < trie_.size();) {
      const TokenTrie::Node& node = nodes[i];
      const Configuration to = Next(at[node.depth - 1], node.byte);
      if (to == kDead) {
        if (!error_.ok()) return error_;
        i = node.end;
        continue;
      }
      at[node.depth] = to;
      for (uint32_t k = node.token_begin; k < nodes[i + 1].token_begin; ++k) allow(trie_.token_order()[k]);
      ++i;
    }
    if (entries_[start].accepting) {
      for (const int32_t stop : trie_.stop_ids()) allow(stop);
    }
    entries_[start].mask = std::move(mask);
    ++masks_;
  }
  return entries_[start].mask;
}

Automaton::Saved Automaton::Save(Configuration configuration) const {
  Saved saved;
  if (configuration == kDead) return saved;
  saved.accepting = entries_[configuration].accepting;
  absl::flat_hash_map<uint32_t, uint32_t> places = {{0, 0}};
  std::vector<uint32_t> path;
  for (const uint32_t top : entries_[configuration].stacks) {
    for (uint32_t at = top; !places.contains(at); at = frames_[at].parent) path.push_back(at);
    for (; !path.empty(); path.pop_back()) {
      const Frame& frame = frames_[path.back()];
      saved.frames.push_back({places.at(frame.parent), frame.node, frame.counter});
      places.emplace(path.back(), static_cast<uint32_t>(saved.frames.size()));
    }
    saved.stacks.push_back(places.at(top));
  }
  return saved;
}

Automaton::Configuration Automaton::Restore(const Saved& saved) {
  if (saved.stacks.empty() && !saved.accepting) return kDead;
  std::vector<uint32_t> ids = {0};
  for (const Saved::Frame& frame : saved.frames)
    ids.push_back(Push(ids[frame.parent], frame.node, frame.counter));
  Entry entry;
  entry.accepting = saved.accepting;
  for (const uint32_t stack : saved.stacks) entry.stacks.push_back(ids[stack]);
  std::sort(entry.stacks.begin(), entry.stacks.end());
  return Number(std::move(entry));
}

bool Automaton::ForgetIfLarge() {
  if (entries_.size() < kMaxConfigurations && frames_.size() < kMaxFrames && masks_ < kMaxMasks) return false;
  entries_.clear();
  entry_ids_.clear();
  frames_.resize(1);
  frame_ids_.clear();
  seen_.clear();
  round_ = 0;
  masks_ = 0;
  return true;
}

}  // namespace spillway::grammar
