// Control calls are rare and take one lock. Lock order: WorkerService, then a stream or the queue; the
// compute thread takes the lock only between micro-batches.
#include "rpc/worker_service.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "device/process.h"
#include "engine/base/status.h"
#include "engine/stage/units_text.h"
#include "rpc/convert.h"

namespace spillway::rpc {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kReviewInterval{200};
constexpr std::chrono::milliseconds kQuiet{250};  // without a micro-batch: nobody is generating

int64_t NowNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

}  // namespace

// The generated interface: unary calls on gRPC's threads, Forward by callbacks.
class WorkerService::Service final : public v1::Worker::WithCallbackMethod_Forward<v1::Worker::Service> {
 public:
  explicit Service(WorkerService& owner) : owner_(owner) {}

  grpc::Status Describe(grpc::ServerContext*, const v1::DescribeRequest*, v1::DescribeReply* reply) override {
    *reply = owner_.Describe();
    return grpc::Status::OK;
  }
  grpc::Status LoadStage(grpc::ServerContext*, const v1::LoadStageRequest* request,
                         grpc::ServerWriter<v1::LoadStageProgress>* writer) override {
    return ToGrpc(owner_.LoadStage(*request, [writer](const v1::LoadStageProgress& p) { writer->Write(p); }));
  }
  grpc::Status UnloadStage(grpc::ServerContext*, const v1::UnloadStageRequest* request,
                           v1::UnloadStageReply*) override {
    return ToGrpc(owner_.UnloadStage(request->epoch()));
  }
  grpc::Status Drain(grpc::ServerContext*, const v1::DrainRequest* request, v1::DrainReply* reply) override {
    const absl::StatusOr<uint32_t> open = owner_.Drain(request->epoch());
    if (open.ok()) reply->set_open_sequences(*open);
    return ToGrpc(open.status());
  }
  grpc::ServerBidiReactor<v1::ClientFrame, v1::WorkerFrame>* Forward(
      grpc::CallbackServerContext* context) override {
    return ForwardStream::Start(owner_, owner_.runner_.queue(), context);
  }

 private:
  WorkerService& owner_;
};

WorkerService::WorkerService(WorkerConfig config, const Model& model, Ledger& ledger, StageFactory factory,
                             telemetry::WorkerMetrics& metrics, JudgeFunction judge)
    : config_(std::move(config)),
      model_(model),
      ledger_(ledger),
      factory_(std::move(factory)),
      metrics_(metrics),
      judge_(std::move(judge)),
      service_(std::make_unique<Service>(*this)),
      runner_(model, config_.device, metrics, [this] { ReviewAfterForward(); }) {
  if (config_.local_plane) {
    absl::StatusOr<std::unique_ptr<LocalListener>> local = LocalListener::Start();
    if (local.ok()) {
      local_ = *std::move(local);
    } else {
      spdlog::warn("event=no_local_plane error=\"{}\"", MessageOf(local.status()));
    }
  }
  Review();
}

WorkerService::~WorkerService() = default;

grpc::Service* WorkerService::service() { return service_.get(); }

void WorkerService::OnReadiness(std::function<void(bool)> callback) {
  const std::lock_guard lock(mutex_);
  on_readiness_ = std::move(callback);
  if (on_readiness_) on_readiness_(last_state_ == "ready");
}

std::string WorkerService::NotReadyReason() {
  const StageRunner::Counters counters = runner_.counters();
  const std::lock_guard lock(mutex_);
  std::string state;
  const truth::Verdict verdict = Review(counters, &state);
  if (state == "ready") return "";
  return verdict.fallback() ? fmt::format("{}: {} ({})", state, verdict.cause, verdict.detail) : state;
}

truth::WorkerFacts WorkerService::Facts(const StageRunner::Counters& counters) const {
  truth::WorkerFacts facts;
  facts.planned = has_expected_;
  facts.loaded = counters.loaded;
  facts.expected_device = expected_.device();
  facts.executed_device = config_.device;
  facts.expected_layers = expected_.units().layer_end() - expected_.units().layer_begin();
  facts.loaded_layers = counters.units.Layers();
  facts.expected_bytes = BytesFromProto(expected_.memory());
  facts.allocated_bytes = ledger_.Allocated();
  facts.rows = counters.rows;
  facts.layer_steps = counters.layer_steps;
  facts.allocation_failures = std::max(ledger_.allocation_failures(), uint64_t{refused_});
  return facts;
}

