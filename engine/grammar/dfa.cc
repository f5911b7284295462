// Subset construction and products, both followed by trimming.
#include "engine/grammar/dfa.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <utility>

#include "engine/base/status.h"

namespace spillway::grammar {
namespace {

constexpr uint64_t kMaxBuildWork = 5'000'000;  // edges looked at

absl::Status TooLarge() {
  return ResourceExhausted("it needs an automaton of more than {} states", kMaxDfaStates);
}

// Removes states from which no accepting one can be reached, and those that the start does not reach.
Dfa Trim(const Dfa& dfa) {
  const size_t size = dfa.next.size();
  std::vector<std::vector<uint16_t>> sources(size);
  for (size_t state = 0; state < size; ++state) {
    uint16_t last = Dfa::kDead;
    for (const uint16_t to : dfa.next[state]) {
      if (to != Dfa::kDead && to != last) sources[to].push_back(static_cast<uint16_t>(state));
      last = to;
    }
  }
  std::vector<bool> useful = dfa.accepting;
  std::vector<uint16_t> work;
  for (size_t state = 0; state < size; ++state) {
    if (useful[state]) work.push_back(static_cast<uint16_t>(state));
  }
  while (!work.empty()) {
    const uint16_t state = work.back();
    work.pop_back();
    for (const uint16_t source : sources[state]) {
      if (useful[source]) continue;
      useful[source] = true;
      work.push_back(source);
    }
  }
  Dfa trimmed;
  if (size == 0 || !useful[0]) return trimmed;
  std::vector<uint16_t> renamed(size, Dfa::kDead);
  uint16_t count = 0;
  for (size_t state = 0; state < size; ++state) {
    if (useful[state]) renamed[state] = count++;
  }
  for (size_t state = 0; state < size; ++state) {
    if (!useful[state]) continue;
    trimmed.accepting.push_back(dfa.accepting[state]);
    auto& row = trimmed.next.emplace_back();
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint16_t to = dfa.next[state][byte];
      row[byte] = to == Dfa::kDead ? Dfa::kDead : renamed[to];
    }
  }
  return trimmed;
}

class SubsetBuilder {
 public:
  SubsetBuilder(const Nfa& nfa, Nfa::Part part) : nfa_(nfa), part_(part), seen_(nfa.size()) {}

  absl::StatusOr<Dfa> Build() {
    StateOf({part_.begin});
    for (size_t state = 0; state < sets_.size(); ++state) {
      if (!Expand(state)) return TooLarge();
    }
    return Trim(dfa_);
  }

 private:
  // The state for the closure of `set`; adds it where it is new.
  uint16_t StateOf(std::vector<uint32_t> set) {
    Close(set);
    const auto [position, added] = states_.try_emplace(set, static_cast<uint16_t>(sets_.size()));
    if (added) {
      dfa_.accepting.push_back(std::binary_search(set.begin(), set.end(), part_.end));
      dfa_.next.emplace_back().fill(Dfa::kDead);
      sets_.push_back(std::move(set));
    }
    return position->second;
  }

  void Close(std::vector<uint32_t>& set) {
    ++round_;
    std::vector<uint32_t> work = std::exchange(set, {});
    while (!work.empty()) {
      const uint32_t state = work.back();
      work.pop_back();
      if (std::exchange(seen_[state], round_) == round_) continue;
      set.push_back(state);
      for (const uint32_t to : nfa_.states()[state].empty) work.push_back(to);
      work_ += 1 + nfa_.states()[state].empty.size();
    }
    std::sort(set.begin(), set.end());
  }

  // Bytes between two neighbouring bounds of edges go to the same set.
  bool Expand(size_t state) {
    std::vector<Nfa::Edge> edges;
    std::array<bool, 257> bounds = {};
    for (const uint32_t member : sets_[state]) {
      for (const Nfa::Edge& edge : nfa_.states()[member].edges) {
        edges.push_back(edge);
        bounds[edge.low] = bounds[edge.high + 1] = true;
      }
    }
    for (size_t low = 0; low < 256;) {
      size_t high = low + 1;
      while (high < 256 && !bounds[high]) ++high;
      std::vector<uint32_t> targets;
      for (const Nfa::Edge& edge : edges) {
        if (edge.low <= low && low <= edge.high) targets.push_back(edge.to);
      }
      work_ += edges.size();
      if (!targets.empty()) {
        const uint16_t to = StateOf(std::move(targets));
        std::fill(dfa_.next[state].begin() + static_cast<std::ptrdiff_t>(low),
                  dfa_.next[state].begin() + static_cast<std::ptrdiff_t>(high), to);
      }
      if (sets_.size() > kMaxDfaStates || work_ > kMaxBuildWork) return false;
      low = high;
    }
    return true;
  }

  const Nfa& nfa_;
  const Nfa::Part part_;
  std::vector<uint32_t> seen_;
  uint32_t round_ = 0;
  uint64_t work_ = 0;
  std::vector<std::vector<uint32_t>> sets_;
  absl::flat_hash_map<std::vector<uint32_t>, uint16_t> states_;
  Dfa dfa_;
};

// Pairs of states. `b` may be dead where its bytes are subtracted.
absl::StatusOr<Dfa> Product(const Dfa& a, const Dfa& b, bool subtract) {
  Dfa dfa;
  if (a.empty() || (b.empty() && !subtract)) return dfa;
  absl::flat_hash_map<std::pair<uint16_t, uint16_t>, uint16_t> states;
  std::vector<std::pair<uint16_t, uint16_t>> pairs;
  const auto state_of = [&](uint16_t x, uint16_t y) {
    const auto [position, added] = states.try_emplace({x, y}, static_cast<uint16_t>(pairs.size()));
    if (added) {
      const bool in_b = y != Dfa::kDead && b.accepting[y];
      dfa.accepting.push_back(a.accepting[x] && in_b != subtract);
      dfa.next.emplace_back().fill(Dfa::kDead);
      pairs.emplace_back(x, y);
    }
    return position->second;
  };
  state_of(0, b.empty() ? Dfa::kDead : 0);
  for (size_t state = 0; state < pairs.size(); ++state) {
    const auto [x, y] = pairs[state];
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint16_t to_x = a.next[x][byte];
      const uint16_t to_y = y == Dfa::kDead ? Dfa::kDead : b.next[y][byte];
      if (to_x == Dfa::kDead || (to_y == Dfa::kDead && !subtract)) continue;
      const uint16_t to = state_of(to_x, to_y);
      dfa.next[state][byte] = to;
    }
    if (pairs.size() > kMaxDfaStates) return TooLarge();
  }
  return Trim(dfa);
}

}  // namespace

absl::StatusOr<Dfa> BuildDfa(const Nfa& nfa, Nfa::Part part) { return SubsetBuilder(nfa, part).Build(); }
absl::StatusOr<Dfa> Intersect(const Dfa& a, const Dfa& b) { return Product(a, b, false); }
absl::StatusOr<Dfa> Subtract(const Dfa& a, const Dfa& b) { return Product(a, b, true); }

}  // namespace spillway::grammar
