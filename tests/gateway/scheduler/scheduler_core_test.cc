// SchedulerCore against hashing stages in every order a seed can produce: whatever is interleaved, preempted,
// replayed, cancelled or lost, a finished request's tokens are those of a run alone, and nothing stays held.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/gateway/scheduler/simulation.h"

namespace spillway::gateway::testing {
namespace {

struct Case {
  std::vector<int32_t> prompt;
  uint64_t seed = 0;
  uint32_t max_tokens = 0;
  std::vector<int32_t> stop_ids;
};

Case RandomCase(Simulation& simulation, uint32_t max_prompt, uint32_t max_answer) {
  Case result;
  result.prompt = simulation.RandomPrompt(1 + static_cast<uint32_t>(simulation.random() % max_prompt));
  result.seed = simulation.random();
  result.max_tokens = 1 + static_cast<uint32_t>(simulation.random() % max_answer);
  for (int i = 0; i < 5; ++i)
    result.stop_ids.push_back(static_cast<int32_t>(simulation.random() % kVocabulary));
  return result;
}

RequestId Submit(Simulation& simulation, const Case& c) {
  return simulation.Submit(c.prompt, c.max_tokens, c.seed, c.stop_ids);
}

void ExpectSolo(const Simulation& simulation, RequestId id, const Case& c, uint32_t stages) {
  const Outcome& outcome = simulation.outcomes.at(id);
  ASSERT_TRUE(outcome.done.has_value()) << "request " << id << " was left hanging";
  const auto expected = SoloTokens(c.prompt, c.seed, stages, c.max_tokens, c.stop_ids);
  EXPECT_EQ(outcome.tokens, expected) << "request " << id;
  const bool stopped = std::find(c.stop_ids.begin(), c.stop_ids.end(), expected.back()) != c.stop_ids.end();
  EXPECT_EQ(outcome.done->finish, stopped ? FinishReason::kStop : FinishReason::kLength);
  EXPECT_EQ(outcome.done->prompt_tokens, c.prompt.size());
}

class AnyOrder : public ::testing::TestWithParam<std::tuple<uint32_t, uint64_t>> {
 protected:
  uint32_t stages() const { return std::get<0>(GetParam()); }
  uint64_t seed() const { return std::get<1>(GetParam()); }
  // Submits `count` random requests between random steps; `between` may interfere.
  std::map<RequestId, Case> Play(Simulation& simulation, int count, uint32_t max_prompt, uint32_t max_answer,
                                 const std::function<void()>& between = {}) {
    std::map<RequestId, Case> cases;
    while (count > 0 || !simulation.outcomes.empty()) {
      if (count > 0 && simulation.random() % 20 == 0) {
        const Case c = RandomCase(simulation, max_prompt, max_answer);
        cases.emplace(Submit(simulation, c), c);
        --count;
      }
      if (between) between();
      if (!simulation.RandomStep() && count == 0) break;
    }
    simulation.RunToEnd();
    return cases;
  }
};

TEST_P(AnyOrder, ConcurrentRequestsEqualTheirSoloRuns) {
  Simulation simulation(stages(), SmallStage(), seed());
  simulation.ConnectAll();
  const auto cases = Play(simulation, 8, 150, 60);
  for (const auto& [id, c] : cases) ExpectSolo(simulation, id, c, stages());
  EXPECT_EQ(simulation.Refusals(), 0u);
  simulation.ExpectNothingHeld();
}

TEST_P(AnyOrder, PageExhaustionPreemptsAndChangesNoToken) {
  StageOptions options = SmallStage();
  options.kv_pages = 12;
  options.n_ctx = 256;
  Simulation simulation(stages(), options, seed());
  simulation.SetRecurrent(seed() % 2 == 0);
  simulation.ConnectAll();
  const auto cases = Play(simulation, 8, 60, 190);
  for (const auto& [id, c] : cases) ExpectSolo(simulation, id, c, stages());
  EXPECT_EQ(simulation.Refusals(), 0u) << "the gateway's own count of pages must keep workers from refusing";
  simulation.ExpectNothingHeld();
}

TEST_P(AnyOrder, StagesThatForgetAreReplayed) {
  Simulation simulation(stages(), SmallStage(), seed());
  simulation.SetRecurrent(seed() % 2 == 0);
  simulation.ConnectAll();
  int forgotten = 0;
  const auto cases = Play(simulation, 8, 100, 40, [&] {
    if (simulation.random() % 60 != 0) return;
    forgotten +=
        simulation.stage(static_cast<uint32_t>(simulation.random() % stages())).ForgetOne(simulation.random);
  });
  if (seed() == 1) {
    EXPECT_GT(forgotten, 0);
  }
  for (const auto& [id, c] : cases) ExpectSolo(simulation, id, c, stages());
  simulation.ExpectNothingHeld();
}

TEST_P(AnyOrder, CancelsAtAnyMomentLeaveNothingHeld) {
  StageOptions options = SmallStage();
  options.kv_pages = 16;
  Simulation simulation(stages(), options, seed());
  simulation.ConnectAll();
  std::vector<RequestId> cancelled;
  const auto cases = Play(simulation, 16, 100, 100, [&] {
    if (simulation.random() % 50 != 0) return;
    const RequestId id = 1 + simulation.random() % 16;
    simulation.Cancel(id);
    cancelled.push_back(id);
  });
  for (const auto& [id, c] : cases) {
    const Outcome& outcome = simulation.outcomes.at(id);
    ASSERT_TRUE(outcome.done.has_value());
    if (outcome.done->finish != FinishReason::kCancelled) {
      ExpectSolo(simulation, id, c, stages());
      continue;
    }
    EXPECT_NE(std::find(cancelled.begin(), cancelled.end(), id), cancelled.end());
    auto expected = SoloTokens(c.prompt, c.seed, stages(), c.max_tokens, c.stop_ids);
    expected.resize(std::min(expected.size(), outcome.tokens.size()));
    EXPECT_EQ(outcome.tokens, expected) << "what came before the cancel";
  }
  EXPECT_EQ(simulation.Refusals(), 0u);
  simulation.ExpectNothingHeld();
}

TEST_P(AnyOrder, LosingStagesEndsRequestsAndServingResumes) {
  Simulation simulation(stages(), SmallStage(), seed());
  simulation.SetRecurrent(seed() % 2 == 0);
  simulation.ConnectAll();
  const auto cases = Play(simulation, 24, 80, 40, [&] {
    if (simulation.random() % 150 != 0) return;
    FakeStage& stage = simulation.stage(static_cast<uint32_t>(simulation.random() % stages()));
    stage.Lose(absl::UnavailableError("socket closed"));
    if (simulation.random() % 2 == 0) stage.ForgetEverything();
    stage.Connect();
  });
  int lost = 0;
  for (const auto& [id, c] : cases) {
    const Outcome& outcome = simulation.outcomes.at(id);
    ASSERT_TRUE(outcome.done.has_value()) << "request " << id << " was left hanging";
    if (outcome.done->finish == FinishReason::kError) {
      ++lost;
      EXPECT_EQ(outcome.done->error.code(), absl::StatusCode::kUnavailable);
      EXPECT_NE(std::string(outcome.done->error.message()).find("socket closed"), std::string::npos);
    } else {
      ExpectSolo(simulation, id, c, stages());
    }
  }
  if (seed() == 1) {
    EXPECT_GT(lost, 0);
  }
  simulation.ExpectNothingHeld();
}

INSTANTIATE_TEST_SUITE_P(SchedulerCore, AnyOrder,
                         ::testing::Combine(::testing::Values(1u, 2u, 3u), ::testing::Range<uint64_t>(1, 13)),
                         [](const auto& info) {
                           return "Stages" + std::to_string(std::get<0>(info.param)) + "Seed" +
                                  std::to_string(std::get<1>(info.param));
                         });

TEST(SchedulerCore, PreemptsWhenTwoSequencesOutgrowThePool) {
  StageOptions options = SmallStage();
  options.kv_pages = 6;
  options.n_ctx = 160;
  Simulation simulation(2, options, 7);
  simulation.ConnectAll();
  const auto first = simulation.RandomPrompt(20);
  const auto second = simulation.RandomPrompt(20);
  const RequestId a = simulation.Submit(first, 130, 1);
  const RequestId b = simulation.Submit(second, 130, 2);
  simulation.RunToEnd();
  EXPECT_GT(simulation.core->preemptions(), 0u);
  EXPECT_EQ(simulation.outcomes.at(a).tokens, SoloTokens(first, 1, 2, 130));
  EXPECT_EQ(simulation.outcomes.at(b).tokens, SoloTokens(second, 2, 2, 130));
  EXPECT_EQ(simulation.Refusals(), 0u);
}

// A stage that holds less than before, and one in front of it whose state cannot go back to just anywhere.
TEST(SchedulerCore, AReplayBeginsWhereTheStagesStateDoes) {
  for (const bool recurrent : {false, true}) {
    SCOPED_TRACE(recurrent);
    Simulation simulation(2, SmallStage(), 3);
    simulation.SetRecurrent(recurrent);
    simulation.ConnectAll();
    const std::vector<int32_t> prompt = simulation.RandomPrompt(200);
    const RequestId id = simulation.Submit(prompt, 40, 9);
    while (simulation.outcomes[id].tokens.size() < 20) ASSERT_TRUE(simulation.RandomStep());
    const auto rows = [&](uint32_t stage) {
      const std::vector<uint32_t> batches = simulation.stage(stage).batch_rows();
      return std::accumulate(batches.begin(), batches.end(), 0u);
    };
    const uint32_t before = rows(0);
    simulation.stage(1).Rewind(218);
    simulation.RunToEnd();
    EXPECT_EQ(simulation.outcomes[id].tokens, SoloTokens(prompt, 9, 2, 40));
    EXPECT_GE(simulation.Refusals(), 1u);
    EXPECT_LE(rows(0) - before, 40u) << "the prompt was not run again";
    simulation.ExpectNothingHeld();
  }
}

TEST(SchedulerCore, TwoSequencesKeepTwoStagesBusy) {
  Simulation simulation(2, SmallStage(), 1);
  simulation.ConnectAll();
  simulation.Submit({1}, 100, 1);
  simulation.Submit({2}, 100, 2);
  int both_busy = 0;
  for (int round = 0; round < 40; ++round) {
    // Both stages work at the same time, then both answers arrive.
    simulation.stage(0).Step();
    simulation.stage(1).Step();
    both_busy +=
        simulation.stage(0).queued_forwards() == 1 && simulation.stage(1).queued_forwards() == 1 ? 1 : 0;
    simulation.DeliverAll();
    EXPECT_LE(simulation.core->in_flight(), 2u);
  }
  simulation.RunToEnd();
  for (const uint32_t rows : simulation.stage(1).batch_rows()) EXPECT_EQ(rows, 1u) << "rows are divided";
}

TEST(SchedulerCore, ClipsTheAnswerToTheContext) {
  StageOptions options = SmallStage();
  options.n_ctx = 64;
  Simulation simulation(2, options, 1);
  simulation.ConnectAll();
  const auto prompt = simulation.RandomPrompt(60);
  const RequestId a = simulation.Submit(prompt, 1000, 3);
  const RequestId b = simulation.Submit(prompt, 0, 4);
  simulation.RunToEnd();
  EXPECT_EQ(simulation.outcomes.at(a).tokens, SoloTokens(prompt, 3, 2, 4));
  EXPECT_EQ(simulation.outcomes.at(a).done->finish, FinishReason::kLength);
  EXPECT_EQ(simulation.outcomes.at(b).tokens.size(), 4u);
}

TEST(SchedulerCore, IgnoreEosGoesOnPastStopIds) {
  Simulation simulation(1, SmallStage(), 1);
  simulation.ConnectAll();
  const auto solo = SoloTokens({5}, 9, 1, 10);
  GenerationRequest request;
  request.prompt = {5};
  request.sampling.seed = 9;
  request.max_tokens = 10;
  request.stop_ids = {solo[2]};
  request.ignore_eos = true;
  std::vector<int32_t> tokens;
  simulation.core->Submit(
      99, request,
      [&](const GenerationEvent& event) {
        if (event.kind == GenerationEvent::Kind::kToken) {
          tokens.push_back(event.token.token);
          EXPECT_FALSE(event.is_stop);
        }
      },
      simulation.now);
  simulation.core->Turn(simulation.now);
  simulation.RunToEnd();
  EXPECT_EQ(tokens, solo);
}

TEST(SchedulerCore, ALongPromptNeverFillsAMicroBatchBeyondTheBound) {
  SchedulerOptions options;
  options.max_prefill_rows = 7;
  Simulation simulation(2, SmallStage(), 3, options);
  simulation.ConnectAll();
  const auto prompt = simulation.RandomPrompt(100);
  const RequestId id = simulation.Submit(prompt, 5, 1);
  simulation.RunToEnd();
  EXPECT_EQ(simulation.outcomes.at(id).tokens, SoloTokens(prompt, 1, 2, 5));
  for (const uint32_t rows : simulation.stage(0).batch_rows()) EXPECT_LE(rows, 7u);
}

TEST(SchedulerCore, AStageThatDoesNotAnswerInTimeIsLost) {
  Simulation simulation(2, SmallStage(), 1);
  simulation.ConnectAll();
  const RequestId id = simulation.Submit({1, 2, 3}, 10, 1);
  const TimePoint deadline = simulation.core->NextDeadline();
  simulation.core->CheckDeadlines(deadline - std::chrono::milliseconds(1));
  EXPECT_FALSE(simulation.outcomes.contains(id));
  simulation.core->CheckDeadlines(deadline);
  ASSERT_TRUE(simulation.outcomes.at(id).done.has_value());
  EXPECT_EQ(simulation.outcomes.at(id).done->error.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(
      std::string(simulation.outcomes.at(id).done->error.message()).find("cpu-worker-0 lost: no answer"),
      std::string::npos);
  EXPECT_EQ(simulation.stage(0).resets(), 1u);
  EXPECT_EQ(simulation.core->NextDeadline(), TimePoint::max());
  const RequestId refused = simulation.Submit({1}, 1, 1);
  EXPECT_EQ(simulation.outcomes.at(refused).done->error.code(), absl::StatusCode::kUnavailable);
}

TEST(SchedulerCore, NonsenseFromAPeerLosesTheStageAndNothingElse) {
  using Tamper = std::function<void(v1::ForwardReply&)>;
  const std::vector<std::pair<uint32_t, Tamper>> tampers = {
      {0, [](v1::ForwardReply& reply) { reply.set_step(reply.step() + 1); }},
      {0, [](v1::ForwardReply& reply) { reply.clear_segments(); }},
      {0, [](v1::ForwardReply& reply) { reply.mutable_activations()->pop_back(); }},
      {0, [](v1::ForwardReply& reply) { reply.set_activation_type(v1::ACTIVATION_TYPE_UNSPECIFIED); }},
      {1, [](v1::ForwardReply& reply) { reply.clear_sampled(); }},
      {1, [](v1::ForwardReply& reply) { reply.mutable_sampled(0)->set_segment(77); }},
      {1, [](v1::ForwardReply& reply) { reply.mutable_sampled(0)->mutable_chosen()->set_token(-1); }},
      {1,
       [](v1::ForwardReply& reply) { reply.mutable_sampled(0)->mutable_chosen()->set_token(kVocabulary); }},
      {1, [](v1::ForwardReply& reply) { *reply.add_sampled() = reply.sampled(0); }},
  };
  for (size_t i = 0; i < tampers.size(); ++i) {
    Simulation simulation(2, SmallStage(), 1);
    simulation.ConnectAll();
    simulation.stage(tampers[i].first).tamper = tampers[i].second;
    const RequestId id = simulation.Submit({1, 2, 3}, 10, 1);
    simulation.RunToEnd();
    ASSERT_TRUE(simulation.outcomes.at(id).done.has_value()) << "tamper " << i;
    EXPECT_EQ(simulation.outcomes.at(id).done->error.code(), absl::StatusCode::kUnavailable)
        << "tamper " << i;
    EXPECT_EQ(simulation.stage(tampers[i].first).resets(), 1u) << "tamper " << i;
    EXPECT_EQ(simulation.core->in_flight(), 0u);
  }
}

TEST(SchedulerCore, ARefusedMicroBatchEndsItsRequestsWithTheReason) {
  Simulation simulation(2, SmallStage(), 1);
  simulation.ConnectAll();
  simulation.stage(1).tamper = [](v1::ForwardReply& reply) {
    reply.set_error_code(3);
    reply.set_error("rows do not fit");
  };
  const RequestId id = simulation.Submit({1, 2, 3}, 10, 1);
  simulation.RunToEnd();
  EXPECT_EQ(simulation.outcomes.at(id).done->error.code(), absl::StatusCode::kInternal);
  EXPECT_NE(std::string(simulation.outcomes.at(id).done->error.message()).find("gpu-worker refused"),
            std::string::npos);
  simulation.ExpectNothingHeld();
}

TEST(SchedulerCore, ASegmentThatNeverSucceedsEndsInAnError) {
  Simulation simulation(2, SmallStage(), 1);
  simulation.ConnectAll();
  simulation.stage(0).tamper = [](v1::ForwardReply& reply) {
    for (v1::SegmentResult& result : *reply.mutable_segments())
      result.set_code(v1::SEGMENT_CODE_NEEDS_REPLAY);
    reply.clear_activations();
  };
  const RequestId id = simulation.Submit({1, 2, 3}, 10, 1);
  simulation.RunToEnd();
  EXPECT_EQ(simulation.outcomes.at(id).done->error.code(), absl::StatusCode::kInternal);
  simulation.ExpectNothingHeld();
}

TEST(SchedulerCore, AStageOutOfPagesAgainstOurCountStillServesEveryone) {
  StageOptions options = SmallStage();
  Simulation simulation(2, options, 5);
  simulation.ConnectAll();
  int refusals = 3;
  simulation.stage(0).tamper = [&](v1::ForwardReply& reply) {
    if (refusals == 0 || reply.segments_size() != 1) return;
    --refusals;
    reply.mutable_segments(0)->set_code(v1::SEGMENT_CODE_OUT_OF_PAGES);
    reply.clear_activations();
  };
  const auto first = simulation.RandomPrompt(40);
  const auto second = simulation.RandomPrompt(40);
  const RequestId a = simulation.Submit(first, 30, 1);
  const RequestId b = simulation.Submit(second, 30, 2);
  simulation.RunToEnd();
  EXPECT_EQ(refusals, 0);
  EXPECT_EQ(simulation.outcomes.at(a).tokens, SoloTokens(first, 1, 2, 30));
  EXPECT_EQ(simulation.outcomes.at(b).tokens, SoloTokens(second, 2, 2, 30));
  simulation.ExpectNothingHeld();
}

TEST(SchedulerCore, EventsOfAnOldConnectionAreIgnored) {
  Simulation simulation(1, SmallStage(), 1);
  simulation.ConnectAll();
  simulation.stage(0).Lose(absl::UnavailableError("gone"));
  simulation.stage(0).Connect();
  simulation.DeliverAll();
  StageEvent stale;
  stale.kind = StageEvent::Kind::kDown;
  stale.connection = 1;
  stale.why = absl::UnavailableError("late news");
  simulation.core->OnStage(stale, simulation.now);
  EXPECT_EQ(simulation.core->WhyNotReady(), "");
}

TEST(PrefillPacer, ApproachesTheTargetOnTheSlowestStage) {
  PrefillPacer pacer(2, 512, 0.050);
  EXPECT_EQ(pacer.rows(), 32u);
  for (int i = 0; i < 50; ++i) {  // 2 ms + 0.5 ms a row, and a stage twice as quick
    pacer.Measured(0, pacer.rows(), 0.002 + 0.0005 * pacer.rows());
    pacer.Measured(1, pacer.rows(), 0.001 + 0.00025 * pacer.rows());
  }
  EXPECT_NEAR(pacer.rows(), 96, 2);
  pacer.Measured(0, 4, 0.010);  // a short prompt says nothing
  EXPECT_NEAR(pacer.rows(), 96, 2);
}

TEST(PrefillPacer, StaysWithinItsBounds) {
  PrefillPacer quick(1, 64, 0.050);
  for (int i = 0; i < 20; ++i) quick.Measured(0, quick.rows(), 1e-6);
  EXPECT_EQ(quick.rows(), 64u);
  PrefillPacer slow(1, 64, 0.050);
  for (int i = 0; i < 20; ++i) slow.Measured(0, slow.rows(), 0.2 * slow.rows());
  EXPECT_EQ(slow.rows(), 1u);
}

TEST(ValidateRequest, NamesBothNumbersOfAPromptThatDoesNotFit) {
  const PipelineLimits limits{100, 10, 4, 64};
  GenerationRequest request;
  EXPECT_EQ(ValidateRequest(request, limits, 50).code(), absl::StatusCode::kInvalidArgument);
  request.prompt.assign(100, 1);
  const absl::Status status = ValidateRequest(request, limits, 50);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(status.message()).find("the prompt has 100 tokens but the context holds 100"), 0u);
  request.prompt = {1, 50};
  EXPECT_EQ(ValidateRequest(request, limits, 50).code(), absl::StatusCode::kInvalidArgument);
  request.prompt = {1, 49};
  EXPECT_TRUE(ValidateRequest(request, limits, 50).ok());
}

// A vocabulary of the 256 bytes, 743 tokens without text, and one that ends.
std::shared_ptr<grammar::Constraint> Constrained(const char* schema) {
  std::vector<std::string> tokens(kVocabulary - 1);
  for (size_t byte = 0; byte < 256; ++byte) tokens[byte].assign(1, static_cast<char>(byte));
  const auto trie = std::make_shared<const grammar::TokenTrie>(tokens, std::vector<int32_t>{kVocabulary - 1});
  return *grammar::Constraint::FromSchema(nlohmann::ordered_json::parse(schema), trie);
}

constexpr const char* kShortList =
    R"({"type":"array","items":{"type":"integer","maximum":999},"maxItems":9})";

std::string TextOf(const Outcome& outcome) {
  std::string text;
  for (const int32_t token : outcome.tokens) {
    if (token < 256) text += static_cast<char>(token);
  }
  return text;
}

// Masks follow the tokens: whatever is preempted, forgotten and run again, the answer is the same JSON.
TEST(ConstrainedAnswers, AreTheSameJsonWhateverIsRunAgain) {
  for (const uint32_t stages : {1u, 2u, 3u}) {
    std::map<RequestId, std::string> calm;
    for (const bool disturbed : {false, true}) {
      StageOptions small = SmallStage();
      if (disturbed) small.kv_pages = 18;
      Simulation simulation(stages, small, 7);
      simulation.ConnectAll();
      for (uint64_t i = 0; i < 6; ++i) {
        simulation.Submit({1, 2, static_cast<int32_t>(i)}, 200, i, {}, Constrained(kShortList));
      }
      int steps = 0;
      while (simulation.RandomStep()) {
        if (disturbed && ++steps % 50 == 0) simulation.stage(stages - 1).ForgetOne(simulation.random);
      }
      for (const auto& [id, outcome] : simulation.outcomes) {
        ASSERT_TRUE(outcome.done.has_value());
        EXPECT_EQ(outcome.done->finish, FinishReason::kStop) << outcome.done->error;
        const std::string text = TextOf(outcome);
        EXPECT_TRUE(nlohmann::json::parse(text, nullptr, false).is_array()) << text;
        if (!disturbed) calm[id] = text;
        EXPECT_EQ(text, calm[id]) << "request " << id;
      }
      simulation.ExpectNothingHeld();
    }
  }
}

TEST(ConstrainedAnswers, EndWithLengthWhereTheLimitCutsThem) {
  Simulation simulation(2, SmallStage(), 1);
  simulation.ConnectAll();
  const RequestId id = simulation.Submit({1}, 3, 0, {}, Constrained(R"({"type":"string","minLength":20})"));
  simulation.RunToEnd();
  EXPECT_EQ(simulation.outcomes.at(id).done->finish, FinishReason::kLength);
  EXPECT_EQ(simulation.outcomes.at(id).tokens.size(), 3u);
}

TEST(ConstrainedAnswers, AWorkerThatIgnoresTheMaskEndsTheRequest) {
  Simulation simulation(1, SmallStage(), 1);
  simulation.ConnectAll();
  simulation.stage(0).tamper = [](v1::ForwardReply& reply) {
    for (v1::SampledRow& row : *reply.mutable_sampled()) row.mutable_chosen()->set_token('x');
  };
  const RequestId id = simulation.Submit({1}, 30, 0, {}, Constrained(kShortList));
  simulation.RunToEnd();
  const Outcome& outcome = simulation.outcomes.at(id);
  EXPECT_EQ(outcome.done->finish, FinishReason::kError);
  EXPECT_NE(outcome.done->error.message().find("against its mask"), absl::string_view::npos);
}

}  // namespace
}  // namespace spillway::gateway::testing
