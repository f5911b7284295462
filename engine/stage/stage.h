// Stage: the engine's one virtual interface. A stage holds a contiguous run of layers (plus the embedding,
// plus the head) and the state of its sequences, and moves micro-batches through them. Backends: ref/
// (double, oracle), cpu/ (host), later cuda/. It knows no wire: rpc/ translates.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/base/ledger.h"
#include "engine/sampling/sampling_params.h"

namespace spillway {

using SequenceId = uint64_t;

// Which part of the model a stage holds: layers [layer_begin, layer_end), and whether the embedding or the
// head.
struct StageUnits {
  uint32_t layer_begin = 0;
  uint32_t layer_end = 0;
  bool embedding = false;
  bool head = false;
  uint32_t Layers() const { return layer_end - layer_begin; }
  bool operator==(const StageUnits&) const = default;
};

inline constexpr uint32_t kPageTokens = 32;    // tokens of a state page
inline constexpr uint32_t kMaxLogitRows = 16;  // rows per micro-batch whose logits may be asked for
constexpr uint64_t MaskBytes(uint32_t n_vocab) { return (uint64_t{n_vocab} + 7) / 8; }
constexpr uint32_t PagesFor(uint32_t tokens) { return (tokens + kPageTokens - 1) / kPageTokens; }

// How pages hold keys and values: as f16, or as int8 codes with an f16 scale for every 32 dimensions of a
// head.
enum class CacheType : uint8_t { kF16, kQ8_0 };

// What a stage is built for; an input of the plan.
struct StageOptions {
  uint32_t n_ctx = 4096;        // tokens per sequence
  uint32_t kv_pages = 128;      // pages of the pool, shared by all sequences
  uint32_t max_sequences = 16;  // open at once
  uint32_t max_rows = 256;      // rows of a micro-batch
  uint32_t threads = 1;
  CacheType cache_type_k = CacheType::kF16;  // of latent layers the only one
  CacheType cache_type_v = CacheType::kF16;
  bool operator==(const StageOptions&) const = default;
};

// Given once per sequence. The head stage samples with it; other stages need only its id.
struct SequenceOptions {
  SamplingParams sampling;
  uint32_t prompt_tokens = 0;  // tokens before the first generated one (penalties tell prompt from output)
};

enum class Outputs : uint8_t { kNone, kLast, kAll };

// `count` rows of one sequence from position `begin`. Tokens always travel along.
struct Segment {
  SequenceId sequence = 0;
  uint32_t begin = 0;
  Outputs outputs = Outputs::kNone;
  bool return_logits = false;       // head stage: also hand out the logits of the wanted rows
  bool recompute = false;           // run against held state without writing any
  uint64_t prefix_hash = 0;         // PrefixHash of the tokens before `begin`
  std::span<const int32_t> tokens;  // (count)
  // Head stage: empty, or (wanted rows, MaskBytes(n_vocab)): the tokens that may be drawn, a bit each.
  std::span<const uint8_t> token_masks = {};
  uint32_t wanted_rows() const {
    return outputs == Outputs::kAll ? count() : outputs == Outputs::kLast && count() > 0 ? 1 : 0;
  }
  uint32_t count() const { return static_cast<uint32_t>(tokens.size()); }
};

struct MicroBatch {
  std::span<const Segment> segments;
  std::span<const float> activations;  // (rows, n_embd); empty on a stage that holds the embedding
};

enum class SegmentCode : uint8_t {
  kOk,
  kNeedsReplay,      // the state held does not reach, or does not match, `begin`: see resume_tokens
  kUnknownSequence,  // not open here
  kOutOfPages,       // no free page: nothing was written
  kInvalid,          // too long for n_ctx, a token id out of range, ...
};

struct SegmentResult {
  SegmentCode code = SegmentCode::kOk;
  uint32_t held_tokens = 0;  // after the call
  // With kNeedsReplay: the last position at or before the segment's that a segment may begin at.
  uint32_t resume_tokens = 0;
  std::string error;  // empty when ok
};

// One wanted row on the head stage: the token drawn for position `position` + 1.
struct SampledRow {
  uint32_t segment = 0;               // index into MicroBatch::segments
  uint32_t position = 0;              // of the row
  TokenLogprob chosen;                // logprob of the model's own distribution
  std::span<const TokenLogprob> top;  // SamplingParams::n_logprobs best, descending, lowest id first on ties
  std::span<const float> logits;      // (n_vocab) when Segment::return_logits
};

// Everything in it points into the stage and is valid until the next Forward.
struct ForwardOutput {
  std::span<const SegmentResult> segments;  // one per segment of the micro-batch, in order
  std::span<const float> activations;   // (rows of the ok segments in order, n_embd); empty on the head stage
  std::span<const SampledRow> sampled;  // head stage only
  uint64_t layer_steps = 0;             // layers x rows executed, counted where the kernels are launched
};

// Confined to one thread at a time. Forward allocates nothing on the success path.
class Stage {
 public:
  virtual ~Stage() = default;

  virtual const StageUnits& units() const = 0;
  virtual const StageOptions& options() const = 0;
  virtual PurposeBytes Allocated() const = 0;

  // AlreadyExists is not an error: opening an open sequence replaces its options and drops its state.
  // ResourceExhausted when max_sequences are open; InvalidArgument for bad sampling parameters.
  virtual absl::Status Open(SequenceId sequence, const SequenceOptions& options) = 0;
  // Copies the first `tokens` tokens' state of `source` (by reference to full pages where possible).
  // Recurrent layers have the state of some positions only (checkpoints.h): the target then holds tokens up
  // to the last of those, and the next segment is told to replay from there.
  virtual absl::Status Fork(SequenceId source, SequenceId target, uint32_t tokens) = 0;
  virtual void Close(SequenceId sequence) = 0;  // unknown ids are ignored
  virtual void CloseAll() = 0;

  // A non-ok status means the whole micro-batch is malformed (shape of activations, too many rows);
  // per-sequence trouble is in ForwardOutput::segments and never touches other sequences.
  virtual absl::Status Forward(const MicroBatch& batch, ForwardOutput* output) = 0;

  virtual uint32_t FreePages() const = 0;
};

// 64-bit hash chained over token ids: h(0) = 0, h(i+1) = xxh3_64(token_i as 4 little-endian bytes, seed
// h(i)).
uint64_t ExtendPrefixHash(uint64_t hash, int32_t token);
uint64_t PrefixHash(std::span<const int32_t> tokens);

}  // namespace spillway
