// Bookkeeping shared by every backend's stage: which sequences are open, their token history and prefix
// hashes, and the pages they hold. Pure integers: it touches no state bytes. Prepare() decides per segment
// what Forward may do.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/stage/checkpoints.h"
#include "engine/stage/stage.h"

namespace spillway {

// Copies page `source` to `target` (first `tokens` tokens of it), called by Fork for the partly filled last
// page.
struct PageCopy {
  uint32_t source = 0;
  uint32_t target = 0;
};

// Copies a recurrent state from one slot to another, called by Fork.
struct StateCopy {
  uint32_t source = 0;
  uint32_t target = 0;
};

struct ForkCopies {
  std::optional<PageCopy> page;
  std::optional<StateCopy> state;
};

struct SequenceState {
  SequenceOptions options;
  std::vector<int32_t> tokens;   // reserved for n_ctx at Open
  std::vector<uint64_t> hashes;  // hashes[i] = prefix hash of the first i tokens; size = tokens + 1
  std::vector<uint32_t> pages;   // page index of each 32 tokens; reserved at Open
  // On a stage with recurrent layers.
  uint32_t seat = 0;
  Checkpoints checkpoints;
  StateRun run;  // of the segment that was prepared last
};

// InvalidArgument when the micro-batch as a whole is malformed: no segments, a sequence named twice, more
// rows than planned, activations of another shape than (rows, n_embd), too many rows with logits.
absl::Status CheckMicroBatch(const MicroBatch& batch, const StageUnits& units, const StageOptions& options,
                             uint32_t n_embd);

// Confined to the stage's thread. Open and Fork may allocate; Prepare does not.
class SequenceTable {
 public:
  // n_vocab bounds token ids. Pages are reference-counted so that Fork shares full ones. `recurrent`: some
  // layer has recurrent state, of which there are max_sequences * kStateSlots slots.
  SequenceTable(const StageOptions& options, uint32_t n_vocab, bool recurrent = false);
  ~SequenceTable();

  absl::Status Open(SequenceId id, const SequenceOptions& options);
  absl::StatusOr<ForkCopies> Fork(SequenceId source, SequenceId target, uint32_t tokens);
  void Close(SequenceId id);
  void CloseAll();
  SequenceState* Find(SequenceId id);

  // Checks the segment, truncates to `begin` when less is wanted than held, takes the pages it needs and
  // appends its tokens (not when `recompute`: then state of [begin, begin+count) must be held already and
  // match). Recurrent layers need the state at `begin`, and get the slots of SequenceState::run. On anything
  // but kOk nothing has changed, and result->error says why. Returns the page copy (if any) that must be made
  // before rows are written: the page at `begin` was shared with a fork.
  std::optional<PageCopy> Prepare(const Segment& segment, SegmentResult* result);

  uint32_t FreePages() const;
  uint32_t OpenSequences() const;

 private:
  void Truncate(SequenceState& state, uint32_t tokens);
  void Empty(SequenceState& state);
  bool CheckHeld(const Segment& segment, const SequenceState& state, SegmentResult* result) const;
  const StageOptions options_;
  const uint32_t n_vocab_;
  std::unordered_map<SequenceId, std::unique_ptr<SequenceState>> sequences_;
  std::vector<uint32_t> free_pages_;
  std::vector<uint32_t> page_references_;
  const bool recurrent_;
  std::vector<uint32_t> free_seats_;
};

}  // namespace spillway
