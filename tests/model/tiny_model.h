// Makes tiny models with seeded random weights through engine/gguf's writer, for every test that needs a
// model without golden data: any backend, any layout of heads, any weight format that has a quantizer, and
// files broken on purpose.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/gguf/writer.h"
#include "engine/model/config.h"

namespace spillway::tiny {

// Row lengths must be multiples of the matrix format's block: 32, or 256 for the K formats.
struct TinyModelSpec {
  std::string architecture = "llama";
  uint32_t n_layer = 3;
  uint32_t n_embd = 64;
  uint32_t n_head = 4;
  uint32_t n_head_kv = 2;
  uint32_t head_dim = 16;
  uint32_t n_ff = 96;
  uint32_t n_vocab = 48;
  uint32_t n_ctx_train = 512;
  TensorType matrix_type = TensorType::kF32;
  bool tied_head = false;
  bool rope_freqs = false;
  bool qkv_bias = false;
  bool output_bias = false;
  bool qk_norm = false;
  uint32_t seed = 1;

  // To break files: another shape (empty = leave the tensor out) by name, and any change of keys.
  std::map<std::string, std::vector<uint64_t>> reshape;
  std::function<void(GgufWriter&)> edit;
};

absl::StatusOr<GgufWriter> MakeTinyModel(const TinyModelSpec& spec);
// Writes the file at `path`.
absl::Status WriteTinyModel(const TinyModelSpec& spec, const std::string& path);
// Through a temporary file that is gone when the model is loaded (the maps stay).
absl::StatusOr<Model> LoadTinyModel(const TinyModelSpec& spec);

}  // namespace spillway::tiny
