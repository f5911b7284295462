// The gateway's end of one worker: control calls and the long-lived Forward stream. Splits payloads into
// fragments of at most 1 MiB and puts replies together again. Knows nothing of scheduling.
#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "spillway/v1/worker.pb.h"

namespace spillway::rpc {

inline constexpr size_t kMaxPayloadBytes = size_t{1} << 20;  // of a message

// A reply with its fragments joined.
struct HopReply {
  v1::ForwardReply reply;         // `activations` whole
  double round_trip_seconds = 0;  // Send until the last fragment was read
  uint64_t sent_bytes = 0;        // activation payload
  uint64_t received_bytes = 0;
};

// What carries the frames of a stream. kAuto: a Unix socket where the worker runs on this host, else gRPC.
enum class DataPlane : uint8_t { kGrpc, kAuto };

// Called on the client's own threads, one at a time; must return at once. on_lost is called once, last, for a
// stream that ended.
struct StageEvents {
  std::function<void(HopReply)> on_reply;
  std::function<void(v1::SequenceError)> on_sequence_error;
  std::function<void(absl::Status)> on_lost;
};

// Thread-safe. Control calls block up to their deadline; sends never block (a peer that stops reading is
// found by the caller's deadline on replies; queued bytes are bounded by the micro-batches in flight).
class StageClient {
 public:
  // target: "host:port". No connection is made yet.
  StageClient(std::string name, const std::string& target, DataPlane plane = DataPlane::kAuto);
  ~StageClient();  // Disconnect

  const std::string& name() const;
  const std::string& target() const;

  absl::StatusOr<v1::DescribeReply> Describe(std::chrono::milliseconds deadline);
  absl::Status LoadStage(const v1::LoadStageRequest& request, std::chrono::milliseconds deadline,
                         const std::function<void(const v1::LoadStageProgress&)>& progress = {});

  // Opens the stream and waits for HelloReply. FailedPrecondition when a newer epoch owns the worker or it
  // has not loaded its stage. Disconnects first. A stream that never said hello calls no on_lost.
  absl::Status Connect(uint64_t epoch, StageEvents events, std::chrono::milliseconds deadline);
  // Ends the stream and waits until its last event (on_lost: Cancelled) has returned. Idempotent. As Connect,
  // not to be called from StageEvents.
  void Disconnect();
  // Whether the frames of the latest stream pass the local plane.
  bool local() const;

  // `forward.activations` is taken over and fragmented as needed.
  void SendForward(v1::Forward forward);
  void SendOpen(v1::Open open);
  void SendFork(v1::Fork fork);
  void SendClose(uint64_t sequence);
  void SendCancel(uint64_t sequence);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace spillway::rpc