std::string WorkerService::State(const StageRunner::Counters& counters, const truth::Verdict& verdict) const {
  if (draining_ || shutting_down_) return "draining";
  if (loading_ && !refused_) return "loading";
  if (verdict.fallback()) return "degraded";
  return counters.loaded ? "ready" : "starting";
}

truth::Verdict WorkerService::Review(const StageRunner::Counters& counters, std::string* state) {
  const truth::WorkerFacts facts = Facts(counters);
  // Between the old stage and the new one there is nothing to compare.
  const truth::Verdict verdict = loading_ && !refused_ ? truth::Verdict() : judge_(facts);
  *state = State(counters, verdict);
  metrics_.SetMemory(facts.allocated_bytes, ledger_.budget_bytes());
  metrics_.AllocationFailures(facts.allocation_failures);
  metrics_.SetLayers(facts.expected_layers, facts.loaded_layers);
  metrics_.SetKvCache(counters.loaded ? counters.options.kv_pages - counters.free_pages : 0,
                      counters.options.kv_pages * uint64_t{counters.loaded});
  metrics_.SetFallback(verdict.cause, truth::ExtentName(verdict.extent));
  metrics_.SetState(*state);
  if (verdict.cause != last_cause_) {
    if (verdict.fallback()) {
      spdlog::warn("event=fallback cause={} extent={} detail=\"{}\" remedy=\"{}\"", verdict.cause,
                   truth::ExtentName(verdict.extent), verdict.detail, verdict.remedy);
    } else {
      spdlog::info("event=fallback_ended cause={}", last_cause_);
    }
    last_cause_ = verdict.cause;
  }
  if (*state != last_state_) {
    spdlog::info("event=state from={} to={} epoch={}", last_state_.empty() ? "none" : last_state_, *state,
                 owner_epoch_);
    last_state_ = *state;
    if (on_readiness_) on_readiness_(*state == "ready");
  }
  return verdict;
}

void WorkerService::Review() {
  const StageRunner::Counters counters = runner_.counters();
  const std::lock_guard lock(mutex_);
  std::string state;
  Review(counters, &state);
}

void WorkerService::ReviewAfterForward() {
  const int64_t now = NowNanoseconds();
  if (now < next_review_ns_.load(std::memory_order_relaxed)) return;
  next_review_ns_.store(now + std::chrono::nanoseconds(kReviewInterval).count(), std::memory_order_relaxed);
  Review();
}

v1::DescribeReply WorkerService::Describe() {
  v1::DescribeReply reply;
  reply.set_role(config_.role);
  v1::DeviceProfile* profile = reply.mutable_profile();
  profile->set_device(config_.device);
  profile->set_name(config_.device_name);
  profile->set_isa(config_.isa);
  profile->set_threads(config_.threads);
  profile->set_budget_bytes(ledger_.budget_bytes());
  profile->set_read_bandwidth_bytes_per_second(config_.read_bandwidth);
  reply.set_model_identity(config_.identity);
  reply.set_model_name(config_.model_name);
  reply.set_version(config_.version);
  reply.set_started_unix_ns(static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(started_.time_since_epoch()).count()));
  reply.set_process_id(static_cast<uint64_t>(getpid()));
  reply.set_resident_bytes(device::ReadProcess(device::Root()).resident_bytes);

  const StageRunner::Counters counters = runner_.counters();
  const std::lock_guard lock(mutex_);
  std::string state;
  const truth::Verdict verdict = Review(counters, &state);
  reply.set_state(state);
  reply.set_cause(verdict.cause);
  reply.set_remedy(verdict.remedy);
  if (has_expected_) *reply.mutable_expected() = expected_;
  if (counters.loaded) ToProto(counters.units, reply.mutable_loaded());
  ToProto(ledger_.Allocated(), reply.mutable_allocated());
  reply.set_layer_steps(counters.layer_steps);
  reply.set_rows(counters.rows);
  reply.set_epoch(owner_epoch_);
  reply.set_open_sequences(counters.open_sequences);
  reply.set_free_pages(counters.free_pages);
  reply.set_allocation_failures(ledger_.allocation_failures());
  return reply;
}

