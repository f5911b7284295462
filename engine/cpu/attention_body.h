// Bodies of attention over pages, and of what is written to them, over a 16-lane type V; f16 and q8_0 pages.
// The order of every float operation here is the text of docs/numerics.md.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/cpu/kernels.h"
#include "engine/cpu/vector_body.h"

namespace spillway::cpu {

template <class V>
struct AttentionBody {
  using F = typename V::F;

  static constexpr uint32_t kBlock = 32;  // dimensions that share a scale

  static const uint16_t* Halves(const std::byte* p) { return reinterpret_cast<const uint16_t*>(p); }
  static uint16_t* Halves(std::byte* p) { return reinterpret_cast<uint16_t*>(p); }
  static F LoadCodes(const std::byte* p) {
    return V::ToFloat(V::LoadI8(reinterpret_cast<const uint8_t*>(p)));
  }

  // f16 of up to 16 values, zeros behind them.
  static void HalvesOf(const float* x, uint32_t count, uint16_t* halves) {
    alignas(64) float part[16] = {};
    std::copy_n(x, count, part);
    V::StoreF16(halves, V::Load(part));
  }

  // Codes of up to 32 values, zeros behind them. Returns the scale, as f16.
  static uint16_t CodesOf(const float* x, uint32_t count, int8_t* codes) {
    alignas(64) float part[kBlock] = {};
    std::copy_n(x, count, part);
    const F low = V::Load(part), high = V::Load(part + 16);
    const float largest = V::MaxOf(V::Max(V::Abs(low), V::Abs(high)));
    const F inverse = V::Set1(largest > 0.0f ? 127.0f / largest : 0.0f);
    V::StoreI8(codes, V::Mul(low, inverse));
    V::StoreI8(codes + 16, V::Mul(high, inverse));
    alignas(64) uint16_t scale[16];
    V::StoreF16(scale, V::Set1(largest / 127.0f));
    return scale[0];
  }

  static void StoreKey(CacheType type, const float* k, uint32_t dim, uint32_t slot, std::byte* page) {
    if (type == CacheType::kF16) {
      for (uint32_t d = 0; d < dim; d += 16) {
        alignas(64) uint16_t halves[16];
        const uint32_t count = std::min(16u, dim - d);
        HalvesOf(k + d, count, halves);
        for (uint32_t i = 0; i < count; ++i) Halves(page)[(d + i) * kPageTokens + slot] = halves[i];
      }
      return;
    }
    for (uint32_t d = 0; d < dim; d += kBlock) {
      alignas(64) int8_t codes[kBlock];
      const uint32_t count = std::min(kBlock, dim - d);
      Halves(page + dim * kPageTokens)[d + slot] = CodesOf(k + d, count, codes);
      for (uint32_t i = 0; i < count; ++i) {
        page[(d + i) * kPageTokens + slot] = static_cast<std::byte>(codes[i]);
      }
    }
  }

  static void StoreValue(CacheType type, const float* v, uint32_t dim, uint32_t slot, std::byte* page) {
    const uint32_t padded = PadTo16(dim);
    if (type == CacheType::kF16) {
      uint16_t* row = Halves(page) + uint64_t{slot} * padded;
      for (uint32_t d = 0; d < dim; d += 16) HalvesOf(v + d, std::min(16u, dim - d), row + d);
      return;
    }
    for (uint32_t d = 0; d < dim; d += kBlock) {
      alignas(64) int8_t codes[kBlock];
      Halves(page + padded * kPageTokens)[d + slot] = CodesOf(v + d, std::min(kBlock, dim - d), codes);
      std::copy_n(reinterpret_cast<const std::byte*>(codes), std::min(kBlock, padded - d),
                  page + slot * padded + d);
    }
  }

  // One row, G query heads of one key/value head: each cached key and value is converted once for all G.
  template <int G>
  static void AttendHeads(const AttendArgs& args) {
    const uint32_t padded_tokens = PagesFor(args.n_tokens) * kPageTokens;
    Scores<G>(args, padded_tokens);
    float sinks[G], inverse[G];
    for (int h = 0; h < G; ++h) sinks[h] = Softmax(args, h, padded_tokens);
    Inverses<G>(args, padded_tokens, sinks, inverse);
    if (args.v_pages == nullptr) return WeightedLatents<G>(args, padded_tokens, inverse);
    if (args.v_type == CacheType::kF16) return WeightedValues<G>(args, padded_tokens, inverse);
    WeightedCodes<G>(args, padded_tokens, inverse);
  }

  static const std::byte* KeyPage(const AttendArgs& args, uint32_t t) {
    return args.k_pages + args.pages[t / kPageTokens] * args.page_stride;
  }

