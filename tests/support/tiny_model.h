// Writes small random models (llama, or hybrids of recurrent layers and attention) with a working byte-level
// BPE vocabulary and a ChatML template, so that any test can have a whole model in milliseconds. The same
// options give the same bytes on every machine.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>

#include "engine/gguf/writer.h"
#include "engine/quant/formats.h"

namespace spillway::test {

struct TinyModel {
  // llama, qwen35, qwen35moe or qwen3next; of the latter three the last layer of each two is attention.
  std::string architecture = "llama";
  uint32_t n_layer = 2;
  uint32_t n_embd = 64;
  uint32_t n_head = 4;
  uint32_t n_head_kv = 2;
  uint32_t n_ff = 128;
  uint32_t n_vocab = 320;  // at least 259: bytes and control tokens
  uint32_t n_ctx = 2048;
  uint32_t head_dim = 0;  // 0: n_embd / n_head
  // Of all matrices, the embedding included; norms are F32. Row lengths (n_embd, n_ff, n_head * head_dim)
  // must be multiples of its block: 256 for Q4_K and Q6_K. Needs a quantizer (engine/quant/quantize.h).
  TensorType weight_type = TensorType::kF16;
  uint64_t seed = 1;
  bool tied = true;         // no output.weight
  bool rope_freqs = false;  // rope_freqs.weight with divisors from 1 to 8
  float rope_freq_base = 10000.0f;
  float norm_eps = 1e-5f;
  // Of hybrids: heads of 16 dimensions.
  uint32_t n_head_k = 2;
  uint32_t n_head_v = 6;

  bool Hybrid() const { return architecture != "llama"; }
  bool Experts() const { return architecture == "qwen35moe" || architecture == "qwen3next"; }
};
inline constexpr uint32_t kTinyStateDim = 16;  // of a recurrent head's keys and values

// Token id = byte value for 0..255 (in GPT-2's printable alphabet); then the control tokens; then merges.
inline constexpr uint32_t kTinyEndOfText = 256;  // <|endoftext|>: bos and padding
inline constexpr uint32_t kTinyImStart = 257;    // <|im_start|>
inline constexpr uint32_t kTinyImEnd = 258;      // <|im_end|>: eos

// The model in a writer, for tests that change something before writing.
absl::StatusOr<GgufWriter> MakeTinyModel(const TinyModel& model, GgufWriter::Options options = {});

// Writes one file. Returns the path.
absl::StatusOr<std::string> WriteTinyModel(const TinyModel& model, const std::string& path);

}  // namespace spillway::test
