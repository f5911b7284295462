// Runs work items one after another. A micro-batch that fails leaves its error in the reply; an exception of
// a library ends here as an error of that micro-batch too.
#include "rpc/stage_runner.h"

#include <future>
#include <new>
#include <utility>

#include "engine/base/status.h"
#include "rpc/convert.h"

namespace spillway::rpc {

namespace {

using Clock = std::chrono::steady_clock;

uint64_t Nanoseconds(Clock::duration duration) {
  const auto count = std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
  return count > 0 ? static_cast<uint64_t>(count) : 0;
}

void SetError(const absl::Status& status, v1::ForwardReply* reply) {
  reply->clear_segments();
  reply->clear_sampled();
  reply->clear_activations();
  reply->set_error_code(static_cast<uint32_t>(status.raw_code()));
  reply->set_error(MessageOf(status));
}

v1::WorkerFrame SequenceErrorFrame(uint64_t sequence, const absl::Status& status) {
  v1::WorkerFrame frame;
  v1::SequenceError* error = frame.mutable_sequence_error();
  error->set_sequence(sequence);
  error->set_code(static_cast<uint32_t>(status.raw_code()));
  error->set_error(MessageOf(status));
  return frame;
}

void SendOne(ReplySink& sink, v1::WorkerFrame frame) {
  std::vector<v1::WorkerFrame> frames;
  frames.push_back(std::move(frame));
  sink.Send(std::move(frames));
}

uint64_t BytesOf(const GgufTensor* tensor) { return tensor == nullptr ? 0 : tensor->bytes; }

// Matrices that a row of the layers reads, as the file holds them: of the experts only those it visits.
uint64_t LayerBytes(const Model& model, const StageUnits& units) {
  uint64_t bytes = 0;
  for (uint32_t i = units.layer_begin; i < units.layer_end && i < model.layers.size(); ++i) {
    const LayerTensors& layer = model.layers[i];
    for (const GgufTensor* tensor :
         {layer.attn_q,      layer.attn_k,    layer.attn_v,     layer.attn_output,   layer.attn_q_a,
          layer.attn_q_b,    layer.attn_kv_a, layer.attn_k_b,   layer.attn_k_b_rows, layer.attn_v_b,
          layer.ssm_qkv,     layer.ssm_gate,  layer.ssm_alpha,  layer.ssm_beta,      layer.ssm_beta_alpha,
          layer.ssm_out,     layer.ffn_gate,  layer.ffn_up,     layer.ffn_down,      layer.router,
          layer.shared_gate, layer.shared_up, layer.shared_down}) {
      bytes += BytesOf(tensor);
    }
    const ExpertSpec& experts = model.config.layers[i].experts;
    for (const GgufTensor* tensor : {layer.gate_experts, layer.up_experts, layer.down_experts}) {
      if (tensor != nullptr) bytes += tensor->bytes / experts.n_expert * experts.n_used;
    }
  }
  return bytes;
}

constexpr uint64_t kMaxLogitsBytes = uint64_t{3} << 20;  // of one row: it must fit a message

}  // namespace

StageRunner::StageRunner(const Model& model, std::string device, telemetry::WorkerMetrics& metrics,
                         std::function<void()> after_forward)
    : model_(model), device_(std::move(device)), metrics_(metrics), after_forward_(std::move(after_forward)) {
  thread_ = std::thread([this] { Run(); });
}

StageRunner::~StageRunner() {
  queue_.Stop();
  thread_.join();
}

void StageRunner::CloseAllSequences() {
  WorkItem item;
  item.work = [this] {
    if (stage_ != nullptr) stage_->CloseAll();
    open_.clear();
    PublishSequences();
  };
  queue_.Push(std::move(item));
}

void StageRunner::ResetCounters() {
  WorkItem item;
  item.work = [this] {
    const std::lock_guard lock(counters_mutex_);
    counters_.rows = 0;
    counters_.layer_steps = 0;
  };
  queue_.Push(std::move(item));
}

void StageRunner::Install(std::unique_ptr<Stage> stage) {
  std::promise<void> done;
  WorkItem item;
  // Captured by reference: this call outlives the task.
  item.work = [this, &stage, &done] {
    stage_ = std::move(stage);
    open_.clear();
    Counters fresh;
    if (stage_ != nullptr) {
      fresh.loaded = true;
      fresh.units = stage_->units();
      fresh.options = stage_->options();
      fresh.allocated = stage_->Allocated();
      fresh.free_pages = stage_->FreePages();
      layer_weight_bytes_ = LayerBytes(model_, fresh.units);
      head_weight_bytes_ = BytesOf(model_.output);
    }
    {
      const std::lock_guard lock(counters_mutex_);
      counters_ = fresh;
    }
    done.set_value();
  };
  queue_.Push(std::move(item));
  done.get_future().wait();
}

StageRunner::Counters StageRunner::counters() const {
  const std::lock_guard lock(counters_mutex_);
  return counters_;
}

void StageRunner::Run() {
  while (std::optional<WorkItem> item = queue_.WaitForTurn()) FinishTurn(std::move(item));
  stage_.reset();
}

void StageRunner::Work() { FinishTurn(queue_.TryTurn()); }

void StageRunner::FinishTurn(std::optional<WorkItem> item) {
  for (; item.has_value(); item = queue_.Next()) {
    if (item->sink != nullptr && !item->sink->alive()) continue;
    metrics_.SetInflight(static_cast<double>(queue_.size() + 1));
    Handle(*item);
    if (item->sink != nullptr) item->sink->Release(*item);
    metrics_.SetInflight(static_cast<double>(queue_.size()));
  }
}

void StageRunner::Handle(WorkItem& item) {
  if (auto* forward = std::get_if<std::unique_ptr<v1::Forward>>(&item.work)) {
    HandleForward(item, **forward);
  } else if (auto* refusal = std::get_if<ForwardJoiner::Refusal>(&item.work)) {
    v1::WorkerFrame frame;
    v1::ForwardReply* reply = frame.mutable_reply();
    reply->set_step(refusal->step);
    reply->set_device(device_);
    reply->set_last(true);
    if (stage_ != nullptr) reply->set_free_pages(stage_->FreePages());
    reply->mutable_timings()->set_queue_ns(Nanoseconds(Clock::now() - item.received));
    SetError(refusal->status, reply);
    SendOne(*item.sink, std::move(frame));
  } else if (auto* open = std::get_if<v1::Open>(&item.work)) {
    HandleOpen(*item.sink, *open);
  } else if (auto* fork = std::get_if<v1::Fork>(&item.work)) {
    HandleFork(*item.sink, *fork);
  } else if (auto* close = std::get_if<v1::Close>(&item.work)) {
    HandleClose(*close);
  } else {
    std::get<std::function<void()>>(item.work)();
  }
}

void StageRunner::HandleOpen(ReplySink& sink, const v1::Open& open) {
  absl::Status status = absl::OkStatus();
  if (stage_ == nullptr) {
    status = FailedPrecondition("open: no stage is loaded");
  } else if (draining_.load()) {
    status = Unavailable("open: the worker is draining and takes no new sequences");
  } else if (absl::StatusOr<SamplingParams> sampling = SamplingFromProto(open.sampling()); !sampling.ok()) {
    status = sampling.status();
  } else {
    SequenceOptions options;
    options.sampling = *std::move(sampling);
    options.prompt_tokens = open.prompt_tokens();
    status = stage_->Open(open.sequence(), options);
  }
  if (status.ok()) {
    open_.insert(open.sequence());
    PublishSequences();
  } else {
    SendOne(sink, SequenceErrorFrame(open.sequence(), status));
  }
}

void StageRunner::HandleFork(ReplySink& sink, const v1::Fork& fork) {
  absl::Status status = absl::OkStatus();
  if (stage_ == nullptr) {
    status = FailedPrecondition("fork: no stage is loaded");
  } else if (draining_.load()) {
    status = Unavailable("fork: the worker is draining and takes no new sequences");
  } else {
    status = stage_->Fork(fork.source(), fork.target(), fork.tokens());
  }
  if (status.ok()) {
    open_.insert(fork.target());
    PublishSequences();
  } else {
    SendOne(sink, SequenceErrorFrame(fork.target(), status));
  }
}

void StageRunner::HandleClose(const v1::Close& close) {
  if (stage_ != nullptr) stage_->Close(close.sequence());
  open_.erase(close.sequence());
  PublishSequences();
}

void StageRunner::PublishSequences() {
  const std::lock_guard lock(counters_mutex_);
  counters_.open_sequences = static_cast<uint32_t>(open_.size());
  counters_.free_pages = stage_ == nullptr ? 0 : stage_->FreePages();
}

void StageRunner::HandleForward(WorkItem& item, v1::Forward& forward) {
  Times times;
  times.received = item.received;
  times.started = times.computing = times.computed = Clock::now();
  v1::ForwardReply reply;
  reply.set_step(forward.step());
  reply.set_device(device_);
  absl::Status status;
  try {
    status = Compute(forward, item.cancelled, &reply, &times);
  } catch (const std::bad_alloc&) {
    status =
        ResourceExhausted("forward: out of memory in a micro-batch of {} segments", forward.segments_size());
  } catch (const std::exception& error) {
    status = Internal("forward: {}", error.what());
  }
  if (!status.ok()) SetError(status, &reply);
  if (stage_ != nullptr) reply.set_free_pages(stage_->FreePages());
  v1::HopTimings* timings = reply.mutable_timings();
  timings->set_queue_ns(Nanoseconds(times.started - times.received));
  timings->set_compute_ns(Nanoseconds(times.computed - times.computing));
  timings->set_serialize_ns(Nanoseconds(times.computing - times.started) +
                            Nanoseconds(Clock::now() - times.computed));
  item.sink->Send(SplitReply(std::move(reply)));
  {
    const std::lock_guard lock(counters_mutex_);
    counters_.busy = false;
  }
  if (after_forward_) after_forward_();
}

absl::Status StageRunner::Prepare(const v1::Forward& forward, const std::vector<uint32_t>& cancelled) {
  if (stage_ == nullptr) return FailedPrecondition("forward: no stage is loaded");
  segments_.clear();
  indices_.clear();
  activations_ = {};
  SegmentsFromProto(forward, &segments_);
  uint64_t rows = 0;
  for (uint32_t i = 0; i < segments_.size(); ++i) {
    indices_.push_back(i);
    rows += segments_[i].count();
    if (segments_[i].return_logits && uint64_t{model_.config.n_vocab} * sizeof(float) > kMaxLogitsBytes) {
      return InvalidArgument("forward: logits of {} tokens do not fit a message", model_.config.n_vocab);
    }
  }
  const uint64_t n_embd = model_.config.n_embd;
  if (!stage_->units().embedding) {
    SPILLWAY_ASSIGN_OR_RETURN(
        activations_,
        DecodeActivations(forward.activation_type(), forward.activations(), rows * n_embd, &storage_));
  }
  if (cancelled.empty()) return absl::OkStatus();
  // Leaves the cancelled segments and their rows out.
  std::vector<float> kept_rows;
  size_t kept = 0, next = 0;
  uint64_t row = 0;
  for (uint32_t i = 0; i < indices_.size(); ++i) {
    const uint64_t count = segments_[i].count();
    if (next < cancelled.size() && cancelled[next] == i) {
      ++next;
    } else {
      if (!activations_.empty()) {
        const auto part = activations_.subspan(row * n_embd, count * n_embd);
        kept_rows.insert(kept_rows.end(), part.begin(), part.end());
      }
      segments_[kept] = segments_[i];
      indices_[kept++] = i;
    }
    row += count;
  }
  segments_.resize(kept);
  indices_.resize(kept);
  storage_ = std::move(kept_rows);
  activations_ = stage_->units().embedding ? std::span<const float>() : std::span<const float>(storage_);
  return absl::OkStatus();
}

absl::Status StageRunner::Compute(const v1::Forward& forward, const std::vector<uint32_t>& cancelled,
                                  v1::ForwardReply* reply, Times* times) {
  SPILLWAY_RETURN_IF_ERROR(Prepare(forward, cancelled));
  {
    const std::lock_guard lock(counters_mutex_);
    counters_.busy = true;
    counters_.last_forward = times->started;
  }
  ForwardOutput output;
  times->computing = Clock::now();
  const absl::Status status =
      segments_.empty() ? absl::OkStatus() : stage_->Forward({segments_, activations_}, &output);
  times->computed = Clock::now();
  SPILLWAY_RETURN_IF_ERROR(status);
  FillReply(forward, output, reply);
  if (!segments_.empty()) Count(output, *times);
  return absl::OkStatus();
}

void StageRunner::FillReply(const v1::Forward& forward, const ForwardOutput& output,
                            v1::ForwardReply* reply) const {
  reply->set_layer_steps(output.layer_steps);
  size_t next = 0;
  for (int i = 0; i < forward.segments_size(); ++i) {
    v1::SegmentResult* result = reply->add_segments();
    if (next < indices_.size() && indices_[next] == static_cast<uint32_t>(i)) {
      ToProto(output.segments[next++], result);
    } else {
      result->set_code(v1::SEGMENT_CODE_INVALID);
      result->set_error("cancelled");
    }
  }
  if (!output.activations.empty()) {
    const v1::ActivationType type = forward.activation_type() == v1::ACTIVATION_TYPE_UNSPECIFIED
                                        ? v1::ACTIVATION_TYPE_F32
                                        : forward.activation_type();
    reply->set_activation_type(type);
    EncodeActivations(output.activations, type, reply->mutable_activations());
  }
  for (const SampledRow& row : output.sampled) {
    v1::SampledRow* proto = reply->add_sampled();
    proto->set_segment(indices_[row.segment]);
    proto->set_position(row.position);
    proto->mutable_chosen()->set_token(row.chosen.token);
    proto->mutable_chosen()->set_logprob(row.chosen.logprob);
    for (const TokenLogprob& top : row.top) {
      v1::TokenLogprob* entry = proto->add_top();
      entry->set_token(top.token);
      entry->set_logprob(top.logprob);
    }
    if (!row.logits.empty()) proto->set_logits(row.logits.data(), row.logits.size_bytes());
  }
}

void StageRunner::Count(const ForwardOutput& output, const Times& times) {
  uint64_t rows = 0, batch_rows = 0;
  for (size_t i = 0; i < segments_.size(); ++i) {
    batch_rows += segments_[i].count();
    if (output.segments[i].code == SegmentCode::kOk) rows += segments_[i].count();
  }
  const uint32_t free_pages = stage_->FreePages();
  {
    const std::lock_guard lock(counters_mutex_);
    counters_.rows += rows;
    counters_.layer_steps += output.layer_steps;
    counters_.free_pages = free_pages;
  }
  const double seconds = std::chrono::duration<double>(times.computed - times.computing).count();
  metrics_.StageCompute(batch_rows == segments_.size() ? "decode" : "prefill", seconds,
                        static_cast<uint32_t>(batch_rows));
  metrics_.LayerSteps(output.layer_steps);
  if (rows > 0) {
    metrics_.WeightBytesRead(layer_weight_bytes_ + (output.sampled.empty() ? 0 : head_weight_bytes_));
  }
}

}  // namespace spillway::rpc
