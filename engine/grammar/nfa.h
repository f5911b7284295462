// A nondeterministic automaton over bytes (Thompson's construction): what patterns and number ranges are made
// of before they become a Dfa.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace spillway::grammar {

// Confined to one thread.
class Nfa {
 public:
  struct Edge {
    uint8_t low, high;  // bytes [low, high]
    uint32_t to;
  };
  struct State {
    std::vector<Edge> edges;
    std::vector<uint32_t> empty;  // moves without a byte
  };
  struct Part {
    uint32_t begin, end;
  };

  uint32_t AddState() {
    states_.emplace_back();
    return static_cast<uint32_t>(states_.size() - 1);
  }
  void AddEdge(uint32_t from, uint8_t low, uint8_t high, uint32_t to) {
    states_[from].edges.push_back({low, high, to});
  }
  void AddEmpty(uint32_t from, uint32_t to) { states_[from].empty.push_back(to); }
  // The UTF-8 forms of code points [low, high], surrogates left out.
  void AddCodePoints(uint32_t from, uint32_t low, uint32_t high, uint32_t to);

  const std::vector<State>& states() const { return states_; }
  size_t size() const { return states_.size(); }

 private:
  void AddUtf8(uint32_t from, const uint8_t* low, const uint8_t* high, int count, uint32_t to);
  std::vector<State> states_;
};

}  // namespace spillway::grammar
