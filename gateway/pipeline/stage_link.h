// The narrow boundary between the scheduler and the stages it drives: frames go out through StageLink,
// everything that comes back is a StageEvent. Nothing here knows channels, threads or time, so tests put
// in-process stages behind it.
#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "rpc/stage_client.h"
#include "spillway/v1/worker.pb.h"

namespace spillway::gateway {

// What a stage reports. `connection` counts the stage's connections from 1; an event of an older one is
// stale.
struct StageEvent {
  enum class Kind : uint8_t { kUp, kDown, kReply, kSequenceError } kind = Kind::kUp;
  uint32_t stage = 0;
  uint64_t connection = 0;
  absl::Status why;         // kDown: what happened; before the first kUp also why it is not up yet
  rpc::HopReply reply;      // kReply
  v1::SequenceError error;  // kSequenceError
};

// Thread-safe, returns at once.
class StageEventSink {
 public:
  virtual ~StageEventSink() = default;
  virtual void Post(StageEvent event) = 0;
};

// One stage as the scheduler sees it. Calls never block. Frames of one link arrive in order, and replies to
// Forward keep that order. Frames are dropped while the stage is down, and until its newest connection was
// accepted: what was sent by someone who has not seen the old one go must not reach the new one.
class StageLink {
 public:
  virtual ~StageLink() = default;
  virtual void Accept(uint64_t connection) = 0;  // the answer to kUp
  virtual void SendOpen(v1::Open open) = 0;
  virtual void SendForward(v1::Forward forward) = 0;
  virtual void SendFork(v1::Fork fork) = 0;
  virtual void SendClose(uint64_t sequence) = 0;
  virtual void SendCancel(uint64_t sequence) = 0;
  // Gives the connection up and starts over: the stage does not answer, or answers nonsense.
  virtual void Reset(absl::Status why) = 0;
};

}  // namespace spillway::gateway
