// Finds tokens that are written in the text as they are (control and user-defined ones) before it is split
// into words. A trie over bytes; one pass, leftmost match first, the longest at each place.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <array>
#include <cstdint>
#include <string_view>

namespace spillway {

// Thread-safe once built.
class SpecialTokens {
 public:
  void Add(std::string_view text, int32_t id);  // empty text is ignored; the first of two equal texts stays

  struct Match {
    size_t begin = 0;
    size_t length = 0;  // 0: none found, `begin` is the end of the text
    int32_t id = -1;
  };
  // The first match at or after `from`.
  Match Find(std::string_view text, size_t from) const;

 private:
  static uint64_t Edge(uint32_t node, char byte) { return uint64_t{node} << 8 | static_cast<uint8_t>(byte); }

  std::array<bool, 256> starts_ = {};  // most bytes begin no special token: skips the map
  absl::flat_hash_map<uint64_t, uint32_t> edges_;
  absl::flat_hash_map<uint32_t, int32_t> ids_;
  uint32_t n_nodes_ = 1;
};

}  // namespace spillway
