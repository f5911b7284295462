// Plays a SchedulerCore against FakeStages on one thread and a made-up clock: the test decides what happens
// next, at random from a printed seed or by hand. Same seed, same run.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/gateway/scheduler/fake_stage.h"

namespace spillway::gateway::testing {

struct Outcome {
  std::vector<int32_t> tokens;
  std::optional<GenerationEvent> done;
};

inline StageOptions SmallStage() {
  StageOptions options;
  options.n_ctx = 512;
  options.kv_pages = 64;
  options.max_sequences = 8;
  options.max_rows = 64;
  return options;
}

class Simulation final : public StageEventSink {
 public:
  Simulation(uint32_t stages, const StageOptions& stage_options, uint64_t seed, SchedulerOptions options = {})
      : random(seed) {
    std::vector<StageEndpoint> endpoints;
    for (uint32_t i = 0; i < stages; ++i) {
      stages_.push_back(std::make_unique<FakeStage>(i, stages, stage_options, this));
      const bool gpu = i + 1 == stages;
      endpoints.push_back(
          stages_.back()->Endpoint(gpu ? "gpu-worker" : "cpu-worker-" + std::to_string(i), gpu));
    }
    options.n_vocab = kVocabulary;
    options.n_embd = kEmbedding;
    core = std::make_unique<SchedulerCore>(options, std::move(endpoints), nullptr);
    events_.resize(stages);
  }

  void ConnectAll() {
    for (auto& stage : stages_) stage->Connect();
    DeliverAll();
  }
  void SetRecurrent(bool recurrent) {
    for (auto& stage : stages_) stage->set_recurrent(recurrent);
  }
  // Events wait per stage, in order, until they are delivered.
  void Post(StageEvent event) override { events_[event.stage].push_back(std::move(event)); }

  bool Deliver(uint32_t stage) {
    if (events_[stage].empty()) return false;
    StageEvent event = std::move(events_[stage].front());
    events_[stage].pop_front();
    core->OnStage(std::move(event), now);
    core->Turn(now);
    return true;
  }
  void DeliverAll() {
    for (uint32_t i = 0; i < events_.size(); ++i) {
      while (Deliver(i)) {
      }
    }
  }

  RequestId Submit(std::vector<int32_t> prompt, uint32_t max_tokens, uint64_t seed = 0,
                   std::vector<int32_t> stop_ids = {},
                   std::shared_ptr<grammar::Constraint> constraint = nullptr) {
    const RequestId id = next_id_++;
    GenerationRequest request;
    request.constraint = std::move(constraint);
    request.prompt = std::move(prompt);
    request.max_tokens = max_tokens;
    request.sampling.seed = seed;
    request.stop_ids = std::move(stop_ids);
    core->Submit(
        id, std::move(request), [this, id](const GenerationEvent& event) { Record(id, event); }, now);
    core->Turn(now);
    return id;
  }
  void Cancel(RequestId id) {
    core->Cancel(id, now);
    core->Turn(now);
  }

  // One random thing: a stage works on a frame, or an event of its arrives. False when nothing is left.
  bool RandomStep() {
    now += std::chrono::microseconds(10);
    std::vector<uint32_t> order(stages_.size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    const bool deliver_first = random() % 2 == 0;
    for (const uint32_t i : order) {
      if (deliver_first ? Deliver(i) || stages_[i]->Step() : stages_[i]->Step() || Deliver(i)) return true;
    }
    return false;
  }
  void RunToEnd() {
    uint64_t steps = 0;
    while (RandomStep()) ASSERT_LT(++steps, 2'000'000u) << "does not end";
  }
  void ExpectNothingHeld() const {
    EXPECT_EQ(core->running(), 0u);
    EXPECT_EQ(core->waiting(), 0u);
    EXPECT_EQ(core->in_flight(), 0u);
    EXPECT_EQ(core->pages_held(), 0u);
    for (const auto& stage : stages_) {
      EXPECT_EQ(stage->pages_held(), 0u);
      EXPECT_EQ(stage->open_sequences(), 0u);
    }
  }
  uint32_t Refusals() const {
    uint32_t refusals = 0;
    for (const auto& stage : stages_) refusals += stage->refusals();
    return refusals;
  }

  std::vector<int32_t> RandomPrompt(uint32_t tokens) {
    std::vector<int32_t> prompt(tokens);
    for (int32_t& token : prompt) token = static_cast<int32_t>(random() % kVocabulary);
    return prompt;
  }

  FakeStage& stage(uint32_t index) { return *stages_[index]; }
  std::map<RequestId, Outcome> outcomes;
  std::unique_ptr<SchedulerCore> core;
  std::mt19937_64 random;
  TimePoint now = TimePoint{} + std::chrono::hours(1);

 private:
  void Record(RequestId id, const GenerationEvent& event) {
    Outcome& outcome = outcomes[id];
    EXPECT_FALSE(outcome.done.has_value()) << "an event after the last";
    if (event.kind == GenerationEvent::Kind::kToken) {
      outcome.tokens.push_back(event.token.token);
    } else {
      outcome.done = event;
      EXPECT_EQ(event.generated_tokens, outcome.tokens.size());
    }
  }

  std::vector<std::unique_ptr<FakeStage>> stages_;
  std::vector<std::deque<StageEvent>> events_;
  RequestId next_id_ = 1;
};

}  // namespace spillway::gateway::testing
