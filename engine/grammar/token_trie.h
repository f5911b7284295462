// A vocabulary's tokens as a trie over their bytes, in depth-first order, so that all tokens an automaton
// accepts are found by walking only where it lives. Control tokens and ids that end a generation are not in
// it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {
class Tokenizer;
}

namespace spillway::grammar {

// Immutable; thread-safe.
class TokenTrie {
 public:
  struct Node {
    uint32_t end;          // one past its subtree; children follow their parent
    uint32_t token_begin;  // its tokens are [token_begin, the next node's token_begin)
    uint8_t byte;
    uint8_t depth;  // of the root's children: 1
  };
  static constexpr size_t kMaxTokenBytes = 255;  // longer tokens are never allowed

  // tokens[id]: the bytes it adds to the text, "" for none.
  TokenTrie(const std::vector<std::string>& tokens, std::vector<int32_t> stop_ids);
  static std::shared_ptr<const TokenTrie> Build(const Tokenizer& tokenizer);

  const std::vector<Node>& nodes() const { return nodes_; }  // without the root; a last one closes the tokens
  size_t size() const { return nodes_.size() - 1; }
  const std::vector<int32_t>& token_order() const { return token_order_; }
  const std::vector<int32_t>& stop_ids() const { return stop_ids_; }
  uint32_t n_vocab() const { return static_cast<uint32_t>(offsets_.size() - 1); }
  uint32_t longest() const { return longest_; }  // bytes of a token in the trie
  bool IsStop(int32_t token) const;
  std::string_view Bytes(int32_t token) const;  // "" where the token is not in the trie

 private:
  std::vector<Node> nodes_;
  std::vector<int32_t> token_order_;
  std::vector<int32_t> stop_ids_;
  std::string bytes_;
  std::vector<uint32_t> offsets_;
  uint32_t longest_ = 0;
};

}  // namespace spillway::grammar
