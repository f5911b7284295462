// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC'11). A draw depends only on (seed, choice, position), so replay, batching and failover cannot change it.
#pragma once

#include <array>
#include <cstdint>

namespace spillway {

inline std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// Uniform in [0, 1) with 53 bits. Key = seed (64 bits); counter = (position, choice).
inline double UniformDraw(uint64_t seed, uint32_t choice, uint64_t position) {
  const auto r =
      Philox4x32({static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), choice, 0},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  const uint64_t bits = (uint64_t{r[0]} << 32 | r[1]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace spillway
