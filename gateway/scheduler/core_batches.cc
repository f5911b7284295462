// SchedulerCore: forming micro-batches (decode rows first, then prompt chunks) and sending them down the
// pipeline.
#include <algorithm>
#include <span>

#include "gateway/scheduler/core.h"
#include "rpc/convert.h"

namespace spillway::gateway {

void SchedulerCore::Turn(TimePoint now) {
  if (WhyNotReady().empty()) {
    ReserveGrowth();
    Admit(now);
    // As many in flight as there are stages: while one is on a stage another can be on the next.
    while (flying_.size() < stages_.size() && SendNextBatch(now)) {
    }
  }
  if (metrics_ != nullptr) {
    metrics_->SetRunning(running());
    metrics_->SetWaiting(waiting());
  }
}

// Gives every sequence about to decode the page its next row needs. The youngest gives way when there is
// none, be it the one that asks: older ones end sooner and free theirs.
void SchedulerCore::ReserveGrowth() {
  for (auto it = running_.begin(); it != running_.end();) {
    Sequence& sequence = *it->second;
    const uint32_t needed = PagesFor(sequence.size());
    while (sequence.pages < needed && pages_held_ + (needed - sequence.pages) > limits_.pages) {
      Sequence& youngest = *running_.rbegin()->second;
      if (&youngest == &sequence) break;
      Preempt(youngest);
    }
    ++it;  // after the preemptions: they may have taken the next one
    if (sequence.pages >= needed) continue;
    if (pages_held_ + (needed - sequence.pages) > limits_.pages) {
      Preempt(sequence);
      return;
    }
    pages_held_ += needed - sequence.pages;
    sequence.pages = needed;
  }
}

bool SchedulerCore::SendNextBatch(TimePoint now) {
  auto batch = std::make_unique<FlyingBatch>();
  batch->step = next_step_;
  uint32_t rows_left = limits_.rows;
  AddDecodeRows(*batch, &rows_left);
  AddPrefillRows(*batch, rows_left);
  if (batch->items.empty()) return false;
  ++next_step_;
  for (const BatchItem& item : batch->items) {
    Sequence& sequence = *open_.at(item.sequence);
    if (sequence.first_sent == TimePoint{}) sequence.first_sent = now;
  }
  SendToStage(std::move(batch), {}, options_.activation_type, now);
  return true;
}

// An equal share of all decoding sequences, those that waited longest first.
void SchedulerCore::AddDecodeRows(FlyingBatch& batch, uint32_t* rows_left) {
  uint32_t decoding = 0;
  std::vector<Sequence*> ready;
  for (const auto& [id, sequence] : running_) {
    if (!sequence->decoding()) continue;
    ++decoding;
    if (sequence->in_flight == 0) ready.push_back(sequence);
  }
  std::stable_sort(ready.begin(), ready.end(),
                   [](const Sequence* a, const Sequence* b) { return a->last_step < b->last_step; });
  const auto stages = static_cast<uint32_t>(stages_.size());
  const uint32_t share = std::min((decoding + stages - 1) / stages, *rows_left);
  size_t masked = 0;
  for (uint32_t i = 0, added = 0; i < ready.size() && added < share; ++i) {
    if (ready[i]->mask != nullptr && ++masked > max_masked_rows()) continue;
    AddItem(batch, *ready[i], 1);
    ++added;
    --*rows_left;
  }
}

// Oldest first. Chunks of one sequence may follow each other in flight: links and stages keep their order. A
// chunk ends on a page boundary where it can, so that equal prompts are cut alike whoever runs beside them.
void SchedulerCore::AddPrefillRows(FlyingBatch& batch, uint32_t rows_left) {
  uint64_t unsent = 0;
  for (const auto& [id, sequence] : running_) unsent += sequence->decoding() ? 0 : sequence->unsent();
  if (unsent == 0) return;
  const uint64_t share = (unsent + stages_.size() - 1) / stages_.size();
  const uint64_t whole_pages = (share + kPageTokens - 1) / kPageTokens * kPageTokens;
  uint32_t rows = static_cast<uint32_t>(std::min<uint64_t>({rows_left, pacer_.rows(), whole_pages}));
  size_t masked = std::count_if(batch.items.begin(), batch.items.end(), [this](const BatchItem& item) {
    return open_.at(item.sequence)->mask != nullptr;
  });
  for (const auto& [id, sequence] : running_) {
    if (rows == 0) return;
    if (sequence->decoding() || sequence->unsent() == 0) continue;
    uint32_t end = sequence->sent + std::min(rows, sequence->unsent());
    if (end < sequence->size()) {
      const uint32_t aligned = end / kPageTokens * kPageTokens;
      if (aligned > sequence->sent) end = aligned;
    }
    const uint32_t count = end - sequence->sent;
    if (sequence->mask != nullptr && end == sequence->size() && ++masked > max_masked_rows()) continue;
    AddItem(batch, *sequence, count);
    batch.prefill = true;
    batch.prefill_rows += count;
    rows -= count;
  }
}

void SchedulerCore::AddItem(FlyingBatch& batch, Sequence& sequence, uint32_t count) {
  BatchItem item;
  item.sequence = sequence.id;
  item.run = sequence.run;
  item.begin = sequence.sent;
  item.count = count;
  item.prefix_hash = sequence.sent_hash;
  for (uint32_t i = 0; i < count; ++i) {
    sequence.sent_hash = ExtendPrefixHash(sequence.sent_hash, sequence.tokens[sequence.sent + i]);
  }
  sequence.sent += count;
  item.samples = sequence.sent == sequence.size();
  ++sequence.in_flight;
  sequence.last_step = batch.step;
  batch.items.push_back(item);
}

// Every item's sequence is open. `activations` holds the items' rows in order (empty for the first stage).
void SchedulerCore::SendToStage(Batch batch, std::string activations, v1::ActivationType type,
                                TimePoint now) {
  StageState& stage = stages_[batch->stage];
  v1::Forward forward;
  forward.set_step(batch->step);
  forward.set_activation_type(type);
  forward.set_activations(std::move(activations));
  forward.set_last(true);
  for (const BatchItem& item : batch->items) {
    Sequence& sequence = *open_.at(item.sequence);
    if (batch->stage >= sequence.opened_on) OpenOn(batch->stage, sequence);
    v1::Segment& segment = *forward.add_segments();
    segment.set_sequence(item.sequence);
    segment.set_begin(item.begin);
    segment.set_prefix_hash(item.prefix_hash);
    segment.set_outputs(item.samples ? v1::OUTPUT_ROWS_LAST : v1::OUTPUT_ROWS_NONE);
    if (item.samples && sequence.mask != nullptr && batch->stage + 1 == stages_.size()) {
      std::string& mask = *segment.mutable_token_masks();
      mask.assign(MaskBytes(options_.n_vocab), '\0');  // the model may have more tokens than the vocabulary
      std::copy_n(sequence.mask->begin(), std::min(mask.size(), sequence.mask->size()), mask.begin());
    }
    const auto first = sequence.tokens.begin() + item.begin;
    segment.mutable_tokens()->Add(first, first + item.count);
  }
  batch->sent_at = now;
  stage.steps.push_back(batch->step);
  ++stage.forwards_sent;
  hops_.Sent(batch->stage, now);
  stage.endpoint.link->SendForward(std::move(forward));
  const uint64_t step = batch->step;
  flying_.insert_or_assign(step, std::move(batch));
}

void SchedulerCore::OpenOn(uint32_t stage, Sequence& sequence) {
  v1::Open open;
  open.set_sequence(sequence.id);
  open.set_prompt_tokens(sequence.prompt_tokens);
  rpc::ToProto(sequence.sampling, open.mutable_sampling());
  stages_[stage].endpoint.link->SendOpen(std::move(open));
  sequence.opened_on = stage + 1;
}

TimePoint SchedulerCore::NextDeadline() const {
  TimePoint next = TimePoint::max();
  for (const StageState& stage : stages_) {
    if (!stage.steps.empty())
      next = std::min(next, flying_.at(stage.steps.front())->sent_at + options_.hop_timeout);
  }
  return next;
}

}  // namespace spillway::gateway
