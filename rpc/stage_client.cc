// One completion-queue thread per client. A stream's object lives until its Finish has come back; sends are
// queued and at most one write is with gRPC. Where the worker offers the local plane, frames pass there
// instead and a thread of the stream reads the replies; gRPC still says when the stream is over. Callbacks
// run without any lock held, one at a time.
#include "rpc/stage_client.h"

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "rpc/convert.h"
#include "rpc/fragments.h"
#include "rpc/local_socket.h"
#include "rpc/server.h"
#include "spillway/v1/worker.grpc.pb.h"

namespace spillway::rpc {

namespace {

using Clock = std::chrono::steady_clock;

// A row's activations or logits: no model has more than 2^19 values in either.
constexpr uint64_t kMaxRowBytes = uint64_t{2} << 20;

// How long the last replies may take to be read once gRPC says that the stream is over.
constexpr std::chrono::milliseconds kLastReplies{200};

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& target) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // workers are never behind the machine's web proxy
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 4 << 20);
  // A restarted worker is found within a second instead of after gRPC's minutes of back-off.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments);
}

class Stream;

// What a completion means; its address is the tag.
struct Tag {
  enum class Kind : uint8_t { kStart, kRead, kWrite, kFinish } kind;
  Stream* stream;
};

// One Forward call. Events come on the client's thread only.
class Stream {
 public:
  Stream(v1::Worker::Stub& stub, grpc::CompletionQueue& queue, uint64_t epoch, bool local_plane,
         StageEvents events)
      : epoch_(epoch), local_plane_(local_plane), events_(std::move(events)) {
    call_ = stub.PrepareAsyncForward(&context_, &queue);
  }

  void Start(std::shared_ptr<Stream> self) {
    const std::lock_guard lock(mutex_);
    self_ = std::move(self);
    operations_ = 1;
    call_->StartCall(&start_);
  }

