// Which state gives its slot: first one that is at no page's boundary (the oldest of them), then the one
// whose neighbours lie closest together compared with its distance from the end. So what stays are pages'
// boundaries, dense near the end and sparse far from it.
#include "engine/stage/checkpoints.h"

#include <algorithm>

#include "engine/base/status.h"
#include "engine/stage/stage.h"

namespace spillway {

uint32_t Checkpoints::Latest(uint32_t position) const {
  uint32_t latest = 0;
  for (uint32_t i = 0; i < count_ && entries_[i].position <= position; ++i) latest = entries_[i].position;
  return latest;
}

uint32_t Checkpoints::SlotAt(uint32_t position) const {
  if (position == 0) return kNoState;
  for (uint32_t i = 0; i < count_; ++i) {
    if (entries_[i].position == position) return entries_[i].slot;
  }
  SPILLWAY_CHECK(false);
  return kNoState;
}

StateRun Checkpoints::Write(uint32_t begin, uint32_t end) {
  const uint32_t source = SlotAt(begin);
  while (count_ > 0 && entries_[count_ - 1].position > begin) --count_;
  previous_ = begin;
  const uint32_t target = FreeSlot(begin);
  Insert({end, target});
  return {source, target};
}

StateRun Checkpoints::Recompute(uint32_t begin, uint32_t end) {
  const uint32_t source = SlotAt(begin);
  const bool newest = entries_[count_ - 1].position == end;
  for (uint32_t i = 0; i < count_ && !newest; ++i) {
    if (entries_[i].position == end) return {source, entries_[i].slot};  // the same numbers once more
  }
  const uint32_t target = FreeSlot(begin);
  if (!newest) Insert({end, target});
  return {source, target};
}

// A slot that holds neither the state at `source` nor the newest one nor the one before.
uint32_t Checkpoints::FreeSlot(uint32_t source) {
  if (count_ == kStateSlots) Remove(LeastUseful(source));
  for (uint32_t slot = first_slot_;; ++slot) {
    const bool taken =
        std::any_of(&entries_[0], &entries_[0] + count_, [=](const Entry& e) { return e.slot == slot; });
    if (!taken) return slot;
  }
}

// Index of the entry to give up.
uint32_t Checkpoints::LeastUseful(uint32_t source) const {
  const uint64_t end = entries_[count_ - 1].position;
  uint32_t least = count_;
  uint64_t least_gap = 0, least_distance = 1;
  for (uint32_t i = 0; i + 1 < count_; ++i) {
    const uint64_t position = entries_[i].position;
    if (position == source || position == previous_) continue;
    if (position % kPageTokens != 0) return i;
    const uint64_t gap = entries_[i + 1].position - (i == 0 ? 0 : entries_[i - 1].position);
    const uint64_t distance = end - position;
    if (least == count_ || gap * least_distance < least_gap * distance) {
      least = i;
      least_gap = gap;
      least_distance = distance;
    }
  }
  return least;
}

void Checkpoints::Remove(uint32_t index) {
  std::copy(&entries_[0] + index + 1, &entries_[0] + count_, &entries_[0] + index);
  --count_;
}

void Checkpoints::Insert(Entry entry) {
  uint32_t at = count_;
  for (; at > 0 && entries_[at - 1].position > entry.position; --at) entries_[at] = entries_[at - 1];
  entries_[at] = entry;
  ++count_;
}

}  // namespace spillway