  // scores[h, t] = scale * sum_d q[h, d] k[d, t], d ascending in one chain; lanes are positions.
  template <int G>
  static void Scores(const AttendArgs& args, uint32_t padded_tokens) {
    const F scale = V::Set1(args.scale);
    for (uint32_t t = FirstPageToken(args); t < padded_tokens; t += 16) {
      F sum[G];
      for (int h = 0; h < G; ++h) sum[h] = V::Zero();
      const std::byte* page = KeyPage(args, t);
      args.k_type == CacheType::kF16 ? AddHalves<G>(args, page, t % kPageTokens, sum)
                                     : AddCodes<G>(args, page, t % kPageTokens, sum);
      for (int h = 0; h < G; ++h) {
        const F score = V::Mul(sum[h], scale);
        V::Store(args.scores + h * padded_tokens + t,
                 args.softcap == 0.0f ? score : VectorBody<V>::Softcapped(score, args.softcap));
      }
    }
  }

  template <int G>
  static void AddHalves(const AttendArgs& args, const std::byte* page, uint32_t slot, F (&sum)[G]) {
    const uint16_t* k = Halves(page) + slot;
    for (uint32_t d = 0; d < args.head_dim; ++d) {
      const F key = V::LoadF16(k + d * kPageTokens);
      for (int h = 0; h < G; ++h) sum[h] = V::Fma(V::Set1(args.q[h * args.q_stride + d]), key, sum[h]);
    }
  }

  // Per block of dimensions a chain over codes, then scaled and added.
  template <int G>
  static void AddCodes(const AttendArgs& args, const std::byte* page, uint32_t slot, F (&sum)[G]) {
    const uint16_t* scales = Halves(page + args.head_dim * kPageTokens) + slot;
    for (uint32_t begin = 0; begin < args.head_dim; begin += kBlock) {
      F part[G];
      for (int h = 0; h < G; ++h) part[h] = V::Zero();
      const uint32_t end = std::min(begin + kBlock, args.head_dim);
      for (uint32_t d = begin; d < end; ++d) {
        const F key = LoadCodes(page + d * kPageTokens + slot);
        for (int h = 0; h < G; ++h) part[h] = V::Fma(V::Set1(args.q[h * args.q_stride + d]), key, part[h]);
      }
      const F scale = V::LoadF16(scales + begin);
      for (int h = 0; h < G; ++h) sum[h] = V::Fma(scale, part[h], sum[h]);
    }
  }

  // Pages before the window are not read.
  static uint32_t FirstPageToken(const AttendArgs& args) {
    return args.first_token / kPageTokens * kPageTokens;
  }

  // In place: e^(s - max); positions outside [first_token, n_tokens) count as zero. The division comes at the
  // end of the weighted sum, so the weights stay unnormalised. Returns what the sink adds to their sum.
  static float Softmax(const AttendArgs& args, int h, uint32_t padded_tokens) {
    float* scores = args.scores + uint64_t{static_cast<uint32_t>(h)} * padded_tokens;
    const uint32_t begin = FirstPageToken(args);
    const auto outside = [&](float value) {
      for (uint32_t t = begin; t < args.first_token; ++t) scores[t] = value;
      for (uint32_t t = args.n_tokens; t < padded_tokens; ++t) scores[t] = value;
    };
    outside(-3.0e38f);
    F largest = V::Load(scores + begin);
    for (uint32_t t = begin + 16; t < padded_tokens; t += 16) largest = V::Max(largest, V::Load(scores + t));
    if (args.sinks != nullptr) largest = V::Max(largest, V::Set1(args.sinks[h]));
    const F shift = V::Set1(V::MaxOf(largest));
    for (uint32_t t = begin; t < padded_tokens; t += 16)
      V::Store(scores + t, VectorBody<V>::Exp(V::Sub(V::Load(scores + t), shift)));
    outside(0.0f);
    if (args.sinks == nullptr) return 0.0f;
    alignas(64) float sink[16];
    V::Store(sink, VectorBody<V>::Exp(V::Sub(V::Set1(args.sinks[h]), shift)));
    return sink[0];
  }

  // inverse[h] = 1 / (sum_t p[h, t] + sink).
  template <int G>
  static void Inverses(const AttendArgs& args, uint32_t padded_tokens, const float* sinks, float* inverse) {
    for (int h = 0; h < G; ++h) {
      F total = V::Zero();
      const float* scores = args.scores + uint64_t{static_cast<uint32_t>(h)} * padded_tokens;
      for (uint32_t t = FirstPageToken(args); t < padded_tokens; t += 16)
        total = V::Add(total, V::Load(scores + t));
      inverse[h] = 1.0f / (V::Sum(total) + sinks[h]);
    }
  }

