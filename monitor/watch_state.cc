// Judging, confirming and remembering; see the header.
#include "monitor/watch_state.h"

#include <algorithm>

#include "rpc/convert.h"

namespace spillway::monitor {

uint32_t PlannedLayers(const v1::DescribeReply& reply) {
  const v1::StageUnits& units = reply.expected().units();
  return units.layer_end() - std::min(units.layer_begin(), units.layer_end());
}

uint32_t LoadedLayers(const v1::DescribeReply& reply) {
  const v1::StageUnits& units = reply.loaded();
  return units.layer_end() - std::min(units.layer_begin(), units.layer_end());
}

truth::WorkerFacts FactsOf(const WorkerSample& sample) {
  truth::WorkerFacts facts;
  facts.reachable = sample.reachable;
  const v1::DescribeReply& reply = sample.reply;
  // A worker that loads has nothing yet to compare; failures it counts may be of an earlier attempt.
  facts.planned = reply.has_expected() && reply.state() != "loading";
  facts.loaded = reply.has_loaded();
  facts.expected_device = reply.expected().device();
  facts.executed_device = reply.profile().device();
  facts.expected_layers = PlannedLayers(reply);
  facts.loaded_layers = LoadedLayers(reply);
  facts.expected_bytes = rpc::BytesFromProto(reply.expected().memory());
  facts.allocated_bytes = rpc::BytesFromProto(reply.allocated());
  facts.rows = reply.rows();
  facts.layer_steps = reply.layer_steps();
  facts.allocation_failures = reply.allocation_failures();
  facts.observed_bytes = reply.resident_bytes();
  return facts;
}

WatchState::WatchState(const std::vector<WorkerTarget>& targets, double now_unix_seconds)
    : started_(now_unix_seconds),
      workers_(targets.size()),
      tracks_(targets.size(), VerdictTrack(now_unix_seconds)) {
  for (size_t i = 0; i < targets.size(); ++i) {
    workers_[i].target = targets[i];
    workers_[i].since_unix_seconds = now_unix_seconds;
  }
}

void WatchState::UpdateView(const WorkerSample& sample, WorkerView* view) {
  view->reachable = sample.reachable;
  view->error = sample.error;
  if (!sample.reachable) {
    view->layers_executed = 0;
    return;
  }
  view->ever_reached = true;
  const v1::DescribeReply& old = view->reply;
  const v1::DescribeReply& now = sample.reply;
  const bool same_run = now.started_unix_ns() == old.started_unix_ns() && now.rows() >= old.rows() &&
                        now.layer_steps() >= old.layer_steps();
  const uint64_t rows = same_run ? now.rows() - old.rows() : now.rows();
  const uint64_t steps = same_run ? now.layer_steps() - old.layer_steps() : now.layer_steps();
  if (rows > 0) {
    view->layers_executed = static_cast<double>(steps) / static_cast<double>(rows);
  } else if (now.rows() == 0) {
    view->layers_executed = LoadedLayers(now);
  }
  view->reply = now;
}

truth::Verdict WatchState::Judge(const WorkerSample& sample, const WorkerView& view, double now) const {
  if (!sample.reachable && !view.ever_reached && now - started_ < kStartSeconds) return {};
  truth::Verdict verdict = truth::Judge(FactsOf(sample));
  if (verdict.cause == "worker_unreachable") verdict.detail += ": " + sample.error;
  if (verdict.fallback() || !sample.reachable || sample.reply.cause().empty()) return verdict;
  // The worker knows something that its figures do not show.
  const truth::CauseInfo* cause = truth::FindCause(sample.reply.cause());
  if (cause == nullptr) cause = truth::FindCause("unknown");
  const bool nothing = sample.reply.has_expected() && LoadedLayers(sample.reply) == 0;
  return {nothing ? truth::Extent::kFull : truth::Extent::kPartial, std::string(cause->name),
          "the worker itself reports it", std::string(cause->remedy)};
}

std::vector<Event> WatchState::Update(const std::vector<WorkerSample>& samples, double now_unix_seconds) {
  std::vector<Event> transitions;
  for (size_t i = 0; i < workers_.size() && i < samples.size(); ++i) {
    WorkerView& view = workers_[i];
    UpdateView(samples[i], &view);
    // An address that refuses is no guess: its worker may be restarted before a second look.
    std::optional<Event> event =
        tracks_[i].Update(Judge(samples[i], view, now_unix_seconds), samples[i].gone, now_unix_seconds);
    view.verdict = tracks_[i].verdict();
    view.since_unix_seconds = tracks_[i].since_unix_seconds();
    if (!event.has_value()) continue;
    event->worker = view.target.name;
    transitions.push_back(*std::move(event));
  }
  return transitions;
}

}  // namespace spillway::monitor
