// The gateway's middle over real gRPC on loopback: plan, pipeline and scheduler drive two or three host
// workers, and the tokens are those of one unsplit stage in this process. Also what happens when a worker
// goes, and when it is the wrong one.
#include "gateway/pipeline/pipeline.h"

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <condition_variable>
#include <thread>

#include "engine/plan/plan.h"
#include "engine/stage/local_pipeline.h"
#include "gateway/scheduler/token_scheduler.h"
#include "telemetry/registry.h"
#include "tests/gateway/pipeline/host_worker.h"
#include "tests/support/tiny_model.h"

namespace spillway::gateway::testing {
namespace {

constexpr std::chrono::seconds kLong{60};  // a deadline that only a hung test meets

// `n_ctx` stands in the header, so that another one makes another identity.
Model TinyModelAt(const std::string& name, uint32_t n_ctx) {
  test::TinyModel tiny;
  tiny.n_layer = 3;
  tiny.n_ctx = n_ctx;
  const auto path = test::WriteTinyModel(tiny, ::testing::TempDir() + name);
  EXPECT_TRUE(path.ok()) << path.status();
  absl::StatusOr<Model> model = LoadModel(*path);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

StageOptions TinyOptions() {
  StageOptions options;
  options.n_ctx = 256;
  options.kv_pages = 24;
  options.max_sequences = 6;
  options.max_rows = 32;
  return options;
}

std::vector<int32_t> Unsplit(const Model& model, const std::vector<int32_t>& prompt, uint32_t count) {
  Ledger ledger;
  auto stage = cpu::CreateHostStage(model, {0, model.config.n_layer, true, true}, TinyOptions(), ledger);
  EXPECT_TRUE(stage.ok()) << stage.status();
  Stage* stages[] = {stage->get()};
  const auto tokens = GreedyTokens(stages, prompt, count, 16);
  EXPECT_TRUE(tokens.ok()) << tokens.status();
  return *tokens;
}

// Layers [0, split) on the CPU worker, the rest and the head on the GPU worker.
StageSetup StageFor(const Model& model, const HostWorker& worker, bool gpu, StageUnits units) {
  PlannedStage planned;
  planned.gpu = gpu;
  planned.units = units;
  planned.options = TinyOptions();
  const auto bytes = cpu::HostStageBytes(model, units, planned.options);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  planned.bytes = *bytes;
  return MakeStageSetup(planned, "host", model.file->identity(), gpu ? "gpu-worker" : "cpu-worker-0",
                        worker.address());
}

// Collects one request; Wait returns when it is done.
class Client {
 public:
  EventSink Sink() {
    return [this](const GenerationEvent& event) {
      const std::lock_guard lock(mutex_);
      if (event.kind == GenerationEvent::Kind::kToken) {
        tokens_.push_back(event.token.token);
      } else {
        done_ = event;
      }
      changed_.notify_all();
    };
  }
  GenerationEvent Wait() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kLong, [this] { return done_.has_value(); })) << "left hanging";
    return done_.value_or(GenerationEvent());
  }
  void WaitForTokens(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kLong, [&] { return tokens_.size() >= count || done_.has_value(); });
  }
  std::vector<int32_t> tokens() {
    const std::lock_guard lock(mutex_);
    return tokens_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int32_t> tokens_;
  std::optional<GenerationEvent> done_;
};

class PipelineTest : public ::testing::Test {
 protected:
  PipelineTest() { spdlog::set_level(spdlog::level::err); }

  void StartCluster() {
    const uint32_t layers = model_.config.n_layer;
    std::vector<StageSetup> setups = {StageFor(model_, cpu_, false, {0, 2, true, false}),
                                      StageFor(model_, gpu_, true, {2, layers, false, true})};
    pipeline_ = std::make_unique<Pipeline>(setups, 1000, &metrics_);
    SchedulerOptions options;
    options.n_vocab = model_.config.n_vocab;
    options.n_embd = model_.config.n_embd;
    std::vector<StageEndpoint> endpoints;
    for (uint32_t i = 0; i < 2; ++i) {
      endpoints.push_back({setups[i].name, setups[i].gpu, TinyOptions(), pipeline_->link(i)});
    }
    scheduler_ = std::make_unique<TokenScheduler>(options, std::move(endpoints), nullptr);
    pipeline_->Start(*scheduler_);
  }
  ~PipelineTest() override {
    if (pipeline_ != nullptr) pipeline_->Stop();
    scheduler_.reset();
  }
  void WaitReady() {
    const auto deadline = std::chrono::steady_clock::now() + kLong;
    std::string why;
    while (!scheduler_->Ready(&why)) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << why;
      std::this_thread::yield();
    }
  }
  template <typename Condition>
  void WaitUntil(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + kLong;
    while (!condition()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      std::this_thread::yield();
    }
  }
  absl::StatusOr<RequestId> Submit(const std::vector<int32_t>& prompt, uint32_t count, Client& client) {
    GenerationRequest request;
    request.prompt = prompt;
    request.max_tokens = count;
    request.sampling.temperature = 0;
    request.ignore_eos = true;
    return scheduler_->Submit(std::move(request), client.Sink());
  }

  Model model_ = TinyModelAt("pipeline_test.gguf", 2048);
  HostWorker cpu_{"cpu", model_};
  HostWorker gpu_{"gpu", model_};
  telemetry::Registry registry_{"gateway"};
  telemetry::GatewayMetrics metrics_{registry_, "tiny"};
  std::unique_ptr<Pipeline> pipeline_;
  std::unique_ptr<TokenScheduler> scheduler_;
};

