#include <xxhash.h>

#include "engine/stage/stage.h"

namespace spillway {

uint64_t ExtendPrefixHash(uint64_t hash, int32_t token) {
  const uint32_t value = static_cast<uint32_t>(token);
  const unsigned char bytes[4] = {static_cast<unsigned char>(value), static_cast<unsigned char>(value >> 8),
                                  static_cast<unsigned char>(value >> 16),
                                  static_cast<unsigned char>(value >> 24)};
  return XXH3_64bits_withSeed(bytes, sizeof(bytes), hash);
}

uint64_t PrefixHash(std::span<const int32_t> tokens) {
  uint64_t hash = 0;
  for (int32_t token : tokens) hash = ExtendPrefixHash(hash, token);
  return hash;
}

}  // namespace spillway
