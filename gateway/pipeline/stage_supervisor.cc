// See stage_supervisor.h.
#include "gateway/pipeline/stage_supervisor.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <utility>

#include "engine/base/status.h"

namespace spillway::gateway {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kCallDeadline{2'000};
constexpr milliseconds kConnectDeadline{5'000};
// Loading goes on at the worker when a call ends; asking again waits for the same load. Short, so that Stop
// is not held.
constexpr milliseconds kLoadDeadline{10'000};
constexpr milliseconds kDescribeInterval{1'000};
constexpr int kUnansweredMeansLost = 2;
constexpr milliseconds kFirstBackOff{100};
constexpr milliseconds kLastBackOff{2'000};

// Of a stage that did not come up, or went. A worker that answers and will not do what the plan wants is no
// case of its being out of reach.
StageCondition ConditionAfter(const absl::Status& why) {
  if (absl::IsResourceExhausted(why)) return StageCondition::kDegraded;
  const bool refusal =
      absl::IsFailedPrecondition(why) || absl::IsInvalidArgument(why) || absl::IsUnimplemented(why);
  return refusal ? StageCondition::kIncompatible : StageCondition::kUnreachable;
}

}  // namespace

std::string_view ConditionName(StageCondition condition) {
  static constexpr std::array<std::string_view, 7> kNames = {
      "connecting", "loading", "ready", "draining", "degraded", "unreachable", "incompatible"};
  return kNames[static_cast<size_t>(condition)];
}

StageSupervisor::StageSupervisor(StageSetup setup, uint32_t index, uint64_t epoch)
    : setup_(std::move(setup)),
      index_(index),
      epoch_(epoch),
      client_(setup_.name, setup_.target, setup_.data_plane) {}

StageSupervisor::~StageSupervisor() { Stop(); }

void StageSupervisor::Start(StageEventSink& sink, std::function<void()> on_change) {
  sink_ = &sink;
  on_change_ = std::move(on_change);
  thread_ = std::thread([this] { Run(); });
}

void StageSupervisor::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  client_.Disconnect();
}

StageView StageSupervisor::View() const {
  const std::lock_guard lock(mutex_);
  return view_;
}

void StageSupervisor::Accept(uint64_t connection) { accepted_.store(connection); }
void StageSupervisor::SendOpen(v1::Open open) {
  if (Sending()) client_.SendOpen(std::move(open));
}
void StageSupervisor::SendForward(v1::Forward forward) {
  if (Sending()) client_.SendForward(std::move(forward));
}
void StageSupervisor::SendFork(v1::Fork fork) {
  if (Sending()) client_.SendFork(std::move(fork));
}
void StageSupervisor::SendClose(uint64_t sequence) {
  if (Sending()) client_.SendClose(sequence);
}
void StageSupervisor::SendCancel(uint64_t sequence) {
  if (Sending()) client_.SendCancel(sequence);
}

void StageSupervisor::Reset(absl::Status why) { Lose(connection_.load(), std::move(why)); }

void StageSupervisor::Lose(uint64_t connection, absl::Status why) {
  {
    const std::lock_guard lock(mutex_);
    if (connection != attempt_) return;
    connected_.store(false);
    if (lost_.ok()) lost_ = std::move(why);
  }
  changed_.notify_all();
}

bool StageSupervisor::Wait(milliseconds duration) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, duration, [this] { return stopping_; });
}

void StageSupervisor::SetView(StageCondition condition, const std::string& detail) {
  {
    const std::lock_guard lock(mutex_);
    if (view_.condition != condition || view_.detail != detail) {
      const auto level = condition >= StageCondition::kDegraded ? spdlog::level::warn : spdlog::level::info;
      spdlog::log(level, "event=stage stage={} address={} state={} detail=\"{}\"", setup_.name, setup_.target,
                  ConditionName(condition), detail);
    }
    view_.condition = condition;
    view_.detail = detail;
  }
  if (on_change_) on_change_();
}

void StageSupervisor::SetDescription(v1::DescribeReply description) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::lock_guard lock(mutex_);
  view_.description = std::move(description);
  view_.described_unix_seconds = std::chrono::duration<double>(now).count();
}

void StageSupervisor::PostDown(const absl::Status& why) {
  StageEvent event;
  event.kind = StageEvent::Kind::kDown;
  event.stage = index_;
  event.connection = connection_.load();
  event.why = why;
  sink_->Post(std::move(event));
}

void StageSupervisor::Run() {
  milliseconds back_off = kFirstBackOff;
  do {
    absl::Status why = BringUp();
    if (why.ok()) {
      back_off = kFirstBackOff;
      why = Serve();
    }
    if (!Wait(milliseconds(0))) return;
    SetView(ConditionAfter(why), MessageOf(why));
    PostDown(why);
    if (!Wait(back_off)) return;
    back_off = std::min(back_off * 2, kLastBackOff);
  } while (true);
}

absl::Status StageSupervisor::BringUp() {
  SPILLWAY_ASSIGN_OR_RETURN(v1::DescribeReply description, client_.Describe(kCallDeadline));
  SPILLWAY_RETURN_IF_ERROR(Check(description));
  SetDescription(std::move(description));
  if (View().condition != StageCondition::kDegraded) SetView(StageCondition::kLoading, "");
  const absl::Status loaded = Load();
  if (!absl::IsUnavailable(loaded)) Describe();  // after a refusal too: it has the cause
  SPILLWAY_RETURN_IF_ERROR(loaded);
  SPILLWAY_RETURN_IF_ERROR(Connect());
  SetView(StageCondition::kReady, "");
  return absl::OkStatus();
}

absl::Status StageSupervisor::Check(const v1::DescribeReply& description) const {
  const std::string role = setup_.gpu ? "gpu" : "cpu";
  if (description.role() != role) {
    return FailedPrecondition("{} at {} is a {} worker, the plan wants a {} worker there", setup_.name,
                              setup_.target, description.role(), role);
  }
  if (description.model_identity() != setup_.identity) {
    return FailedPrecondition("{} at {} has another model: identity {} ({}), the gateway's is {}",
                              setup_.name, setup_.target, description.model_identity(),
                              description.model_name(), setup_.identity);
  }
  if (description.profile().device() != setup_.expected.device()) {
    return FailedPrecondition("{} at {} runs on device \"{}\", the plan expects \"{}\"", setup_.name,
                              setup_.target, description.profile().device(), setup_.expected.device());
  }
  return absl::OkStatus();
}

absl::Status StageSupervisor::Load() {
  v1::LoadStageRequest request;
  request.set_epoch(epoch_);
  request.set_model_identity(setup_.identity);
  *request.mutable_expected() = setup_.expected;
  absl::Status status;
  do {
    status = client_.LoadStage(request, kLoadDeadline);
  } while (absl::IsDeadlineExceeded(status) && Wait(milliseconds(0)));
  return status;
}

void StageSupervisor::Describe() {
  absl::StatusOr<v1::DescribeReply> description = client_.Describe(kCallDeadline);
  if (description.ok()) SetDescription(*std::move(description));
}

absl::Status StageSupervisor::Connect() {
  const uint64_t connection = connection_.load() + 1;
  {
    const std::lock_guard lock(mutex_);
    attempt_ = connection;
    lost_ = absl::OkStatus();
  }
  rpc::StageEvents events;
  events.on_reply = [this, connection](rpc::HopReply reply) {
    StageEvent event;
    event.kind = StageEvent::Kind::kReply;
    event.stage = index_;
    event.connection = connection;
    event.reply = std::move(reply);
    sink_->Post(std::move(event));
  };
  events.on_sequence_error = [this, connection](v1::SequenceError error) {
    StageEvent event;
    event.kind = StageEvent::Kind::kSequenceError;
    event.stage = index_;
    event.connection = connection;
    event.error = std::move(error);
    sink_->Post(std::move(event));
  };
  // The last stream's end may arrive while this one is made.
  events.on_lost = [this, connection](absl::Status status) {
    Lose(connection, status.ok() ? Unavailable("the worker ended the stream") : std::move(status));
  };
  SPILLWAY_RETURN_IF_ERROR(client_.Connect(epoch_, std::move(events), kConnectDeadline));
  connection_.store(connection);
  {
    const std::lock_guard lock(mutex_);
    view_.local = client_.local();
    spdlog::info("event=connected stage={} address={} data_plane={}", setup_.name, setup_.target,
                 view_.local ? "local" : "grpc");
    connected_.store(lost_.ok());
  }
  StageEvent up;
  up.kind = StageEvent::Kind::kUp;
  up.stage = index_;
  up.connection = connection;
  sink_->Post(std::move(up));
  return absl::OkStatus();
}

absl::Status StageSupervisor::Serve() {
  absl::Status why;
  int unanswered = 0;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kDescribeInterval, [this] { return stopping_ || !lost_.ok(); });
      why = stopping_ ? absl::CancelledError("the gateway is shutting down") : lost_;
    }
    if (!why.ok()) break;
    absl::StatusOr<v1::DescribeReply> description = client_.Describe(kCallDeadline);
    // Describing does not wait for computing: a worker that misses it again and again is frozen, not busy.
    if (!description.ok()) {
      if (++unanswered < kUnansweredMeansLost) continue;
      why = Unavailable("{} does not answer: {}", setup_.name, MessageOf(description.status()));
      break;
    }
    unanswered = 0;
    const bool draining = description->state() == "draining";
    const std::string cause = description->cause();
    SetDescription(*std::move(description));
    SetView(draining ? StageCondition::kDraining : StageCondition::kReady,
            draining ? "the worker is draining" : cause);
  }
  connected_.store(false);
  client_.Disconnect();
  return why;
}

}  // namespace spillway::gateway