  // out[h, d] = (sum_t p[h, t] k[d, t]) * inverse[h]; lanes are positions, added up at the end.
  template <int G>
  static void WeightedLatents(const AttendArgs& args, uint32_t padded_tokens, const float* inverse) {
    const bool codes = args.k_type == CacheType::kQ8_0;
    for (uint32_t d = 0; d < args.value_dim; ++d) {
      F sum[G];
      for (int h = 0; h < G; ++h) sum[h] = V::Zero();
      for (uint32_t t = FirstPageToken(args); t < args.n_tokens; t += 16) {
        const std::byte* page = KeyPage(args, t);
        const uint32_t slot = t % kPageTokens;
        // Of codes the scales: they weigh p first.
        const uint16_t* halves = codes
                                     ? Halves(page + args.head_dim * kPageTokens) + d / kBlock * kBlock + slot
                                     : Halves(page) + uint64_t{d} * kPageTokens + slot;
        alignas(64) uint16_t tail[16] = {};
        if (args.n_tokens - t < 16) {  // what stands behind the last position was never written
          std::copy_n(halves, args.n_tokens - t, tail);
          halves = tail;
        }
        const F value = V::LoadF16(halves);
        for (int h = 0; h < G; ++h) {
          const F p = V::Load(args.scores + h * padded_tokens + t);
          sum[h] = codes ? V::Fma(V::Mul(p, value), LoadCodes(page + d * kPageTokens + slot), sum[h])
                         : V::Fma(p, value, sum[h]);
        }
      }
      for (int h = 0; h < G; ++h) args.out[h * args.out_stride + d] = V::Sum(sum[h]) * inverse[h];
    }
  }

  // out[h, d] = (sum_t p[h, t] v[t, d]) * inverse[h], t ascending in one chain; lanes are dimensions.
  template <int G>
  static void WeightedValues(const AttendArgs& args, uint32_t padded_tokens, const float* inverse) {
    const uint32_t padded_dim = PadTo16(args.head_dim);
    for (uint32_t d = 0; d < args.head_dim; d += 16) {
      F sum[G];
      for (int h = 0; h < G; ++h) sum[h] = V::Zero();
      for (uint32_t page = args.first_token / kPageTokens; page * kPageTokens < args.n_tokens; ++page) {
        const uint16_t* v = Halves(args.v_pages + args.pages[page] * args.page_stride) + d;
        const uint32_t begin = page * kPageTokens;
        const uint32_t end = std::min(begin + kPageTokens, args.n_tokens);
        for (uint32_t t = begin; t < end; ++t, v += padded_dim) {
          const F value = V::LoadF16(v);
          for (int h = 0; h < G; ++h)
            sum[h] = V::Fma(V::Set1(args.scores[h * padded_tokens + t]), value, sum[h]);
        }
      }
      Finish<G>(args, d, sum, inverse);
    }
  }

  // The same over codes: each p is multiplied by the scale of its position's block first.
  template <int G>
  static void WeightedCodes(const AttendArgs& args, uint32_t padded_tokens, const float* inverse) {
    const uint32_t padded_dim = PadTo16(args.head_dim);
    for (uint32_t d = 0; d < args.head_dim; d += 16) {
      F sum[G];
      for (int h = 0; h < G; ++h) sum[h] = V::Zero();
      for (uint32_t page = args.first_token / kPageTokens; page * kPageTokens < args.n_tokens; ++page) {
        const std::byte* v = args.v_pages + args.pages[page] * args.page_stride;
        const uint16_t* scales = Halves(v + padded_dim * kPageTokens) + d / kBlock * kBlock;
        const uint32_t begin = page * kPageTokens;
        const uint32_t count = std::min(kPageTokens, args.n_tokens - begin);
        alignas(64) float weights[G][kPageTokens];
        for (uint32_t i = 0; i < kPageTokens; i += 16) {
          const F scale = V::LoadF16(scales + i);
          for (int h = 0; h < G; ++h) {
            V::Store(weights[h] + i, V::Mul(V::Load(args.scores + h * padded_tokens + begin + i), scale));
          }
        }
        for (uint32_t i = 0; i < count; ++i) {
          const F value = LoadCodes(v + i * padded_dim + d);
          for (int h = 0; h < G; ++h) sum[h] = V::Fma(V::Set1(weights[h][i]), value, sum[h]);
        }
      }
      Finish<G>(args, d, sum, inverse);
    }
  }

  // Up to 16 dimensions of every head's sum, divided.
  template <int G>
  static void Finish(const AttendArgs& args, uint32_t d, const F (&sum)[G], const float* inverse) {
    for (int h = 0; h < G; ++h) {
      alignas(64) float part[16];
      V::Store(part, V::Mul(sum[h], V::Set1(inverse[h])));
      std::copy_n(part, std::min(16u, args.head_dim - d), args.out + h * args.out_stride + d);
    }
  }

  static void Attend(const AttendArgs& args) {
    switch (args.heads) {
      case 1:
        return AttendHeads<1>(args);
      case 2:
        return AttendHeads<2>(args);
      case 3:
        return AttendHeads<3>(args);
      default:
        return AttendHeads<4>(args);
    }
  }
};

}  // namespace spillway::cpu
