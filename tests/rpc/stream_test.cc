// The Forward stream over loopback between StageClient and WorkerService, its frames over gRPC and over the
// local plane: round trips, fragments, cancelling, replay, ownership by epochs, and what happens at its end.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/rpc/raw_stream.h"
#include "tests/rpc/worker_fixture.h"

namespace spillway::test {
namespace {

std::vector<float> Floats(const std::string& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

rpc::DataPlane plane;  // of the running test

class Stream : public testing::TestWithParam<rpc::DataPlane> {
 protected:
  Stream() { plane = GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(, Stream, testing::Values(rpc::DataPlane::kGrpc, rpc::DataPlane::kAuto),
                         [](const auto& info) {
                           return info.param == rpc::DataPlane::kGrpc ? "OverGrpc" : "OverTheLocalPlane";
                         });

// A loaded worker with a connected client.
struct Connected {
  explicit Connected(WorkerOptions options = {}, StageUnits units = {1, 3, false, false})
      : worker(options), client("cpu-worker-0", worker.address(), plane) {
    EXPECT_TRUE(client.LoadStage(LoadRequest(1, units), kLong).ok());
    const absl::Status status = client.Connect(1, events.Callbacks(), kLong);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(client.local(), plane == rpc::DataPlane::kAuto);
  }
  Worker worker;
  Events events;
  rpc::StageClient client;
};

TEST_P(Stream, AnswersAMicroBatchWithActivationsAndTimings) {
  Connected c;
  c.client.SendOpen(OpenOf(7));
  c.client.SendForward(ForwardOf(100, 7, 0, 3, 0, 8));
  const rpc::HopReply hop = c.events.Reply();
  EXPECT_EQ(hop.reply.error_code(), 0u) << hop.reply.error();
  EXPECT_EQ(hop.reply.step(), 100u);
  EXPECT_EQ(hop.reply.device(), "host");
  EXPECT_EQ(hop.reply.layer_steps(), 3u * 2u);
  EXPECT_EQ(hop.reply.free_pages(), 63u);
  EXPECT_GT(hop.reply.timings().queue_ns() + hop.reply.timings().serialize_ns(), 0u);
  EXPECT_EQ(hop.sent_bytes, 3u * 8 * 4);
  EXPECT_EQ(hop.received_bytes, 3u * 8 * 4);
  EXPECT_GT(hop.round_trip_seconds, 0);
  ASSERT_EQ(hop.reply.segments_size(), 1);
  EXPECT_EQ(hop.reply.segments(0).code(), v1::SEGMENT_CODE_OK);
  EXPECT_EQ(hop.reply.segments(0).held_tokens(), 3u);
  const std::vector<float> rows = Floats(hop.reply.activations());
  ASSERT_EQ(rows.size(), 24u);
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t row = i / 8;
    EXPECT_EQ(rows[i], static_cast<float>(row) + 1.0f);
  }
}

TEST_P(Stream, TheHeadAnswersSampledRows) {
  Connected c({}, {2, 4, false, true});
  c.client.SendOpen(OpenOf(1));
  v1::Forward forward = ForwardOf(1, 1, 0, 4, 0, 8);
  forward.mutable_segments(0)->set_return_logits(true);
  c.client.SendForward(forward);
  const rpc::HopReply hop = c.events.Reply();
  ASSERT_EQ(hop.reply.sampled_size(), 1);
  EXPECT_EQ(hop.reply.sampled(0).position(), 3u);
  EXPECT_EQ(hop.reply.sampled(0).chosen().token(), 5);
  EXPECT_EQ(hop.reply.sampled(0).logits().size(), 400u);
  EXPECT_TRUE(hop.reply.activations().empty());
}

TEST_P(Stream, PayloadsBeyondOneMessageTravelInFragments) {
  WorkerOptions options;
  options.n_embd = 20011;  // 64 rows are 5 MB each way
  Connected c(options);
  c.client.SendOpen(OpenOf(1));
  for (uint64_t step = 1; step <= 3; ++step) {
    c.client.SendForward(ForwardOf(step, 1, 0, 64, 0, options.n_embd));
  }
  for (uint64_t step = 1; step <= 3; ++step) {
    const rpc::HopReply hop = c.events.Reply();
    EXPECT_EQ(hop.reply.step(), step);
    const std::vector<float> rows = Floats(hop.reply.activations());
    ASSERT_EQ(rows.size(), 64u * options.n_embd);
    for (size_t i = 0; i < rows.size(); i += 997) {
      const size_t row = i / options.n_embd;
      ASSERT_EQ(rows[i], static_cast<float>(row) + 1.0f);
    }
  }
}

TEST_P(Stream, LogitsOfManyRowsTravelInFragments) {
  WorkerOptions options;
  options.n_vocab = 50000;
  Connected c(options, {2, 4, false, true});
  c.client.SendOpen(OpenOf(1));
  v1::Forward forward = ForwardOf(1, 1, 0, 33, 0, 8);
  forward.mutable_segments(0)->set_return_logits(true);
  forward.mutable_segments(0)->set_outputs(v1::OUTPUT_ROWS_ALL);
  c.client.SendForward(forward);
  const rpc::HopReply hop = c.events.Reply();
  ASSERT_EQ(hop.reply.segments_size(), 1);
  ASSERT_EQ(hop.reply.sampled_size(), 33);
  for (int i = 0; i < 33; ++i) {
    EXPECT_EQ(hop.reply.sampled(i).position(), static_cast<uint32_t>(i));
    EXPECT_EQ(hop.reply.sampled(i).logits().size(), 200000u);
  }
}

TEST_P(Stream, HalfPrecisionActivationsComeBackInTheSameType) {
  for (const v1::ActivationType type : {v1::ACTIVATION_TYPE_F16, v1::ACTIVATION_TYPE_BF16}) {
    Connected c;
    c.client.SendOpen(OpenOf(1));
    v1::Forward forward = ForwardOf(1, 1, 0, 2, 0, 8);
    forward.set_activation_type(type);
    forward.clear_activations();
    const std::vector<float> rows(16, 1.5f);
    rpc::EncodeActivations(rows, type, forward.mutable_activations());
    c.client.SendForward(forward);
    const rpc::HopReply hop = c.events.Reply();
    EXPECT_EQ(hop.reply.activation_type(), type);
    std::vector<float> storage;
    const auto decoded = rpc::DecodeActivations(type, hop.reply.activations(), 16, &storage);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    for (const float value : *decoded) EXPECT_EQ(value, 2.5f);
  }
}

TEST_P(Stream, AWrongPrefixNeedsReplayAndTouchesNoOtherSequence) {
  Connected c;
  c.client.SendOpen(OpenOf(1));
  c.client.SendOpen(OpenOf(2));
  v1::Forward both = ForwardOf(1, 1, 0, 2, 0, 0);
  AddSegment(&both, 2, 0, 2, 0, 0);
  both.set_activation_type(v1::ACTIVATION_TYPE_F32);
  rpc::EncodeActivations(std::vector<float>(4 * 8), v1::ACTIVATION_TYPE_F32, both.mutable_activations());
  c.client.SendForward(both);
  EXPECT_EQ(c.events.Reply().reply.segments(1).code(), v1::SEGMENT_CODE_OK);

  const std::vector<int32_t> prefix = {1, 2};
  both.set_step(2);
  for (v1::Segment& segment : *both.mutable_segments()) segment.set_begin(2);
  both.mutable_segments(0)->set_prefix_hash(12345);
  both.mutable_segments(1)->set_prefix_hash(PrefixHash(prefix));
  c.client.SendForward(both);
  const rpc::HopReply hop = c.events.Reply();
  ASSERT_EQ(hop.reply.segments_size(), 2);
  EXPECT_EQ(hop.reply.segments(0).code(), v1::SEGMENT_CODE_NEEDS_REPLAY);
  EXPECT_FALSE(hop.reply.segments(0).error().empty());
  EXPECT_EQ(hop.reply.segments(1).code(), v1::SEGMENT_CODE_OK);
  EXPECT_EQ(hop.reply.segments(1).held_tokens(), 4u);
  EXPECT_EQ(hop.received_bytes, 2u * 8 * 4);  // rows of the ok segment only
}

TEST_P(Stream, UnknownSequencesAndFailedOpensAreAnsweredInBand) {
  Connected c;
  c.client.SendForward(ForwardOf(1, 99, 0, 1, 0, 8));
  EXPECT_EQ(c.events.Reply().reply.segments(0).code(), v1::SEGMENT_CODE_UNKNOWN_SEQUENCE);
  v1::Open open = OpenOf(5);
  open.mutable_sampling()->set_top_p(7);
  c.client.SendOpen(open);
  const v1::SequenceError error = c.events.Error();
  EXPECT_EQ(error.sequence(), 5u);
  EXPECT_EQ(error.code(), static_cast<uint32_t>(absl::StatusCode::kInvalidArgument));
  EXPECT_NE(error.error().find("top_p"), std::string::npos) << error.error();
  v1::Fork fork;
  fork.set_source(50);
  fork.set_target(51);
  c.client.SendFork(fork);
  EXPECT_EQ(c.events.Error().sequence(), 51u);
}

TEST_P(Stream, CancelDropsWhatWaitsAndNothingElse) {
  Gate gate;
  WorkerOptions options;
  options.gate = &gate;
  Connected c(options);
  for (uint64_t id = 1; id <= 3; ++id) c.client.SendOpen(OpenOf(id));
  gate.Close();
  c.client.SendForward(ForwardOf(1, 3, 0, 1, 0, 8));  // is being computed
  gate.AwaitWaiting();
  v1::Forward both = ForwardOf(2, 1, 0, 1, 0, 0);
  AddSegment(&both, 2, 0, 2, 0, 0);
  both.set_activation_type(v1::ACTIVATION_TYPE_F32);
  std::vector<float> rows(8, 10.0f);
  rows.resize(24, 20.0f);
  rpc::EncodeActivations(rows, v1::ACTIVATION_TYPE_F32, both.mutable_activations());
  c.client.SendForward(both);
  c.client.SendForward(ForwardOf(3, 1, 0, 1, 0, 8));
  c.client.SendCancel(1);
  c.client.SendCancel(77);
  // A marker behind the cancel shows that the worker has read it.
  c.client.SendForward(ForwardOf(4, 1, 0, 1, 0, 8));
  while (c.worker.service().waiting() < 3) std::this_thread::yield();
  gate.Open();
  EXPECT_EQ(c.events.Reply().reply.segments(0).code(), v1::SEGMENT_CODE_OK);
  const rpc::HopReply second = c.events.Reply();
  ASSERT_EQ(second.reply.segments_size(), 2);
  EXPECT_EQ(second.reply.segments(0).code(), v1::SEGMENT_CODE_INVALID);
  EXPECT_EQ(second.reply.segments(0).error(), "cancelled");
  EXPECT_EQ(second.reply.segments(1).code(), v1::SEGMENT_CODE_OK);
  EXPECT_EQ(Floats(second.reply.activations()), std::vector<float>(16, 21.0f));
  EXPECT_EQ(c.events.Reply().reply.segments(0).error(), "cancelled");
  EXPECT_EQ(c.events.Reply().reply.segments(0).code(), v1::SEGMENT_CODE_OK);
}

TEST_P(Stream, StaleEpochsAreRefusedAndNewerOnesTakeOver) {
  Connected c;
  c.client.SendOpen(OpenOf(1));
  c.client.SendForward(ForwardOf(1, 1, 0, 1, 0, 8));
  c.events.Reply();

  Events second_events;
  rpc::StageClient second("cpu-worker-0", c.worker.address(), plane);
  const absl::Status connected = second.Connect(5, second_events.Callbacks(), kLong);
  ASSERT_TRUE(connected.ok()) << connected;
  const absl::Status lost = c.events.Lost();
  EXPECT_TRUE(absl::IsAborted(lost)) << lost;
  EXPECT_NE(MessageOf(lost).find("epoch 5"), std::string::npos) << lost;

  second.SendForward(ForwardOf(1, 1, 0, 1, 0, 8));  // the other gateway's sequence is gone
  EXPECT_EQ(second_events.Reply().reply.segments(0).code(), v1::SEGMENT_CODE_UNKNOWN_SEQUENCE);

  const absl::Status stale = c.client.Connect(4, c.events.Callbacks(), kLong);
  EXPECT_TRUE(absl::IsFailedPrecondition(stale)) << stale;
  EXPECT_NE(MessageOf(stale).find("stale epoch 4"), std::string::npos) << stale;
  const absl::Status load = c.client.LoadStage(LoadRequest(4), kLong);
  EXPECT_TRUE(absl::IsFailedPrecondition(load)) << load;
  second.SendForward(ForwardOf(2, 1, 0, 1, 0, 8));  // undisturbed
  EXPECT_EQ(second_events.Reply().reply.step(), 2u);
  EXPECT_EQ(c.events.lost_count(), 0u);  // the refused Connect was no loss of a stream
}

TEST_P(Stream, ItsSequencesEndWithIt) {
  Connected c;
  c.client.SendOpen(OpenOf(1));
  c.client.SendForward(ForwardOf(1, 1, 0, 1, 0, 8));
  c.events.Reply();
  EXPECT_EQ(c.worker.service().Describe().open_sequences(), 1u);
  c.client.Disconnect();
  c.client.Disconnect();
  EXPECT_TRUE(absl::IsCancelled(c.events.Lost()));
  while (c.worker.service().Describe().open_sequences() > 0) std::this_thread::yield();
  EXPECT_EQ(c.worker.service().Describe().free_pages(), 64u);
  c.client.SendOpen(OpenOf(2));  // without a stream: dropped
  ASSERT_TRUE(c.client.Connect(1, c.events.Callbacks(), kLong).ok());
  EXPECT_EQ(c.events.lost_count(), 0u);
  c.client.SendForward(ForwardOf(2, 1, 0, 1, 0, 8));
  EXPECT_EQ(c.events.Reply().reply.segments(0).code(), v1::SEGMENT_CODE_UNKNOWN_SEQUENCE);
}

WorkerOptions HeldBy(Gate* gate) {
  WorkerOptions options;
  options.gate = gate;
  return options;
}

// A worker that computes micro-batch 1 until the gate opens.
struct Held {
  Gate gate;
  Connected c{HeldBy(&gate)};
  Held() {
    c.client.SendOpen(OpenOf(1));
    gate.Close();
    c.client.SendForward(ForwardOf(1, 1, 0, 1, 0, 8));
    gate.AwaitWaiting();
  }
};

TEST_P(Stream, NoEventComesAfterDisconnect) {
  Held held;
  auto& [gate, c] = held;
  c.client.Disconnect();
  EXPECT_EQ(c.events.lost_count(), 1u);
  gate.Open();
}

TEST_P(Stream, ALostWorkerIsReportedOnce) {
  auto worker = std::make_unique<Worker>();
  Events events;
  rpc::StageClient client("cpu-worker-0", worker->address(), plane);
  ASSERT_TRUE(client.LoadStage(LoadRequest(1), kLong).ok());
  ASSERT_TRUE(client.Connect(1, events.Callbacks(), kLong).ok());
  worker.reset();
  const absl::Status lost = events.Lost();
  EXPECT_TRUE(absl::IsUnavailable(lost)) << lost;
  EXPECT_TRUE(absl::IsUnavailable(client.Describe(std::chrono::milliseconds(2000)).status()));
  const absl::Status again = client.Connect(2, events.Callbacks(), std::chrono::milliseconds(2000));
  EXPECT_FALSE(again.ok());
  EXPECT_EQ(events.lost_count(), 0u);
}

TEST_P(Stream, AClientMayGoAwayAtAnyMoment) {
  Gate gate;
  WorkerOptions options;
  options.gate = &gate;
  Worker worker(options);
  for (int round = 0; round < 4; ++round) {
    Events events;
    gate.Close();
    {
      rpc::StageClient client("cpu-worker-0", worker.address(), plane);
      ASSERT_TRUE(client.LoadStage(LoadRequest(1 + round), kLong).ok());
      ASSERT_TRUE(client.Connect(1 + round, events.Callbacks(), kLong).ok());
      client.SendOpen(OpenOf(1));
      for (uint64_t step = 1; step <= 5; ++step) client.SendForward(ForwardOf(step, 1, 0, 1, 0, 8));
      if (round % 2 == 0) gate.AwaitWaiting();
    }
    EXPECT_TRUE(absl::IsCancelled(events.Lost()));
    gate.Open();
  }
}

TEST_P(Stream, TooManyWaitingFramesEndIt) {
  Held held;
  auto& [gate, c] = held;
  for (uint64_t step = 2; step <= 400; ++step) c.client.SendForward(ForwardOf(step, 1, 0, 1, 0, 8));
  const absl::Status lost = c.events.Lost();
  EXPECT_TRUE(absl::IsResourceExhausted(lost)) << lost;
  gate.Open();
  EXPECT_TRUE(c.client.Connect(1, c.events.Callbacks(), kLong).ok());
}

TEST_P(Stream, ControlFramesThatWaitAreNotCountedAsMicroBatches) {
  Held held;
  auto& [gate, c] = held;
  for (uint64_t id = 100; id < 700; ++id) c.client.SendClose(id);
  c.client.SendForward(ForwardOf(2, 1, 0, 1, 0, 8));
  while (c.worker.service().waiting() < 601 && c.events.lost_count() == 0) std::this_thread::yield();
  gate.Open();
  EXPECT_EQ(c.events.Reply().reply.step(), 1u);
  EXPECT_EQ(c.events.Reply().reply.step(), 2u);
  EXPECT_EQ(c.events.lost_count(), 0u);
}

TEST_P(Stream, TheLargestMicroBatchIsTaken) {
  WorkerOptions options;
  options.n_embd = rpc::kMaxForwardBytes / sizeof(float) / 64;
  Connected c(options, {2, 4, false, true});
  c.client.SendOpen(OpenOf(1));
  c.client.SendForward(ForwardOf(1, 1, 0, 64, 0, options.n_embd));
  const rpc::HopReply hop = c.events.Reply();
  EXPECT_EQ(hop.sent_bytes, rpc::kMaxForwardBytes);
  EXPECT_EQ(hop.reply.error_code(), 0u) << hop.reply.error();
  EXPECT_EQ(hop.reply.sampled_size(), 1);
}

TEST_P(Stream, ReadinessAndCountersFollowWhatRan) {
  Connected c;
  c.client.SendOpen(OpenOf(1));
  for (uint64_t step = 1; step <= 3; ++step) c.client.SendForward(ForwardOf(step, 1, 0, 4, 0, 8));
  for (int i = 0; i < 3; ++i) c.events.Reply();
  const auto described = c.client.Describe(kLong);
  ASSERT_TRUE(described.ok()) << described.status();
  EXPECT_EQ(described->rows(), 12u);
  EXPECT_EQ(described->layer_steps(), 24u);
  EXPECT_EQ(described->state(), "ready") << described->cause();
  EXPECT_EQ(c.worker.service().NotReadyReason(), "");
}

}  // namespace
}  // namespace spillway::test
