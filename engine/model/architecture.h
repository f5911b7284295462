// The table of architectures: what varies between them, as data. A row is all it takes to support an
// architecture whose forward pass LayerSpec can describe. Private to engine/model: backends never see an
// architecture.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/model/config.h"

namespace spillway::model {

enum class Presence : uint8_t { kAbsent, kOptional, kRequired };

struct Architecture {
  std::string_view name;  // general.architecture, and the prefix of its keys
  RopeKind rope;
  Presence qkv_bias;
  Presence output_bias;
  bool qk_norm;
};

// Unimplemented, listing the supported ones, when `name` is not in the table.
absl::StatusOr<const Architecture*> FindArchitecture(std::string_view name);

// Reads and checks every key; n_vocab stays 0 (it is the embedding's row count).
absl::StatusOr<ModelConfig> ReadConfig(const GgufFile& file, const Architecture& architecture);

// Finds and checks every tensor of `model` (file and config set) and sets n_vocab. Unimplemented when the
// file holds a tensor that nothing would use: ignoring it would give wrong tokens.
absl::Status BindTensors(const Architecture& architecture, Model* model);

}  // namespace spillway::model
