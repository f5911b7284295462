// One gateway's Forward stream on the worker: reads frames on gRPC's callback threads or from the local
// plane, checks their order and bounds, queues them, and lends its thread to compute them. Knows nothing of
// stages.
#pragma once

#include <absl/status/statusor.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "rpc/fragments.h"
#include "rpc/local_socket.h"
#include "rpc/work_queue.h"
#include "spillway/v1/worker.grpc.pb.h"

namespace spillway::rpc {

class ForwardStream;

// Who decides about ownership of the worker. Thread-safe.
class StreamHost {
 public:
  virtual ~StreamHost() = default;
  // The stream said Hello. On success it owns the worker from now on and may queue work.
  virtual absl::StatusOr<ForwardLimits> Attach(const std::shared_ptr<ForwardStream>& stream,
                                               uint64_t epoch) = 0;
  // The stream ended; its sequences go. Harmless when it no longer owns the worker.
  virtual void Detach(const ForwardStream* stream) = 0;
  // Computes what was queued, on this thread if no other does.
  virtual void Work() = 0;
  // Null: no local plane is offered.
  virtual LocalListener* local_plane() { return nullptr; }
};

// Thread-safe. Keeps itself alive until gRPC is done with it; the queue's items share it.
class ForwardStream final : public grpc::ServerBidiReactor<v1::ClientFrame, v1::WorkerFrame>,
                            public ReplySink,
                            public std::enable_shared_from_this<ForwardStream> {
 public:
  // host, queue and context outlive the call.
  static ForwardStream* Start(StreamHost& host, WorkQueue& queue, grpc::CallbackServerContext* context);

  // Ends the stream with `status`; what is queued for it is dropped. Idempotent: the first call wins.
  void End(const absl::Status& status);

  bool alive() const override { return alive_.load(std::memory_order_acquire); }
  void Send(std::vector<v1::WorkerFrame> frames) override;
  void Release(const WorkItem& item) override;

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  ForwardStream(StreamHost& host, WorkQueue& queue, grpc::CallbackServerContext* context)
      : host_(host), queue_(queue), context_(context) {}
  absl::Status HandleFrame(v1::ClientFrame& frame);  // with reading_
  void OfferLocalPlane(v1::HelloReply* hello);
  bool AttachLocal(const std::shared_ptr<LocalSocket>& socket);
  void ServeLocal(LocalSocket& socket);
  absl::Status HandleForward(v1::Forward forward);
  absl::Status Queue(WorkItem::Work work, uint64_t bytes);

  StreamHost& host_;
  WorkQueue& queue_;
  grpc::CallbackServerContext* const context_;
  std::shared_ptr<ForwardStream> self_;  // until OnDone
  std::atomic<bool> alive_{true};
  std::atomic<uint64_t> queued_steps_{0};
  std::atomic<uint64_t> queued_bytes_{0};

  v1::ClientFrame frame_;  // of the reading callbacks, one at a time

  std::mutex reading_;  // a frame at a time, whichever way it came; then mutex_
  v1::ClientFrame local_frame_;
  std::unique_ptr<ForwardJoiner> joiner_;  // set by Hello
  std::vector<ForwardJoiner::Refusal> refusals_;

  std::mutex mutex_;
  std::shared_ptr<LocalSocket> local_;  // takes all replies once it is there; shared with its threads
  std::string local_token_;
  bool writing_ = false;           // a write is with gRPC
  v1::WorkerFrame writing_frame_;  // belongs to whoever set writing_
  std::deque<v1::WorkerFrame> outgoing_;
  uint64_t outgoing_bytes_ = 0;
  std::optional<grpc::Status> end_;  // once set, nothing more is written
};

}  // namespace spillway::rpc
