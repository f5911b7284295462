#include "engine/grammar/token_trie.h"

#include <algorithm>
#include <numeric>

#include "engine/tokenizer/tokenizer.h"

namespace spillway::grammar {

TokenTrie::TokenTrie(const std::vector<std::string>& tokens, std::vector<int32_t> stop_ids)
    : stop_ids_(std::move(stop_ids)) {
  std::sort(stop_ids_.begin(), stop_ids_.end());
  offsets_.push_back(0);
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (!IsStop(static_cast<int32_t>(id)) && tokens[id].size() <= kMaxTokenBytes) {
      bytes_ += tokens[id];
      if (!tokens[id].empty()) token_order_.push_back(static_cast<int32_t>(id));
      longest_ = std::max(longest_, static_cast<uint32_t>(tokens[id].size()));
    }
    offsets_.push_back(static_cast<uint32_t>(bytes_.size()));
  }
  std::sort(token_order_.begin(), token_order_.end(), [this](int32_t a, int32_t b) {
    const std::string_view x = Bytes(a);
    const std::string_view y = Bytes(b);
    return x != y ? x < y : a < b;
  });
  // In this order a token's nodes follow those of the prefix it shares with the one before.
  std::vector<uint32_t> path;  // the nodes of the last token
  std::string_view last;
  for (size_t i = 0; i < token_order_.size(); ++i) {
    const std::string_view token = Bytes(token_order_[i]);
    const auto shared = static_cast<size_t>(
        std::mismatch(last.begin(),
                      last.begin() + static_cast<std::ptrdiff_t>(std::min(last.size(), token.size())),
                      token.begin())
            .first -
        last.begin());
    for (; path.size() > shared; path.pop_back())
      nodes_[path.back()].end = static_cast<uint32_t>(nodes_.size());
    for (size_t k = shared; k < token.size(); ++k) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back(
          {0, static_cast<uint32_t>(i), static_cast<uint8_t>(token[k]), static_cast<uint8_t>(k + 1)});
    }
    last = token;
  }
  for (const uint32_t node : path) nodes_[node].end = static_cast<uint32_t>(nodes_.size());
  nodes_.push_back({0, static_cast<uint32_t>(token_order_.size()), 0, 0});
}

std::shared_ptr<const TokenTrie> TokenTrie::Build(const Tokenizer& tokenizer) {
  std::vector<std::string> tokens;
  tokens.reserve(tokenizer.n_vocab());
  for (uint32_t id = 0; id < tokenizer.n_vocab(); ++id)
    tokens.push_back(tokenizer.TokenBytes(static_cast<int32_t>(id), /*special=*/false));
  return std::make_shared<const TokenTrie>(tokens, tokenizer.stop_ids());
}

bool TokenTrie::IsStop(int32_t token) const {
  return std::binary_search(stop_ids_.begin(), stop_ids_.end(), token);
}

std::string_view TokenTrie::Bytes(int32_t token) const {
  if (token < 0 || static_cast<size_t>(token) + 1 >= offsets_.size()) return {};
  const size_t begin = offsets_[static_cast<size_t>(token)];
  return std::string_view(bytes_).substr(begin, offsets_[static_cast<size_t>(token) + 1] - begin);
}

}  // namespace spillway::grammar