  // The outcome of the handshake; cancels when it does not come in time.
  absl::Status WaitForHello(Clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, deadline, [&] { return state_ != State::kConnecting; });
    if (state_ == State::kConnecting) {
      abandoned_ = true;
      context_.TryCancel();
      return absl::DeadlineExceededError("the worker did not answer Hello in time");
    }
    if (state_ == State::kConnected || greeted_) return absl::OkStatus();
    return status_;
  }

  void End() {
    context_.TryCancel();
    std::unique_lock lock(mutex_);
    if (local_ != nullptr) local_->Close();
    changed_.wait(lock, [&] { return state_ == State::kEnded; });
  }

  bool local() {
    const std::lock_guard lock(mutex_);
    return local_ != nullptr;
  }

  void Send(std::vector<v1::ClientFrame> frames) {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kConnected) SendAll(std::move(frames));
  }

  void SendForward(v1::Forward forward) {
    Pending pending;
    pending.sent_bytes = forward.activations().size();
    for (const v1::Segment& segment : forward.segments()) pending.rows += segment.tokens_size();
    const uint64_t step = forward.step();
    std::vector<v1::ClientFrame> frames = SplitForward(std::move(forward));
    const std::lock_guard lock(mutex_);
    if (state_ != State::kConnected) return;
    pending.sent = Clock::now();
    pending_[step] = pending;
    SendAll(std::move(frames));
  }

  void OnEvent(Tag::Kind kind, bool ok) {
    switch (kind) {
      case Tag::Kind::kStart:
        OnStart(ok);
        break;
      case Tag::Kind::kRead:
        OnRead(ok);
        break;
      case Tag::Kind::kWrite:
        OnWrite(ok);
        break;
      case Tag::Kind::kFinish:
        break;
    }
    OperationDone(kind == Tag::Kind::kFinish);
  }

 private:
  enum class State : uint8_t { kConnecting, kConnected, kEnded };
  struct Pending {
    Clock::time_point sent;
    uint64_t sent_bytes = 0;
    uint64_t rows = 0;
  };

  // With mutex_.
  void SendAll(std::vector<v1::ClientFrame> frames) {
    for (v1::ClientFrame& frame : frames) {
      if (local_ != nullptr) {
        local_->Send(frame);
      } else {
        outgoing_.push_back(std::move(frame));
      }
    }
    WriteNext();
  }

  // With mutex_. Starts the next write unless one is with gRPC or the stream is over.
  void WriteNext() {
    if (writing_ || finishing_ || outgoing_.empty()) return;
    writing_ = true;
    ++operations_;
    call_->Write(outgoing_.front(), &write_);  // serialised before it returns
    outgoing_.pop_front();
  }

  void OnStart(bool ok) {
    const std::lock_guard lock(mutex_);
    if (!ok) {
      FinishCall();
      return;
    }
    ++operations_;
    call_->Read(&incoming_, &read_);
    v1::Hello* const hello = outgoing_.emplace_front().mutable_hello();
    hello->set_epoch(epoch_);
    hello->set_local_plane(local_plane_);
    WriteNext();
  }

  void OnWrite(bool ok) {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    // A failed write means that the stream is over: the read that is waiting says so.
    if (ok) WriteNext();
  }

  // With mutex_. Asks for the final status, once.
  void FinishCall() {
    if (finishing_) return;
    finishing_ = true;
    outgoing_.clear();
    ++operations_;
    call_->Finish(&final_, &finish_);
  }

  void OnRead(bool ok) {
    if (ok) {
      const absl::Status status = HandleFrame(incoming_);
      const std::lock_guard lock(mutex_);
      Break(status);
      ++operations_;
      call_->Read(&incoming_, &read_);
      return;
    }
    const std::lock_guard lock(mutex_);
    FinishCall();
  }

  // With mutex_. The peer did something against the protocol: nothing of it counts any more.
  void Break(const absl::Status& status) {
    if (status.ok() || !broken_.ok()) return;
    broken_ = status;
    context_.TryCancel();
  }

  absl::Status HandleFrame(v1::WorkerFrame& frame) {
    {
      const std::lock_guard lock(mutex_);
      if (!broken_.ok()) return absl::OkStatus();
    }
    switch (frame.frame_case()) {
      case v1::WorkerFrame::kHello:
        return HandleHello(frame.hello());
      case v1::WorkerFrame::kReply:
        return HandleReply(std::move(*frame.mutable_reply()));
      case v1::WorkerFrame::kSequenceError:
        if (events_.on_sequence_error) events_.on_sequence_error(std::move(*frame.mutable_sequence_error()));
        return absl::OkStatus();
      case v1::WorkerFrame::FRAME_NOT_SET:
        break;
    }
    return absl::OkStatus();  // of a newer version: nothing we asked for
  }

  absl::Status HandleHello(const v1::HelloReply& hello) {
    if (hello.epoch() != epoch_) return Internal("hello: epoch {} came back", hello.epoch());
    std::unique_ptr<LocalSocket> local;
    if (local_plane_ && !hello.local_name().empty()) {
      // Not to be had across hosts and network namespaces: then frames go over gRPC.
      absl::StatusOr<std::unique_ptr<LocalSocket>> connected =
          ConnectLocal(hello.local_name(), hello.local_token());
      if (connected.ok()) local = *std::move(connected);
    }
    const std::lock_guard lock(mutex_);
    if (abandoned_ || greeted_) return absl::OkStatus();
    if (local != nullptr) {
      local_ = std::move(local);
      local_open_ = true;
      local_thread_ = std::thread([this] { ReadLocal(); });
    }
    state_ = State::kConnected;
    greeted_ = true;
    changed_.notify_all();
    return absl::OkStatus();
  }

  // The local plane's replies, until it is closed.
  void ReadLocal() {
    v1::WorkerFrame frame;
    for (;;) {
      absl::StatusOr<bool> more = local_->Receive(&frame);
      const bool whole = more.ok() && *more;
      const absl::Status status = whole ? HandleFrame(frame) : more.status();
      if (whole && status.ok()) continue;
      const std::lock_guard lock(mutex_);
      Break(status);
      local_open_ = false;
      changed_.notify_all();
      return;
    }
  }

  // gRPC says that the stream is over. A worker that ended it has closed the local plane behind its last
  // reply.
  void EndLocal() {
    if (!local_thread_.joinable()) return;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kLastReplies, [&] { return !local_open_; });
    }
    local_->Close();
    local_thread_.join();
  }

  absl::Status HandleReply(v1::ForwardReply fragment) {
    Pending pending;
    {
      const std::lock_guard lock(mutex_);
      const auto found = pending_.find(fragment.step());
      if (found == pending_.end()) return Internal("reply: step {} was not asked for", fragment.step());
      pending = found->second;
    }
    HopReply hop;
    bool complete = false;
    const uint64_t max_bytes = pending.rows * kMaxRowBytes;
    SPILLWAY_RETURN_IF_ERROR(joiner_.Add(std::move(fragment), max_bytes, &hop.reply, &complete));
    if (!complete) return absl::OkStatus();
    {
      const std::lock_guard lock(mutex_);
      pending_.erase(hop.reply.step());
    }
    hop.round_trip_seconds = std::chrono::duration<double>(Clock::now() - pending.sent).count();
    hop.sent_bytes = pending.sent_bytes;
    hop.received_bytes = hop.reply.activations().size();
    if (events_.on_reply) events_.on_reply(std::move(hop));
    return absl::OkStatus();
  }

  // The last operation of a finished call ends the stream and lets go of it.
  void OperationDone(bool finished) {
    if (finished) EndLocal();
    std::shared_ptr<Stream> self;
    absl::Status status;
    bool tell = false;
    {
      const std::lock_guard lock(mutex_);
      if (finished) finished_ = true;
      if (--operations_ > 0 || !finished_) return;
      status_ = !broken_.ok() ? broken_ : FromGrpc(final_);
      if (status_.ok()) status_ = absl::UnavailableError("the worker ended the stream");
      status = status_;
      tell = greeted_;
      self = std::move(self_);
    }
    if (tell && events_.on_lost) events_.on_lost(status);
    {
      const std::lock_guard lock(mutex_);
      state_ = State::kEnded;
      changed_.notify_all();
    }
  }

  const uint64_t epoch_;
  const bool local_plane_;
  const StageEvents events_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<v1::ClientFrame, v1::WorkerFrame>> call_;
  Tag start_{Tag::Kind::kStart, this}, read_{Tag::Kind::kRead, this}, write_{Tag::Kind::kWrite, this},
      finish_{Tag::Kind::kFinish, this};

  // Confined to the client's thread.
  v1::WorkerFrame incoming_;
  grpc::Status final_;
  std::thread local_thread_;

  ReplyJoiner joiner_;  // of the thread that reads replies

  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<Stream> self_;        // held while gRPC has operations of ours
  std::unique_ptr<LocalSocket> local_;  // set before kConnected, kept to the end
  bool local_open_ = false;
  State state_ = State::kConnecting;
  bool greeted_ = false;
  bool abandoned_ = false;
  bool writing_ = false;
  bool finishing_ = false;
  bool finished_ = false;
  int operations_ = 0;
  absl::Status broken_;  // what the peer did against the protocol
  absl::Status status_;
  std::deque<v1::ClientFrame> outgoing_;
  std::unordered_map<uint64_t, Pending> pending_;
};

