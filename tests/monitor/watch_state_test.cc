// From answers to verdicts and transitions, on a made-up clock.
#include "monitor/watch_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/monitor/samples.h"

namespace spillway::monitor {
namespace {

class WatchStateTest : public ::testing::Test {
 protected:
  std::vector<Event> Next(const WorkerSample& sample) { return state_.Update({sample}, ++now_); }
  const WorkerView& view() const { return state_.workers().front(); }

  double now_ = 1000;
  WatchState state_{{{"cpu-worker-0", "127.0.0.1:1"}}, now_};
};

TEST_F(WatchStateTest, HealthyWorkerHasNoEvents) {
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(Next(Reachable(HealthyReply())).empty());
  EXPECT_FALSE(view().verdict.fallback());
  EXPECT_EQ(view().layers_executed, 10);
}

TEST_F(WatchStateTest, WorkerThatIsStillStartingIsNoAlarmUntilItsTimeIsUp) {
  const int rounds = static_cast<int>(WatchState::kStartSeconds) - 1;
  for (int i = 0; i < rounds; ++i) EXPECT_TRUE(Next(Unreachable()).empty());
  EXPECT_TRUE(Next(Unreachable()).empty());  // the first round that counts
  const std::vector<Event> events = Next(Unreachable());
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].to, "worker_unreachable");
}

TEST_F(WatchStateTest, LostWorkerIsNamedInTheSecondRoundAndItsReturnAtOnce) {
  Next(Reachable(HealthyReply()));
  EXPECT_TRUE(Next(Unreachable()).empty());
  std::vector<Event> events = Next(Unreachable());
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].worker, "cpu-worker-0");
  EXPECT_EQ(events[0].from, "");
  EXPECT_EQ(events[0].to, "worker_unreachable");
  EXPECT_EQ(events[0].extent, "full");
  EXPECT_THAT(events[0].detail, ::testing::HasSubstr("connection refused"));
  EXPECT_TRUE(Next(Unreachable()).empty());
  events = Next(Reachable(HealthyReply()));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].from, "worker_unreachable");
  EXPECT_EQ(events[0].to, "");
}

TEST_F(WatchStateTest, RefusedConnectionIsNamedAtOnce) {
  Next(Reachable(HealthyReply()));
  WorkerSample refused = Unreachable();
  refused.gone = true;
  EXPECT_EQ(Next(refused).at(0).to, "worker_unreachable");
  EXPECT_EQ(Next(Reachable(HealthyReply())).at(0).to, "");
}

TEST_F(WatchStateTest, OneLateAnswerIsNoAlarm) {
  Next(Reachable(HealthyReply()));
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(Next(Unreachable()).empty());
    EXPECT_TRUE(Next(Reachable(HealthyReply())).empty());
  }
}

TEST_F(WatchStateTest, LessMemoryThanPlannedIsAFallback) {
  v1::DescribeReply reply = HealthyReply();
  reply.mutable_allocated()->set_weights(1);
  Next(Reachable(reply));
  const std::vector<Event> events = Next(Reachable(reply));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].to, "unknown");
  EXPECT_THAT(events[0].detail, ::testing::HasSubstr("weights"));
}

TEST_F(WatchStateTest, WorkerThatReportsACauseIsBelieved) {
  v1::DescribeReply reply = HealthyReply();
  reply.set_cause("device_lost");
  Next(Reachable(reply));
  EXPECT_EQ(Next(Reachable(reply)).at(0).to, "device_lost");
  reply.set_cause("a cause of a newer version");
  Next(Reachable(reply));
  EXPECT_EQ(Next(Reachable(reply)).at(0).to, "unknown");
}

TEST_F(WatchStateTest, ExecutedLayersComeFromWhatRanSinceTheLastRound) {
  v1::DescribeReply reply = HealthyReply();
  Next(Reachable(reply));
  reply.set_rows(9);
  reply.set_layer_steps(50 + 4 * 8);
  Next(Reachable(reply));
  EXPECT_EQ(view().layers_executed, 8);
  reply.set_started_unix_ns(2);  // restarted: counts begin anew
  reply.set_rows(2);
  reply.set_layer_steps(20);
  Next(Reachable(reply));
  EXPECT_EQ(view().layers_executed, 10);
}

TEST_F(WatchStateTest, UnplannedWorkerIsNoFallback) {
  v1::DescribeReply reply;
  reply.set_state("ready");
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Next(Reachable(reply)).empty());
  EXPECT_EQ(PlannedLayers(reply), 0u);
}

TEST_F(WatchStateTest, LoadingAgainAfterAFailureIsNoFallback) {
  v1::DescribeReply reply = HealthyReply();
  reply.set_state("loading");
  reply.clear_loaded();
  reply.clear_allocated();
  reply.set_allocation_failures(1);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Next(Reachable(reply)).empty());
  reply.set_state("degraded");
  Next(Reachable(reply));
  EXPECT_EQ(Next(Reachable(reply)).at(0).to, "alloc_failed");
}

TEST(EventLog, KeepsTheLatestNewestFirst) {
  EventLog log;
  for (size_t i = 0; i < EventLog::kMaxEvents + 5; ++i) {
    Event event;
    event.unix_seconds = static_cast<double>(i);
    log.Add(event);
  }
  EXPECT_EQ(log.newest_first().size(), EventLog::kMaxEvents);
  EXPECT_EQ(log.newest_first().front().unix_seconds, EventLog::kMaxEvents + 4);
}

TEST_F(WatchStateTest, NonsenseRangesDoNotUnderflow) {
  v1::DescribeReply reply = HealthyReply();
  reply.mutable_loaded()->set_layer_begin(9);
  reply.mutable_loaded()->set_layer_end(3);
  EXPECT_EQ(LoadedLayers(reply), 0u);
}

}  // namespace
}  // namespace spillway::monitor
