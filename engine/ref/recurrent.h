// Gated DeltaNet in double, token by token, and the states of sequences. Private to engine/ref. Source: Yang
// et al., "Gated Delta Networks".
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/ledger.h"
#include "engine/model/config.h"
#include "engine/ref/layer_state.h"

namespace spillway::ref {

// Slots, each with the state of every recurrent layer of the stage (RecurrentSpec::State doubles).
class RecurrentStates {
 public:
  static absl::StatusOr<RecurrentStates> Create(Ledger& ledger, std::span<const LayerSpec> layers,
                                                uint32_t slots);

  // `layer` counts from the stage's first.
  double* At(uint32_t slot, uint32_t layer);
  void Copy(uint32_t source, uint32_t target);

 private:
  std::vector<uint64_t> layer_offsets_;  // doubles from the start of a slot
  uint64_t slot_size_ = 0;               // doubles
  Buffer buffer_;
};

// Normed rows (rows, n_embd), one after another, through a state that is left as it is after the last of
// them. Returns what the output's product reads (rows, Values).
std::vector<double> Recur(const LayerSpec& spec, const LayerWeights& weights, std::span<const double> normed,
                          std::span<double> state);

}  // namespace spillway::ref