std::chrono::system_clock::time_point SystemDeadline(std::chrono::milliseconds deadline) {
  return std::chrono::system_clock::now() + deadline;
}

}  // namespace

struct StageClient::Impl {
  std::string name;
  std::string target;
  bool local_plane = true;
  std::unique_ptr<v1::Worker::Stub> stub;
  grpc::CompletionQueue queue;
  std::mutex mutex;
  std::shared_ptr<Stream> stream;  // the latest; shared with itself until it ended
  std::thread thread;

  std::shared_ptr<Stream> Current() {
    const std::lock_guard lock(mutex);
    return stream;
  }

  void Run() {
    void* tag = nullptr;
    bool ok = false;
    while (queue.Next(&tag, &ok)) {
      const Tag* const event = static_cast<const Tag*>(tag);
      event->stream->OnEvent(event->kind, ok);
    }
  }
};

StageClient::StageClient(std::string name, const std::string& target, DataPlane plane)
    : impl_(std::make_unique<Impl>()) {
  impl_->name = std::move(name);
  impl_->target = target;
  impl_->local_plane = plane == DataPlane::kAuto;
  impl_->stub = v1::Worker::NewStub(MakeChannel(target));
  impl_->thread = std::thread([impl = impl_.get()] { impl->Run(); });
}