TEST_F(PipelineTest, EightAtOnceEqualTheUnsplitModel) {
  StartCluster();
  WaitReady();
  std::vector<std::vector<int32_t>> prompts;
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 8; ++i) {
    std::vector<int32_t> prompt;
    for (int t = 0; t < 1 + 13 * i; ++t) prompt.push_back((7 * i + 3 * t) % 250);
    prompts.push_back(prompt);
    clients.push_back(std::make_unique<Client>());
    ASSERT_TRUE(Submit(prompt, 40, *clients.back()).ok());
  }
  for (size_t i = 0; i < clients.size(); ++i) {
    EXPECT_EQ(clients[i]->Wait().finish, FinishReason::kLength);
    EXPECT_EQ(clients[i]->tokens(), Unsplit(model_, prompts[i], 40)) << "request " << i;
  }
  WaitUntil([this] { return cpu_.open_sequences() == 0 && gpu_.open_sequences() == 0; });
  EXPECT_EQ(cpu_.free_pages(), TinyOptions().kv_pages);
}

TEST_F(PipelineTest, HeartbeatsNameTheWorkersAsConfigured) {
  StartCluster();
  WaitReady();
  const std::string heartbeat = "spillway_worker_last_heartbeat_timestamp_seconds{";
  WaitUntil([&] {
    const std::string page = registry_.Render();
    return page.find(heartbeat + "peer=\"cpu-worker-0\",stage=\"cpu\"}") != std::string::npos &&
           page.find(heartbeat + "peer=\"gpu-worker\",stage=\"gpu\"}") != std::string::npos;
  });
  EXPECT_EQ(registry_.Render().find("peer=\"127.0.0.1"), std::string::npos);
}

TEST_F(PipelineTest, ALostWorkerEndsRequestsAndServingResumesWhenItIsBack) {
  StartCluster();
  WaitReady();
  Client client;
  ASSERT_TRUE(Submit({1, 2, 3}, 250, client).ok());
  client.WaitForTokens(2);
  cpu_.Kill();
  const GenerationEvent done = client.Wait();
  EXPECT_EQ(done.finish, FinishReason::kError);
  EXPECT_EQ(done.error.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(std::string(done.error.message()).find("cpu-worker-0 lost"), std::string::npos) << done.error;
  Client refused;
  EXPECT_EQ(Submit({1}, 1, refused).status().code(), absl::StatusCode::kUnavailable);
  WaitUntil([this] { return pipeline_->View(0).condition == StageCondition::kUnreachable; });
  cpu_.Start();
  WaitReady();
  Client again;
  ASSERT_TRUE(Submit({1, 2, 3}, 20, again).ok());
  again.Wait();
  EXPECT_EQ(again.tokens(), Unsplit(model_, {1, 2, 3}, 20));
}

TEST_F(PipelineTest, AWorkerWithAnotherModelIsIncompatibleAndSaysSo) {
  const Model other = TinyModelAt("pipeline_test_other.gguf", 1024);
  HostWorker wrong("cpu", other);
  StageSetup setup = StageFor(model_, wrong, false, {0, model_.config.n_layer, true, true});
  pipeline_ = std::make_unique<Pipeline>(std::vector<StageSetup>{setup}, 1, nullptr);
  SchedulerOptions options;
  options.n_vocab = model_.config.n_vocab;
  options.n_embd = model_.config.n_embd;
  scheduler_ = std::make_unique<TokenScheduler>(
      options, std::vector<StageEndpoint>{{setup.name, false, TinyOptions(), pipeline_->link(0)}}, nullptr);
  pipeline_->Start(*scheduler_);
  WaitUntil([this] { return pipeline_->View(0).condition == StageCondition::kIncompatible; });
  EXPECT_NE(pipeline_->View(0).detail.find("another model"), std::string::npos) << pipeline_->View(0).detail;
  std::string why;
  WaitUntil([&] { return !scheduler_->Ready(&why) && why.find("another model") != std::string::npos; });
}

}  // namespace
}  // namespace spillway::gateway::testing
