// SchedulerCore: what stages answer, and what it means when one does not.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "engine/base/status.h"
#include "gateway/scheduler/core.h"

namespace spillway::gateway {

namespace {

uint32_t BytesPerValue(v1::ActivationType type) {
  switch (type) {
    case v1::ACTIVATION_TYPE_F32:
      return 4;
    case v1::ACTIVATION_TYPE_F16:
    case v1::ACTIVATION_TYPE_BF16:
      return 2;
    default:
      return 0;
  }
}

bool IsOk(const v1::SegmentResult& result) { return result.code() == v1::SEGMENT_CODE_OK; }

}  // namespace

void SchedulerCore::OnStage(StageEvent event, TimePoint now) {
  if (event.kind == StageEvent::Kind::kUp) return OnUp(event.stage, event.connection, now);
  StageState& stage = stages_[event.stage];
  if (event.connection != stage.connection) return;
  if (event.kind == StageEvent::Kind::kDown) return OnDown(event.stage, event.why, now);
  if (!stage.up) return;
  if (event.kind == StageEvent::Kind::kReply) {
    OnReply(event.stage, std::move(event.reply), now);
  } else {
    OnSequenceError(event.stage, event.error, now);
  }
}

void SchedulerCore::OnUp(uint32_t index, uint64_t connection, TimePoint now) {
  StageState& stage = stages_[index];
  if (stage.up) OnDown(index, Unavailable("the connection was replaced"), now);
  stage.up = true;
  stage.connection = connection;
  stage.why.clear();
  stage.endpoint.link->Accept(connection);
  for (auto& [sent_before, id] : stage.unproved_closes) {
    stage.endpoint.link->SendClose(id);
    sent_before = 0;
  }
  stage.forwards_sent = 0;
  stage.forwards_answered = 0;
}

void SchedulerCore::OnDown(uint32_t index, const absl::Status& why, TimePoint now) {
  StageState& stage = stages_[index];
  const bool was_up = stage.up;
  stage.up = false;
  stage.why = MessageOf(why);
  if (!was_up) return;
  hops_.Lost(index, why.code(), now);
  for (const uint64_t step : stage.steps) flying_.erase(step);
  stage.steps.clear();
  spdlog::warn("event=stage_lost stage={} requests={} cause=\"{}\"", stage.endpoint.name, requests_.size(),
               stage.why);
  on_lost_();
  // Every sequence had state there. Answers still to come from other stages find no open sequence and fall
  // through.
  CancelAll(Unavailable("{} lost: {}; retry", stage.endpoint.name, stage.why), now);
}

// The scheduler's own verdict on a stage; its connection is started anew.
void SchedulerCore::LoseStage(uint32_t index, const absl::Status& why, TimePoint now) {
  stages_[index].endpoint.link->Reset(why);
  OnDown(index, why, now);
}

void SchedulerCore::CheckDeadlines(TimePoint now) {
  for (uint32_t i = 0; i < stages_.size(); ++i) {
    if (stages_[i].steps.empty()) continue;
    if (flying_.at(stages_[i].steps.front())->sent_at + options_.hop_timeout > now) continue;
    LoseStage(i,
              MakeStatus(absl::StatusCode::kDeadlineExceeded, "no answer within {} ms",
                         options_.hop_timeout.count()),
              now);
  }
}

// Everything a faulty peer could get wrong and later code relies on.
absl::Status SchedulerCore::CheckReply(const FlyingBatch& batch, const v1::ForwardReply& reply,
                                       bool head) const {
  if (static_cast<size_t>(reply.segments_size()) != batch.items.size()) {
    return Internal("step {} answered {} segments for {}", batch.step, reply.segments_size(),
                    batch.items.size());
  }
  uint64_t ok_rows = 0;
  size_t wanted = 0;
  for (size_t i = 0; i < batch.items.size(); ++i) {
    if (!IsOk(reply.segments(static_cast<int>(i)))) continue;
    ok_rows += batch.items[i].count;
    wanted += batch.items[i].samples ? 1 : 0;
  }
  if (!head) {
    const uint64_t bytes = ok_rows * options_.n_embd * BytesPerValue(reply.activation_type());
    if (reply.activations().size() != bytes || (bytes == 0 && ok_rows > 0)) {
      return Internal("step {} answered {} activation bytes (type {}), {} rows need {}", batch.step,
                      reply.activations().size(), static_cast<int>(reply.activation_type()), ok_rows, bytes);
    }
    return absl::OkStatus();
  }
  if (static_cast<size_t>(reply.sampled_size()) != wanted) {
    return Internal("step {} answered {} sampled rows for {}", batch.step, reply.sampled_size(), wanted);
  }
  std::vector<bool> seen(batch.items.size());
  for (const v1::SampledRow& row : reply.sampled()) {
    const uint32_t segment = row.segment();
    const bool fits = segment < batch.items.size() && batch.items[segment].samples && !seen[segment] &&
                      IsOk(reply.segments(static_cast<int>(segment)));
    if (!fits) return Internal("step {} answered a row nobody asked for (segment {})", batch.step, segment);
    seen[segment] = true;
    if (row.chosen().token() < 0 || static_cast<uint32_t>(row.chosen().token()) >= options_.n_vocab) {
      return Internal("step {} drew token {}, outside the vocabulary", batch.step, row.chosen().token());
    }
  }
  return absl::OkStatus();
}

void SchedulerCore::OnReply(uint32_t index, rpc::HopReply hop, TimePoint now) {
  StageState& stage = stages_[index];
  v1::ForwardReply& reply = hop.reply;
  if (stage.steps.empty() || stage.steps.front() != reply.step()) {
    LoseStage(index, Internal("answered step {} out of order", reply.step()), now);
    return;
  }
  const bool head = index + 1 == stages_.size();
  if (reply.error_code() == 0) {
    const absl::Status check = CheckReply(*flying_.at(reply.step()), reply, head);
    if (!check.ok()) return LoseStage(index, check, now);
  }
  stage.steps.pop_front();
  ++stage.forwards_answered;
  while (!stage.unproved_closes.empty() && stage.unproved_closes.front().first < stage.forwards_answered) {
    stage.unproved_closes.pop_front();
  }
  Batch batch = std::move(flying_.extract(reply.step()).mapped());
  hops_.Answered(index, hop, batch->prefill, now);
  if (reply.error_code() != 0) {
    const auto code = static_cast<absl::StatusCode>(reply.error_code());
    hops_.Error(index, code);
    FailBatch(*batch, Internal("{} refused a micro-batch: {}", stage.endpoint.name, reply.error()), now);
    return;
  }
  if (batch->prefill_rows * 2 > batch->rows()) {
    pacer_.Measured(index, batch->rows(), static_cast<double>(reply.timings().compute_ns()) * 1e-9);
  }
  for (size_t i = 0; i < batch->items.size(); ++i) {
    const v1::SegmentResult& result = reply.segments(static_cast<int>(i));
    if (!IsOk(result)) HandleSegmentError(batch->items[i], result, stage.endpoint.name, now);
  }
  if (head) {
    DrawTokens(*batch, reply, now);
  } else {
    ForwardSurvivors(std::move(batch), std::move(reply), now);
  }
}

void SchedulerCore::FailBatch(const FlyingBatch& batch, const absl::Status& why, TimePoint now) {
  for (const BatchItem& item : batch.items) {
    if (Sequence* sequence = FindRun(item)) Finish(*sequence, FinishReason::kError, why, now);
  }
}

void SchedulerCore::HandleSegmentError(const BatchItem& item, const v1::SegmentResult& result,
                                       const std::string& stage, TimePoint now) {
  Sequence* sequence = FindRun(item);
  if (sequence == nullptr) return;  // cancelled, preempted, restarted or replayed meanwhile
  const std::string why =
      fmt::format("{}: {} (holds {} tokens)", stage, result.error(), result.held_tokens());
  switch (result.code()) {
    case v1::SEGMENT_CODE_OUT_OF_PAGES: {
      // Our count says there is room, the stage says there is not: the youngest makes some, and this one
      // starts over.
      Sequence& youngest = *running_.rbegin()->second;
      if (&youngest != sequence) Preempt(youngest);
      Restart(*sequence, why, now);
      return;
    }
    case v1::SEGMENT_CODE_NEEDS_REPLAY:
      Replay(*sequence, std::min(result.resume_tokens(), item.begin), why, now);
      return;
    case v1::SEGMENT_CODE_UNKNOWN_SEQUENCE:
      Restart(*sequence, why, now);
      return;
    default:
      Finish(*sequence, FinishReason::kError, Internal("{}", why), now);
  }
}

void SchedulerCore::LandItem(const BatchItem& item) {
  if (Sequence* sequence = FindRun(item)) --sequence->in_flight;
}

// Rows of segments that failed are not in the answer; rows of sequences that ended meanwhile are cut out of
// it.
void SchedulerCore::ForwardSurvivors(Batch batch, v1::ForwardReply reply, TimePoint now) {
  const size_t row_bytes = size_t{options_.n_embd} * BytesPerValue(reply.activation_type());
  std::string activations = std::move(*reply.mutable_activations());
  std::vector<BatchItem> survivors;
  size_t from = 0;
  size_t to = 0;
  for (size_t i = 0; i < batch->items.size(); ++i) {
    if (!IsOk(reply.segments(static_cast<int>(i)))) continue;
    const BatchItem& item = batch->items[i];
    const size_t bytes = item.count * row_bytes;
    if (FindRun(item) != nullptr) {
      if (from != to)
        std::copy_n(activations.begin() + static_cast<ptrdiff_t>(from), bytes,
                    activations.begin() + static_cast<ptrdiff_t>(to));
      to += bytes;
      survivors.push_back(item);
    }
    from += bytes;
  }
  if (survivors.empty()) return;
  activations.resize(to);
  batch->items = std::move(survivors);
  ++batch->stage;
  SendToStage(std::move(batch), std::move(activations), reply.activation_type(), now);
}

void SchedulerCore::DrawTokens(const FlyingBatch& batch, const v1::ForwardReply& reply, TimePoint now) {
  for (size_t i = 0; i < batch.items.size(); ++i) {
    if (IsOk(reply.segments(static_cast<int>(i)))) LandItem(batch.items[i]);
  }
  for (const v1::SampledRow& row : reply.sampled()) {
    if (Sequence* sequence = FindRun(batch.items[row.segment()])) AddToken(*sequence, row, now);
  }
}

void SchedulerCore::OnSequenceError(uint32_t index, const v1::SequenceError& error, TimePoint now) {
  Sequence* sequence = FindOpen(error.sequence());
  if (sequence == nullptr) return;
  const auto code = static_cast<absl::StatusCode>(error.code());
  hops_.Error(index, code);
  Finish(*sequence, FinishReason::kError,
         MakeStatus(code, "{}: {}", stages_[index].endpoint.name, error.error()), now);
}

}  // namespace spillway::gateway
