// LoadStage, UnloadStage, Drain, Describe, health and the listener.
#include <gtest/gtest.h>

#include <thread>

#include "rpc/bandwidth_probe.h"
#include "tests/rpc/raw_stream.h"
#include "tests/rpc/worker_fixture.h"

namespace spillway::test {
namespace {

TEST(Control, DescribeAnswersExactlyTheExpectedOfLoadStage) {
  Worker worker;
  rpc::StageClient client("w", worker.address());
  auto described = client.Describe(kLong);
  ASSERT_TRUE(described.ok()) << described.status();
  EXPECT_EQ(described->state(), "starting");
  EXPECT_EQ(described->role(), "cpu");
  EXPECT_EQ(described->model_identity(), kIdentity);
  EXPECT_FALSE(described->has_expected());
  EXPECT_FALSE(described->has_loaded());
  EXPECT_EQ(worker.service().NotReadyReason(), "starting");

  v1::LoadStageRequest request = LoadRequest(3);
  std::vector<v1::LoadStageProgress> reports;
  const absl::Status status = client.LoadStage(
      request, kLong, [&](const v1::LoadStageProgress& report) { reports.push_back(report); });
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_FALSE(reports.empty());
  EXPECT_TRUE(reports.back().done());
  EXPECT_EQ(reports.back().allocated().weights(), kWeights);
  described = client.Describe(kLong);
  ASSERT_TRUE(described.ok());
  EXPECT_EQ(described->state(), "ready") << described->cause();
  EXPECT_EQ(described->expected().SerializeAsString(), request.expected().SerializeAsString());
  EXPECT_EQ(described->loaded().layer_end(), 3u);
  EXPECT_EQ(described->allocated().weights(), kWeights);
  EXPECT_EQ(described->epoch(), 3u);
  EXPECT_EQ(described->free_pages(), 64u);
  EXPECT_GT(described->resident_bytes(), 0u);
}

TEST(Control, BytesThatDifferFromThePlanAreAFallback) {
  Worker worker;
  rpc::StageClient client("w", worker.address());
  v1::LoadStageRequest request = LoadRequest(1);
  request.mutable_expected()->mutable_memory()->set_weights(kWeights + 64);
  ASSERT_TRUE(client.LoadStage(request, kLong).ok());
  const auto described = client.Describe(kLong);
  ASSERT_TRUE(described.ok());
  EXPECT_EQ(described->state(), "degraded");
  EXPECT_FALSE(described->cause().empty());
  EXPECT_FALSE(described->remedy().empty());
  EXPECT_NE(worker.service().NotReadyReason(), "");
}

TEST(Control, LoadStageRefusesWhatCannotBe) {
  WorkerOptions options;
  options.budget = 1 << 20;
  Worker worker(options);
  rpc::StageClient client("w", worker.address());
  const auto refused = [&](auto change, absl::StatusCode code, const std::string& naming) {
    v1::LoadStageRequest request = LoadRequest(1);
    change(&request);
    const absl::Status status = client.LoadStage(request, kLong);
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_NE(MessageOf(status).find(naming), std::string::npos) << status;
  };
  using Request = v1::LoadStageRequest;
  refused([](Request* r) { r->set_model_identity("bb22"); }, absl::StatusCode::kFailedPrecondition, "bb22");
  refused([](Request* r) { r->set_model_identity("bb22"); }, absl::StatusCode::kFailedPrecondition,
          kIdentity);
  refused([](Request* r) { r->mutable_expected()->set_device("cuda"); },
          absl::StatusCode::kFailedPrecondition, "cuda");
  refused([](Request* r) { r->mutable_expected()->mutable_memory()->set_weights(2 << 20); },
          absl::StatusCode::kResourceExhausted, "2097152");
  refused(
      [](Request* r) {
        r->mutable_expected()->mutable_memory()->set_weights(UINT64_MAX);
        r->mutable_expected()->mutable_memory()->set_kv_cache(2);
      },
      absl::StatusCode::kResourceExhausted, "1048576");
  refused([](Request* r) { r->mutable_expected()->mutable_units()->set_layer_end(5); },
          absl::StatusCode::kInvalidArgument, "layers");
  refused([](Request* r) { r->mutable_expected()->mutable_units()->set_layer_begin(4); },
          absl::StatusCode::kInvalidArgument, "layers");
  refused([](Request* r) { r->mutable_expected()->mutable_options()->set_max_rows(0); },
          absl::StatusCode::kInvalidArgument, "max_rows");
  refused([](Request* r) { r->mutable_expected()->mutable_options()->set_n_ctx(UINT32_MAX); },
          absl::StatusCode::kInvalidArgument, "n_ctx");
  refused(
      [](Request* r) {
        r->mutable_expected()->mutable_options()->set_cache_type_v(static_cast<v1::CacheType>(9));
      },
      absl::StatusCode::kInvalidArgument, "cache_type_v");
  refused([](Request* r) { r->set_epoch(0); }, absl::StatusCode::kInvalidArgument, "epoch");
  EXPECT_EQ(worker.loads(), 0);
}

TEST(Control, LoadingTheSameAgainKeepsTheStageAndDropsSequences) {
  Worker worker;
  Events events;
  rpc::StageClient client("w", worker.address());
  ASSERT_TRUE(client.LoadStage(LoadRequest(1), kLong).ok());
  ASSERT_TRUE(client.Connect(1, events.Callbacks(), kLong).ok());
  client.SendOpen(OpenOf(1));
  client.SendForward(ForwardOf(1, 1, 0, 1, 0, 8));
  events.Reply();
  ASSERT_TRUE(client.LoadStage(LoadRequest(2), kLong).ok());
  EXPECT_TRUE(absl::IsAborted(events.Lost()));
  EXPECT_EQ(worker.loads(), 1);
  while (worker.service().Describe().open_sequences() > 0) std::this_thread::yield();
  ASSERT_TRUE(client.LoadStage(LoadRequest(3, {0, 2, true, false}), kLong).ok());
  EXPECT_EQ(worker.loads(), 2);
  EXPECT_EQ(worker.service().Describe().allocated().weights(), kWeights);
}

TEST(Control, DescribeAnswersWhileAStageLoads) {
  Gate gate;
  WorkerOptions options;
  options.load_gate = &gate;
  Worker worker(options);
  gate.Close();
  Events events;
  rpc::StageClient loader("w", worker.address()), client("w", worker.address());
  std::thread load([&] { EXPECT_TRUE(loader.LoadStage(LoadRequest(1), kLong).ok()); });
  gate.AwaitWaiting();
  const auto described = client.Describe(kLong);
  ASSERT_TRUE(described.ok());
  EXPECT_EQ(described->state(), "loading");
  const absl::Status early = client.Connect(1, events.Callbacks(), kLong);
  EXPECT_TRUE(absl::IsFailedPrecondition(early)) << early;
  gate.Open();
  load.join();
  EXPECT_TRUE(client.Connect(1, events.Callbacks(), kLong).ok());
}

TEST(Control, ARefusedStageStaysDegradedWhileItIsTriedAgain) {
  Gate gate;
  WorkerOptions options;
  options.load_gate = &gate;
  options.budget = kWeights / 2;
  Worker worker(options);
  rpc::StageClient client("w", worker.address()), loader("w", worker.address());
  v1::LoadStageRequest request = LoadRequest(1);
  request.mutable_expected()->mutable_memory()->set_weights(
      64);  // the plan's error; the stage needs kWeights
  EXPECT_TRUE(absl::IsResourceExhausted(client.LoadStage(request, kLong)));
  const auto expect_refused = [&] {
    const auto described = client.Describe(kLong);
    ASSERT_TRUE(described.ok()) << described.status();
    EXPECT_EQ(described->state(), "degraded");
    EXPECT_EQ(described->cause(), "alloc_failed");
    EXPECT_FALSE(described->remedy().empty());
  };
  expect_refused();
  gate.Close();
  std::thread load([&] { EXPECT_TRUE(absl::IsResourceExhausted(loader.LoadStage(request, kLong))); });
  gate.AwaitWaiting();
  expect_refused();
  gate.Open();
  load.join();
  expect_refused();
}

TEST(Control, ADrainingWorkerTakesNoNewSequences) {
  Worker worker;
  Events events;
  rpc::StageClient client("w", worker.address());
  ASSERT_TRUE(client.LoadStage(LoadRequest(1), kLong).ok());
  ASSERT_TRUE(client.Connect(1, events.Callbacks(), kLong).ok());
  client.SendOpen(OpenOf(1));
  client.SendForward(ForwardOf(1, 1, 0, 1, 0, 8));
  events.Reply();
  const auto open = worker.service().Drain(1);
  ASSERT_TRUE(open.ok());
  EXPECT_EQ(*open, 1u);
  client.SendOpen(OpenOf(2));
  EXPECT_EQ(events.Error().code(), static_cast<uint32_t>(absl::StatusCode::kUnavailable));
  client.SendForward(ForwardOf(2, 1, 0, 1, 0, 8));  // open ones go on
  EXPECT_EQ(events.Reply().reply.segments(0).code(), v1::SEGMENT_CODE_OK);
  EXPECT_EQ(worker.service().Describe().state(), "draining");
  ASSERT_TRUE(client.LoadStage(LoadRequest(2), kLong).ok());  // a newer gateway takes it into service again
  EXPECT_EQ(worker.service().Describe().state(), "ready");
}

TEST(Control, UnloadGivesTheMemoryBack) {
  Worker worker;
  rpc::StageClient client("w", worker.address());
  ASSERT_TRUE(client.LoadStage(LoadRequest(2), kLong).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(worker.service().UnloadStage(1)));
  ASSERT_TRUE(worker.service().UnloadStage(2).ok());
  const v1::DescribeReply described = worker.service().Describe();
  EXPECT_EQ(described.state(), "starting");
  EXPECT_EQ(described.allocated().weights(), 0u);
  EXPECT_FALSE(described.has_expected());
}

TEST(Control, AShutDownEndsTheStreamWithUnavailable) {
  Worker worker;
  Events events;
  rpc::StageClient client("w", worker.address());
  ASSERT_TRUE(client.LoadStage(LoadRequest(1), kLong).ok());
  ASSERT_TRUE(client.Connect(1, events.Callbacks(), kLong).ok());
  worker.service().ShutDown(kLong);
  const absl::Status lost = events.Lost();
  EXPECT_TRUE(absl::IsUnavailable(lost)) << lost;
  EXPECT_NE(MessageOf(lost).find("shutting down"), std::string::npos) << lost;
  EXPECT_TRUE(absl::IsUnavailable(client.Connect(1, events.Callbacks(), kLong)));
}

TEST(Listener, NamesAnAddressInUseAndRefusesOthersThanLoopback) {
  Worker worker;
  rpc::ServerOptions options;
  options.name = "worker";
  options.address = worker.address();
  const auto taken = rpc::Server::Start(options);
  EXPECT_TRUE(absl::IsUnavailable(taken.status())) << taken.status();
  EXPECT_NE(MessageOf(taken.status()).find(worker.address()), std::string::npos) << taken.status();
  EXPECT_NE(MessageOf(taken.status()).find("in use"), std::string::npos) << taken.status();
  options.address = "0.0.0.0:0";
  const auto wide = rpc::Server::Start(options);
  EXPECT_TRUE(absl::IsFailedPrecondition(wide.status())) << wide.status();
  EXPECT_NE(MessageOf(wide.status()).find("--insecure=worker"), std::string::npos) << wide.status();
  options.insecure = true;
  v1::Worker::Service nothing;
  options.services = {&nothing};
  EXPECT_TRUE(rpc::Server::Start(options).ok());
  for (const char* address :
       {"", "127.0.0.1", "127.0.0.1:", ":80", "127.0.0.1:99999", "::1:80", "127.0.0.1:8x"}) {
    options.address = address;
    EXPECT_TRUE(absl::IsInvalidArgument(rpc::Server::Start(options).status())) << address;
  }
  EXPECT_TRUE(rpc::IsLoopback("127.8.0.1"));
  EXPECT_TRUE(rpc::IsLoopback("::1"));
  EXPECT_FALSE(rpc::IsLoopback("::"));
  EXPECT_FALSE(rpc::IsLoopback("example.org"));
}

TEST(BandwidthProbe, MeasuresSomethingWithinItsLimit) {
  rpc::BandwidthOptions options;
  options.bytes = 1 << 20;
  options.limit = std::chrono::milliseconds(1000);
  EXPECT_GT(rpc::MeasureReadBandwidth(options), 1e6);
  options.limit = std::chrono::milliseconds(0);
  EXPECT_EQ(rpc::MeasureReadBandwidth(options), 0);
  options.bytes = 0;
  EXPECT_EQ(rpc::MeasureReadBandwidth(options), 0);
}

TEST(Convert, StatusCodesKeepTheirMeaningBothWays) {
  for (int code = 0; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "why");
    EXPECT_EQ(rpc::FromGrpc(rpc::ToGrpc(status)), status);
  }
  EXPECT_TRUE(absl::IsUnknown(rpc::FromGrpc(grpc::Status(static_cast<grpc::StatusCode>(20), "odd"))));
}

TEST(Convert, RoundTrips) {
  SamplingParams params;
  params.temperature = 0.5f;
  params.top_k = 4;
  params.seed = UINT64_MAX;
  params.logit_bias = {{3, -1.5f}};
  params.stop_ids = {7, 9};
  v1::SamplingParameters proto;
  rpc::ToProto(params, &proto);
  const auto back = rpc::SamplingFromProto(proto);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->seed, params.seed);
  EXPECT_EQ(back->logit_bias, params.logit_bias);
  EXPECT_EQ(back->stop_ids, params.stop_ids);
  PurposeBytes bytes;
  for (size_t i = 0; i < kPurposes; ++i) bytes.bytes[i] = i + 1;
  v1::MemoryByPurpose memory;
  rpc::ToProto(bytes, &memory);
  EXPECT_EQ(rpc::BytesFromProto(memory), bytes);
  v1::SegmentResult result;
  EXPECT_FALSE(rpc::ResultFromProto(result).ok());  // unspecified is refused
}

}  // namespace
}  // namespace spillway::test
