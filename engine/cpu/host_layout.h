// The memory of a host stage as data: every buffer with its purpose and size. The planner sums it, HostStage
// allocates it; there is no other way a large byte comes into being (law 3).
#pragma once

#include <absl/status/statusor.h>

#include <array>
#include <cstdint>
#include <vector>

#include "engine/base/ledger.h"
#include "engine/cpu/pack.h"
#include "engine/model/config.h"
#include "engine/stage/stage.h"

namespace spillway::cpu {

// A weight matrix or vector to be laid out: from which tensor, in which packing, at which offset of the
// weight arena.
struct PlannedTensor {
  const GgufTensor* tensor = nullptr;  // nullptr: the model has none
  Packing packing = Packing::kF32;     // of a matrix
  bool vector = false;                 // rows widened to float32, padded with zeros to 16
  bool transposed = false;  // the tensor's slabs, or vectors, are (n_in, n_out): widened to float32
  uint32_t n_slabs = 1;     // experts, or heads
  uint32_t n_out = 0;       // rows of a slab
  uint32_t n_in = 0;        // contiguous
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// Order of a layer's tensors in HostLayout::layers.
enum LayerSlot : size_t {
  kAttnNorm,
  kAttnQ,
  kAttnK,
  kAttnV,
  kAttnOutput,
  kAttnQBias,
  kAttnKBias,
  kAttnVBias,
  kAttnOutputBias,
  kAttnQNorm,
  kAttnKNorm,
  kAttnQA,
  kAttnQANorm,
  kAttnQB,
  kAttnKvA,
  kAttnKvANorm,
  kAttnKB,
  kAttnVB,
  kAttnSinks,
  kSsmQkv,
  kSsmGate,
  kSsmAlpha,
  kSsmBeta,
  kSsmBetaAlpha,
  kSsmConv,
  kSsmA,
  kSsmDt,
  kSsmNorm,
  kSsmOut,
  kAttnPostNorm,
  kFfnNorm,
  kFfnGate,
  kFfnUp,
  kFfnDown,
  kFfnPostNorm,
  kRouter,
  kRouterBias,
  kSelectionBias,
  kGateExperts,
  kUpExperts,
  kDownExperts,
  kGateExpertBias,
  kUpExpertBias,
  kDownExpertBias,
  kSharedRouter,
  kSharedGate,
  kSharedUp,
  kSharedDown,
  kLayerSlots
};

// Work buffers, in elements of the type named.
enum BufferSlot : size_t {
  kResidual,      // f32 (max_rows, embd_stride): x
  kInput,         // f32 (max_rows, input_stride): what a matrix product reads
  kQkv,           // f32 (max_rows, qkv_stride): q, k, v side by side, then q with its gates; else see
                  // LatentColumns, RecurrentColumns
  kGate,          // f32 (max_rows, ff_stride): of a dense layer, or of each expert a row visits side by side
  kUp,            // f32 (max_rows, ff_stride)
  kCodes,         // i8 (max_rows, code_stride)
  kBlocks,        // ActivationBlock (max_rows, code_stride / 32)
  kAngles,        // f32 (max_rows, 2, angle_stride): cos, sin
  kScores,        // f32 (threads, 4, n_ctx padded to 32)
  kLogits,        // f32 (16, vocab_stride); head only
  kSampling,      // bytes; head only
  kKv,            // pages, see HostLayout::pages
  kState,         // f32 (max_sequences * kStateSlots, state_stride)
  kBranch,        // f32 (max_rows, embd_stride): a block's output, where it is not added as it comes
  kRouterLogits,  // f32 (max_rows, router_stride): experts, then 16 columns of the shared one
  kExpertOut,     // f32 (embd_stride)
  kOutput,        // f32 (max_rows, n_embd); not on the head
  kLogitsOut,     // f32 (kMaxLogitRows, n_vocab); head only
  kTop,           // TokenLogprob (max_rows, 20); head only
  kBufferSlots
};

struct PlannedBuffer {
  Purpose purpose = Purpose::kActivations;
  uint64_t bytes = 0;
};

struct HostLayout {
  std::vector<std::array<PlannedTensor, kLayerSlots>> layers;
  PlannedTensor output_norm;  // head only
  PlannedTensor output;       // head only
  uint64_t weight_bytes = 0;  // the arena of laid-out tensors
  uint64_t mapped_bytes = 0;  // the embedding, read from the mapped model file
  std::array<PlannedBuffer, kBufferSlots> buffers;

  uint32_t embd_stride = 0, input_stride = 0, qkv_stride = 0, ff_stride = 0, code_stride = 0,
           angle_stride = 0, vocab_stride = 0, scores_stride = 0, router_stride = 0;
  uint32_t max_used_experts = 0;  // of a layer
  uint32_t max_experts = 0;
  // Pages of one layer in kKv: kv_pages of them from `offset` on. In each the keys of every head, then the
  // values of every head (KeyPageBytes, ValuePageBytes); of a latent layer only keys; of a recurrent
  // one nothing.
  struct LayerPages {
    uint64_t offset = 0;
    uint64_t page_bytes = 0;
  };
  std::vector<LayerPages> pages;
  std::vector<uint64_t> state_offsets;  // of each layer, in floats, in a slot
  uint64_t state_stride = 0;            // floats of a slot

  PurposeBytes Bytes() const;
};

// Where the parts of a latent layer stand in a row of kQkv, after q (n_head, head_dim), and the strides of
// heads there and in kInput.
struct LatentColumns {
  explicit LatentColumns(const LayerSpec& spec);
  uint32_t latent;  // the latent and the shared rotated part: what is cached
  uint32_t
      heads;  // (n_head, head_stride): queries against the cache, then values of heads; first q's own latent
  uint32_t head_stride;
  uint32_t width;         // of everything
  uint32_t key_stride;    // in kInput: of the unrotated parts of queries
  uint32_t value_stride;  // in kInput: of weighted latents
};

// Where the parts of a recurrent layer stand in a row of kQkv, after q, k and v. Where beta and alpha are one
// matrix, they begin at beta.
struct RecurrentColumns {
  explicit RecurrentColumns(const RecurrentSpec& spec);
  uint32_t gate, beta, alpha, width;
};

// Whether a layer's blocks leave their outputs in kBranch instead of adding them as they come.
bool HasBranch(const LayerSpec& spec, const LayerTensors& tensors);

// InvalidArgument names layers that are not the model's and options that make no stage.
absl::StatusOr<HostLayout> LayOutHostStage(const Model& model, const StageUnits& units,
                                           const StageOptions& options);

}  // namespace spillway::cpu