absl::Status WorkerService::CheckEpoch(uint64_t epoch) const {
  if (epoch == 0) return InvalidArgument("epoch 0 is no epoch: a gateway mints one at its start");
  if (shutting_down_) return Unavailable("the worker is shutting down");
  if (epoch < owner_epoch_) {
    return FailedPrecondition("stale epoch {}: the worker is owned by epoch {}", epoch, owner_epoch_);
  }
  return absl::OkStatus();
}

void WorkerService::EndStream(const absl::Status& status) {
  if (current_ == nullptr) return;
  // Ended before its sequences go: what it may still queue behind that is dropped.
  current_->End(status);
  current_ = nullptr;
  runner_.CloseAllSequences();
}

absl::StatusOr<ForwardLimits> WorkerService::Attach(const std::shared_ptr<ForwardStream>& stream,
                                                    uint64_t epoch) {
  const StageRunner::Counters counters = runner_.counters();
  const std::lock_guard lock(mutex_);
  SPILLWAY_RETURN_IF_ERROR(CheckEpoch(epoch));
  if (loading_ || !counters.loaded) {
    return FailedPrecondition("no stage is loaded yet ({}); call LoadStage first",
                              loading_ ? "loading" : "starting");
  }
  EndStream(absl::AbortedError(epoch > owner_epoch_ ? fmt::format("epoch {} took the worker over", epoch)
                                                    : fmt::format("epoch {} opened another stream", epoch)));
  // Also when there was no stream: sequences of an owner that never said goodbye.
  runner_.CloseAllSequences();
  if (epoch > owner_epoch_) spdlog::info("event=owner epoch={} previous={}", epoch, owner_epoch_);
  owner_epoch_ = epoch;
  current_ = stream;
  ForwardLimits limits;
  limits.max_rows = counters.options.max_rows;
  limits.n_embd = model_.config.n_embd;
  limits.takes_activations = !counters.units.embedding;
  return limits;
}

void WorkerService::Detach(const ForwardStream* stream) {
  const std::lock_guard lock(mutex_);
  if (current_.get() != stream) return;
  current_ = nullptr;
  runner_.CloseAllSequences();
}

absl::StatusOr<WorkerService::Wanted> WorkerService::CheckRequest(const v1::LoadStageRequest& request) const {
  if (request.model_identity() != config_.identity) {
    return FailedPrecondition("another model: the gateway has {}, this worker has {} ({})",
                              request.model_identity(), config_.identity, config_.model_name);
  }
  Wanted wanted;
  SPILLWAY_ASSIGN_OR_RETURN(wanted.units, UnitsFromProto(request.expected().units(), model_.config.n_layer));
  SPILLWAY_ASSIGN_OR_RETURN(wanted.options, OptionsFromProto(request.expected().options()));
  if (request.expected().device() != config_.device) {
    return FailedPrecondition("the plan expects device \"{}\"; this worker runs on \"{}\"",
                              request.expected().device(), config_.device);
  }
  uint64_t total = 0;
  for (const uint64_t bytes : BytesFromProto(request.expected().memory()).bytes) {
    total = bytes > UINT64_MAX - total ? UINT64_MAX : total + bytes;
  }
  if (total > ledger_.budget_bytes()) {
    return ResourceExhausted("the plan needs {} bytes; this worker's budget is {}", total,
                             ledger_.budget_bytes());
  }
  return wanted;
}

absl::Status WorkerService::LoadStage(const v1::LoadStageRequest& request,
                                      const std::function<void(const v1::LoadStageProgress&)>& progress) {
  SPILLWAY_ASSIGN_OR_RETURN(const Wanted wanted, CheckRequest(request));
  bool same = false;
  {
    std::unique_lock lock(mutex_);
    SPILLWAY_RETURN_IF_ERROR(CheckEpoch(request.epoch()));
    load_changed_.wait(lock, [&] { return !loading_; });
    SPILLWAY_RETURN_IF_ERROR(CheckEpoch(request.epoch()));
    const StageRunner::Counters counters = runner_.counters();
    same = counters.loaded && counters.units == wanted.units && counters.options == wanted.options;
    EndStream(absl::AbortedError(fmt::format("epoch {} loads the stage anew", request.epoch())));
    if (request.epoch() > owner_epoch_) {
      draining_ = false;
      runner_.RefuseNewSequences(false);
    }
    owner_epoch_ = request.epoch();
    expected_ = request.expected();
    has_expected_ = true;
    loading_ = !same;
    if (same) {
      runner_.CloseAllSequences();
      runner_.ResetCounters();
    }
  }
  Review();
  const absl::Status status = same ? absl::OkStatus() : Load(wanted, progress);
  {
    const std::lock_guard lock(mutex_);
    loading_ = false;
    refused_ = absl::IsResourceExhausted(status);
  }
  load_changed_.notify_all();
  Review();
  if (!status.ok()) {
    spdlog::warn("event=load_failed layers={} error=\"{}\"",
                 FormatLayers(wanted.units.layer_begin, wanted.units.layer_end), MessageOf(status));
    return status;
  }
  v1::LoadStageProgress done;
  const PurposeBytes allocated = ledger_.Allocated();
  done.set_bytes_done(allocated[Purpose::kWeights]);
  done.set_bytes_total(allocated[Purpose::kWeights]);
  done.set_done(true);
  ToProto(allocated, done.mutable_allocated());
  if (progress) progress(done);
  return absl::OkStatus();
}