StageClient::~StageClient() {
  Disconnect();  // the queue may be shut down only when no operation will be started on it any more
  impl_->queue.Shutdown();
  impl_->thread.join();
}

const std::string& StageClient::name() const { return impl_->name; }
const std::string& StageClient::target() const { return impl_->target; }

absl::StatusOr<v1::DescribeReply> StageClient::Describe(std::chrono::milliseconds deadline) {
  grpc::ClientContext context;
  context.set_deadline(SystemDeadline(deadline));
  v1::DescribeReply reply;
  const absl::Status status = FromGrpc(impl_->stub->Describe(&context, v1::DescribeRequest(), &reply));
  if (!status.ok()) return status;
  return reply;
}

absl::Status StageClient::LoadStage(const v1::LoadStageRequest& request, std::chrono::milliseconds deadline,
                                    const std::function<void(const v1::LoadStageProgress&)>& progress) {
  grpc::ClientContext context;
  context.set_deadline(SystemDeadline(deadline));
  const auto reader = impl_->stub->LoadStage(&context, request);
  v1::LoadStageProgress report;
  bool done = false;
  while (reader->Read(&report)) {
    done = done || report.done();
    if (progress) progress(report);
  }
  const absl::Status status = FromGrpc(reader->Finish());
  if (status.ok() && !done) return Internal("load: {} ended without saying that it is done", impl_->target);
  return status;
}

absl::Status StageClient::Connect(uint64_t epoch, StageEvents events, std::chrono::milliseconds deadline) {
  const Clock::time_point end = Clock::now() + deadline;
  Disconnect();
  auto stream =
      std::make_shared<Stream>(*impl_->stub, impl_->queue, epoch, impl_->local_plane, std::move(events));
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stream = stream;
  }
  stream->Start(stream);
  return stream->WaitForHello(end);
}

void StageClient::Disconnect() {
  if (const std::shared_ptr<Stream> stream = impl_->Current()) stream->End();
}

bool StageClient::local() const {
  const std::shared_ptr<Stream> stream = impl_->Current();
  return stream != nullptr && stream->local();
}

void StageClient::SendForward(v1::Forward forward) {
  if (const std::shared_ptr<Stream> stream = impl_->Current()) stream->SendForward(std::move(forward));
}

namespace {

template <typename Fill>
void SendFrame(const std::shared_ptr<Stream>& stream, Fill fill) {
  if (stream == nullptr) return;
  std::vector<v1::ClientFrame> frames(1);
  fill(frames[0]);
  stream->Send(std::move(frames));
}

}  // namespace

void StageClient::SendOpen(v1::Open open) {
  SendFrame(impl_->Current(), [&](v1::ClientFrame& frame) { *frame.mutable_open() = std::move(open); });
}
void StageClient::SendFork(v1::Fork fork) {
  SendFrame(impl_->Current(), [&](v1::ClientFrame& frame) { *frame.mutable_fork() = std::move(fork); });
}
void StageClient::SendClose(uint64_t sequence) {
  SendFrame(impl_->Current(), [&](v1::ClientFrame& frame) { frame.mutable_close()->set_sequence(sequence); });
}
void StageClient::SendCancel(uint64_t sequence) {
  SendFrame(impl_->Current(),
            [&](v1::ClientFrame& frame) { frame.mutable_cancel()->set_sequence(sequence); });
}

}  // namespace spillway::rpc
