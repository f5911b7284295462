// The reactor. At most one write is with gRPC at a time; Finish waits for it, so no call is made on a
// finished stream. StartWrite and Finish are called without the lock.
#include "rpc/forward_stream.h"

#include <utility>

#include "engine/base/status.h"
#include "rpc/convert.h"

namespace spillway::rpc {

namespace {

// Of micro-batches: a gateway has few in flight. It may open and close many sequences at once, so the other
// frames are bounded by their bytes alone, each counted with what even the smallest takes in memory.
constexpr uint64_t kMaxQueuedSteps = 256;
constexpr uint64_t kMaxQueuedBytes = 4 * kMaxForwardBytes;
constexpr uint64_t kItemBytes = 512;
constexpr uint64_t kMaxUnreadBytes = uint64_t{256} << 20;  // of replies the gateway has not taken

}  // namespace

ForwardStream* ForwardStream::Start(StreamHost& host, WorkQueue& queue,
                                    grpc::CallbackServerContext* context) {
  std::shared_ptr<ForwardStream> stream(new ForwardStream(host, queue, context));
  stream->self_ = stream;
  ForwardStream* const raw = stream.get();
  stream.reset();
  raw->StartRead(&raw->frame_);
  return raw;
}

void ForwardStream::OnReadDone(bool ok) {
  if (!ok) {
    End(absl::OkStatus());
    return;
  }
  absl::Status status;
  try {
    const std::lock_guard lock(reading_);
    status = HandleFrame(frame_);
  } catch (const std::exception& error) {
    status = Internal("forward stream: {}", error.what());
  }
  if (!status.ok()) {
    End(status);
    return;
  }
  // Armed before computing: a Cancel must be seen meanwhile. gRPC has at least two of these threads, and at
  // most one computes, so one is always left to read.
  if (!alive()) return;
  StartRead(&frame_);
  host_.Work();
}

absl::Status ForwardStream::HandleFrame(v1::ClientFrame& frame) {
  if (joiner_ == nullptr && frame.frame_case() != v1::ClientFrame::kHello) {
    return InvalidArgument("forward stream: the first frame must be Hello");
  }
  const uint64_t bytes = frame.ByteSizeLong();
  switch (frame.frame_case()) {
    case v1::ClientFrame::kHello: {
      if (joiner_ != nullptr) return InvalidArgument("forward stream: a second Hello");
      const uint64_t epoch = frame.hello().epoch();
      SPILLWAY_ASSIGN_OR_RETURN(const ForwardLimits limits, host_.Attach(shared_from_this(), epoch));
      joiner_ = std::make_unique<ForwardJoiner>(limits);
      std::vector<v1::WorkerFrame> frames(1);
      v1::HelloReply* const reply = frames[0].mutable_hello();
      reply->set_epoch(epoch);
      if (frame.hello().local_plane()) OfferLocalPlane(reply);
      Send(std::move(frames));
      return absl::OkStatus();
    }
    case v1::ClientFrame::kForward:
      return HandleForward(std::move(*frame.mutable_forward()));
    case v1::ClientFrame::kOpen:
      return Queue(std::move(*frame.mutable_open()), bytes);
    case v1::ClientFrame::kFork:
      return Queue(std::move(*frame.mutable_fork()), bytes);
    case v1::ClientFrame::kClose:
      return Queue(std::move(*frame.mutable_close()), bytes);
    case v1::ClientFrame::kCancel:
      queue_.Cancel(this, frame.cancel().sequence());
      return absl::OkStatus();
    case v1::ClientFrame::FRAME_NOT_SET:
      break;
  }
  return InvalidArgument("forward stream: an empty frame, or one of a kind this version does not know");
}

void ForwardStream::OfferLocalPlane(v1::HelloReply* hello) {
  LocalListener* const listener = host_.local_plane();
  if (listener == nullptr) return;
  const std::shared_ptr<ForwardStream> self = shared_from_this();
  std::string token = listener->Expect([self](const auto& socket) { return self->AttachLocal(socket); },
                                       [self](LocalSocket& socket) { self->ServeLocal(socket); });
  hello->set_local_name(listener->name());
  hello->set_local_token(token);
  bool ended = false;
  {
    const std::lock_guard lock(mutex_);
    ended = end_.has_value();
    local_token_ = token;
  }
  if (ended) listener->Forget(token);
}

bool ForwardStream::AttachLocal(const std::shared_ptr<LocalSocket>& socket) {
  const std::lock_guard lock(mutex_);
  if (end_.has_value()) return false;
  local_ = socket;
  return true;
}

// Two threads take turns in here: the one that read a frame computes it while the other waits for the next.
void ForwardStream::ServeLocal(LocalSocket& socket) {
  while (alive()) {
    absl::Status status;
    try {
      const std::lock_guard lock(reading_);
      const absl::StatusOr<bool> more = socket.Receive(&local_frame_);
      status = !more.ok() ? more.status()
               : !*more   ? absl::CancelledError("the gateway left")
                          : HandleFrame(local_frame_);
    } catch (const std::exception& error) {
      status = Internal("local plane: {}", error.what());
    }
    if (!status.ok()) {
      End(status);
      return;
    }
    host_.Work();
  }
}

absl::Status ForwardStream::HandleForward(v1::Forward forward) {
  refusals_.clear();
  std::unique_ptr<v1::Forward> whole = joiner_->Add(std::move(forward), &refusals_);
  for (ForwardJoiner::Refusal& refusal : refusals_) {
    SPILLWAY_RETURN_IF_ERROR(Queue(std::move(refusal), 0));
  }
  if (whole == nullptr) return absl::OkStatus();
  const uint64_t bytes = whole->ByteSizeLong();
  return Queue(std::move(whole), bytes);
}

absl::Status ForwardStream::Queue(WorkItem::Work work, uint64_t bytes) {
  bytes += kItemBytes;
  const uint64_t steps = WorkItem::IsStep(work) ? 1 : 0;
  if (queued_steps_.load() + steps > kMaxQueuedSteps || queued_bytes_.load() + bytes > kMaxQueuedBytes) {
    return ResourceExhausted("forward stream: {} micro-batches and {} bytes wait already; at most {} and {}",
                             queued_steps_.load(), queued_bytes_.load(), kMaxQueuedSteps, kMaxQueuedBytes);
  }
  queued_steps_.fetch_add(steps);
  queued_bytes_.fetch_add(bytes);
  WorkItem item;
  item.sink = shared_from_this();
  item.work = std::move(work);
  item.bytes = bytes;
  item.received = std::chrono::steady_clock::now();
  queue_.Add(std::move(item));
  return absl::OkStatus();
}

void ForwardStream::Release(const WorkItem& item) {
  queued_steps_.fetch_sub(WorkItem::IsStep(item.work) ? 1 : 0);
  queued_bytes_.fetch_sub(item.bytes);
}

void ForwardStream::Send(std::vector<v1::WorkerFrame> frames) {
  bool unread = false;
  {
    const std::lock_guard lock(mutex_);
    if (end_.has_value()) return;
    if (local_ != nullptr) {
      for (const v1::WorkerFrame& frame : frames) local_->Send(frame);
      return;
    }
    for (v1::WorkerFrame& frame : frames) {
      outgoing_bytes_ += frame.ByteSizeLong();
      outgoing_.push_back(std::move(frame));
    }
    unread = outgoing_bytes_ > kMaxUnreadBytes;
    if (!unread && (writing_ || outgoing_.empty())) return;
    if (!unread) {
      writing_ = true;
      writing_frame_ = std::move(outgoing_.front());
      outgoing_.pop_front();
      outgoing_bytes_ -= writing_frame_.ByteSizeLong();
    }
  }
  if (unread) {
    End(ResourceExhausted("forward stream: more than {} bytes of replies were not read", kMaxUnreadBytes));
    return;
  }
  StartWrite(&writing_frame_);
}

void ForwardStream::OnWriteDone(bool ok) {
  std::optional<grpc::Status> end;
  {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    if (end_.has_value()) {
      end = end_;
    } else if (!ok || outgoing_.empty()) {
      return;  // a failed write: the read that is waiting fails too and ends the stream
    } else {
      writing_ = true;
      writing_frame_ = std::move(outgoing_.front());
      outgoing_.pop_front();
      outgoing_bytes_ -= writing_frame_.ByteSizeLong();
    }
  }
  if (end.has_value()) {
    Finish(*end);
  } else {
    StartWrite(&writing_frame_);
  }
}

void ForwardStream::End(const absl::Status& status) {
  bool writing = false;
  std::shared_ptr<LocalSocket> local;
  std::string token;
  {
    const std::lock_guard lock(mutex_);
    if (end_.has_value()) return;
    local = local_;
    token = local_token_;
    end_ = ToGrpc(status);
    alive_.store(false, std::memory_order_release);
    writing = writing_;
    outgoing_.clear();
    outgoing_bytes_ = 0;
  }
  if (local != nullptr) {
    local->Close();
  } else if (!token.empty()) {
    host_.local_plane()->Forget(token);
  }
  if (!writing) {
    Finish(ToGrpc(status));
  } else if (absl::IsResourceExhausted(status)) {
    // The peer may never read again: only cancelling gets the write back.
    context_->TryCancel();
  }
}

void ForwardStream::OnCancel() { End(absl::CancelledError("the gateway left")); }

void ForwardStream::OnDone() {
  host_.Detach(this);
  const std::shared_ptr<ForwardStream> self = std::move(self_);
}

}  // namespace spillway::rpc