absl::Status WorkerService::Load(const Wanted& wanted,
                                 const std::function<void(const v1::LoadStageProgress&)>& progress) {
  runner_.Install(nullptr);  // the old stage's memory goes before the new one's comes
  const uint64_t total = [&] {
    const std::lock_guard lock(mutex_);
    return expected_.memory().weights();
  }();
  std::mutex mutex;
  std::condition_variable changed;
  bool finished = false;
  std::atomic<uint64_t> bytes{0};
  absl::StatusOr<std::unique_ptr<Stage>> stage = absl::UnknownError("not loaded");
  std::thread loader([&] {
    try {
      stage = factory_(wanted.units, wanted.options, ledger_, [&](uint64_t done) { bytes.store(done); });
      if (stage.ok() && *stage == nullptr) stage = Internal("load: the backend made no stage");
    } catch (const std::bad_alloc&) {
      stage = ResourceExhausted("load: out of memory");
    } catch (const std::exception& error) {
      stage = Internal("load: {}", error.what());
    }
    const std::lock_guard lock(mutex);
    finished = true;
    changed.notify_all();
  });
  {
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, std::chrono::milliseconds(200), [&] { return finished; })) {
      if (!progress) continue;
      v1::LoadStageProgress report;
      report.set_bytes_done(bytes.load());
      report.set_bytes_total(total);
      lock.unlock();  // a slow reader must not hold the loader up
      progress(report);
      lock.lock();
    }
  }
  loader.join();
  SPILLWAY_RETURN_IF_ERROR(stage.status());
  runner_.Install(*std::move(stage));
  return absl::OkStatus();
}

absl::Status WorkerService::UnloadStage(uint64_t epoch) {
  {
    std::unique_lock lock(mutex_);
    SPILLWAY_RETURN_IF_ERROR(CheckEpoch(epoch));
    load_changed_.wait(lock, [&] { return !loading_; });
    SPILLWAY_RETURN_IF_ERROR(CheckEpoch(epoch));
    owner_epoch_ = epoch;
    EndStream(absl::AbortedError("the stage was unloaded"));
    loading_ = true;
  }
  runner_.Install(nullptr);
  {
    const std::lock_guard lock(mutex_);
    loading_ = false;
    refused_ = false;
    has_expected_ = false;
    expected_.Clear();
  }
  load_changed_.notify_all();
  Review();
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> WorkerService::Drain(uint64_t epoch) {
  {
    const std::lock_guard lock(mutex_);
    SPILLWAY_RETURN_IF_ERROR(CheckEpoch(epoch));
    owner_epoch_ = epoch;
    draining_ = true;
    runner_.RefuseNewSequences(true);
  }
  Review();
  return runner_.counters().open_sequences;
}

void WorkerService::ShutDown(std::chrono::milliseconds deadline) {
  {
    const std::lock_guard lock(mutex_);
    shutting_down_ = true;
    runner_.RefuseNewSequences(true);
  }
  Review();
  const Clock::time_point begin = Clock::now();
  while (Clock::now() - begin < deadline) {
    const StageRunner::Counters counters = runner_.counters();
    const bool waiting = runner_.queue().size() > 0 || counters.busy;
    const Clock::time_point quiet_since = std::max(counters.last_forward, begin);
    if (!waiting && (counters.open_sequences == 0 || Clock::now() - quiet_since > kQuiet)) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const std::lock_guard lock(mutex_);
  EndStream(absl::UnavailableError("the worker is shutting down"));
}

}  // namespace spillway::rpc
