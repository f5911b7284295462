// A context-free grammar over bytes: literals and automata joined by sequences, choices and counted repeats.
// Children may refer back to where they are used (recursion). Plain data, made by the schema compiler, run by
// Automaton.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/grammar/dfa.h"

namespace spillway::grammar {

class Grammar {
 public:
  enum class Kind : uint8_t { kLiteral, kDfa, kSequence, kChoice, kRepeat };
  struct Node {
    Kind kind = Kind::kChoice;
    uint32_t min = 0, max = 0;  // kRepeat
    uint32_t index = 0;         // of the text or the automaton
    std::vector<uint32_t> children = {};
  };
  static constexpr uint32_t kUnbounded = UINT32_MAX;
  static constexpr uint32_t kNever = UINT32_MAX;  // Need() of what no text satisfies

  uint32_t AddLiteral(std::string text) {
    texts_.push_back(std::move(text));
    return Add({.kind = Kind::kLiteral, .index = static_cast<uint32_t>(texts_.size() - 1)});
  }
  uint32_t AddDfa(Dfa dfa) {
    dfas_.push_back(std::move(dfa));
    return Add({.kind = Kind::kDfa, .index = static_cast<uint32_t>(dfas_.size() - 1)});
  }
  uint32_t AddSequence(std::vector<uint32_t> children) {
    return Add({.kind = Kind::kSequence, .children = std::move(children)});
  }
  uint32_t AddChoice(std::vector<uint32_t> children) {
    return Add({.kind = Kind::kChoice, .children = std::move(children)});
  }
  // The child must not accept the empty text.
  uint32_t AddRepeat(uint32_t child, uint32_t min, uint32_t max) {
    return Add({.kind = Kind::kRepeat, .min = min, .max = max, .children = {child}});
  }
  uint32_t AddEmpty() { return AddSequence({}); }
  uint32_t AddOptional(uint32_t child) { return AddChoice({child, AddEmpty()}); }
  // A choice that gets its children later.
  uint32_t AddPlaceholder() { return AddChoice({}); }
  void Fill(uint32_t placeholder, uint32_t child) { nodes_[placeholder].children = {child}; }

  // To be called once, after the last Add: what is needed of the stack to come to an end from each node.
  void Finish(uint32_t root);

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::string& text(const Node& node) const { return texts_[node.index]; }
  const Dfa& dfa(const Node& node) const { return dfas_[node.index]; }
  uint32_t root() const { return root_; }
  uint32_t Need(uint32_t node) const { return need_[node]; }
  bool has_long_repeats() const { return has_long_repeats_; }

 private:
  uint32_t Add(Node node) {
    nodes_.push_back(std::move(node));
    return static_cast<uint32_t>(nodes_.size() - 1);
  }
  uint32_t NeedOf(const Node& node) const;

  std::vector<Node> nodes_;
  std::vector<std::string> texts_;
  std::vector<Dfa> dfas_;
  std::vector<uint32_t> need_;
  uint32_t root_ = 0;
  bool has_long_repeats_ = false;
};

}  // namespace spillway::grammar
