// Where in a sequence its recurrent state is held. That state cannot be rewound, so a segment's rows read the
// state at their begin from one slot and leave the one at their end in another: the state before the latest
// segment stays (a segment sent again costs nothing), and older ones for as long as slots last. Pure
// integers: it touches no state.
#pragma once

#include <array>
#include <cstdint>

namespace spillway {

// Of each open sequence: the newest state, the one before the latest segment, and two older ones.
inline constexpr uint32_t kStateSlots = 4;
inline constexpr uint32_t kNoState = ~0u;  // the state before the first token: all zeros, in no slot

// The slots that a segment's rows start from and end in; never the same one.
struct StateRun {
  uint32_t source = kNoState;
  uint32_t target = kNoState;
};

// Of one sequence. Positions count tokens: the state at p is the one after p tokens.
class Checkpoints {
 public:
  Checkpoints() = default;
  // Slots are numbered over all sequences: `seat` counts them.
  explicit Checkpoints(uint32_t seat) : first_slot_(seat * kStateSlots) {}

  void Clear() { count_ = previous_ = 0; }
  // Of the state at position 0 there is no slot, but it is always held.
  bool Has(uint32_t position) const { return Latest(position) == position; }
  // The last position at or before `position` whose state is held.
  uint32_t Latest(uint32_t position) const;
  uint32_t SlotAt(uint32_t position) const;  // held

  // Rows [begin, end) follow the state at `begin`, which is held; what was held after it is gone.
  StateRun Write(uint32_t begin, uint32_t end);
  // Rows [begin, end) run again, from a state that is held, to no more than what is held: the newest state
  // stays as it is. The state at `end` is held afterwards, so that the next rows can follow.
  StateRun Recompute(uint32_t begin, uint32_t end);

 private:
  struct Entry {
    uint32_t position;
    uint32_t slot;
  };
  uint32_t FreeSlot(uint32_t source);
  uint32_t LeastUseful(uint32_t source) const;
  void Remove(uint32_t index);
  void Insert(Entry entry);

  uint32_t first_slot_ = 0;
  uint32_t previous_ = 0;  // where the latest written segment began
  uint32_t count_ = 0;
  std::array<Entry, kStateSlots> entries_ = {};  // ascending positions; the last is the newest state
};

}  // namespace spillway
