// Runs stages one after another in this process: what tests and `spillway logits` use where the gateway would
// use gRPC. Any backend's stages, in any mix; knows none of them. Allocates freely.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "engine/stage/stage.h"

namespace spillway {

// Sends one micro-batch through all stages; `output` is the last stage's and valid until its next Forward.
// The first segment that any stage refuses becomes the status, with its error.
absl::Status RunMicroBatch(std::span<Stage* const> stages, std::span<const Segment> segments,
                           ForwardOutput* output);

// Logits at positions [first, tokens.size()), row-major [positions, n_vocab], of a new sequence that is
// closed again. `chunk` rows per micro-batch (at most what the stages take). The last stage must hold the
// head.
absl::StatusOr<std::vector<float>> LogitsFrom(std::span<Stage* const> stages, std::span<const int32_t> tokens,
                                              uint32_t first, uint32_t chunk);
absl::StatusOr<std::vector<float>> AllLogits(std::span<Stage* const> stages, std::span<const int32_t> tokens,
                                             uint32_t chunk);

// The `count` tokens that greedy decoding appends to `prompt`; end-of-sequence ids do not stop it.
absl::StatusOr<std::vector<int32_t>> GreedyTokens(std::span<Stage* const> stages,
                                                  std::span<const int32_t> prompt, uint32_t count,
                                                  uint32_t chunk);

}  // namespace spillway
