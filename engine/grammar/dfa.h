// A deterministic automaton over bytes, trimmed: from every state it has, an accepting one can be reached.
#pragma once

#include <absl/status/statusor.h>

#include <array>
#include <cstdint>
#include <vector>

#include "engine/grammar/nfa.h"

namespace spillway::grammar {

inline constexpr size_t kMaxDfaStates = 4096;

struct Dfa {
  static constexpr uint16_t kDead = 0xFFFF;
  std::vector<std::array<uint16_t, 256>> next;  // state 0 is the start; none where the language is empty
  std::vector<bool> accepting;

  bool empty() const { return next.empty(); }
};

// ResourceExhausted past kMaxDfaStates states.
absl::StatusOr<Dfa> BuildDfa(const Nfa& nfa, Nfa::Part part);

// What both accept, or what `a` accepts and `b` does not.
absl::StatusOr<Dfa> Intersect(const Dfa& a, const Dfa& b);
absl::StatusOr<Dfa> Subtract(const Dfa& a, const Dfa& b);

}  // namespace spillway::grammar
