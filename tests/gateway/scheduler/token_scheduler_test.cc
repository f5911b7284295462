// TokenScheduler with its real threads: stages that work on threads of their own, clients on others. Meant
// for TSan as well. What is computed is SchedulerCore's test; here it is the queue, readiness, cancelling and
// the end.
#include "gateway/scheduler/token_scheduler.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <random>
#include <thread>

#include "tests/gateway/scheduler/simulation.h"

namespace spillway::gateway::testing {
namespace {

// Collects one request's events; Wait returns when it is done.
class Client {
 public:
  EventSink Sink() {
    return [this](const GenerationEvent& event) {
      const std::lock_guard lock(mutex_);
      if (event.kind == GenerationEvent::Kind::kToken) {
        outcome_.tokens.push_back(event.token.token);
      } else {
        outcome_.done = event;
      }
      changed_.notify_all();
    };
  }
  Outcome Wait() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(
        changed_.wait_for(lock, std::chrono::seconds(60), [this] { return outcome_.done.has_value(); }));
    return outcome_;
  }
  void WaitForTokens(size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), [&] {
      return outcome_.tokens.size() >= count || outcome_.done.has_value();
    }));
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Outcome outcome_;
};

// Stages on their own threads, optionally held still.
class Cluster {
 public:
  Cluster(uint32_t stages, const StageOptions& stage_options, SchedulerOptions options = {}) {
    std::vector<StageEndpoint> endpoints;
    for (uint32_t i = 0; i < stages; ++i) {
      stages_.push_back(std::make_unique<FakeStage>(i, stages, stage_options, nullptr));
      endpoints.push_back(stages_.back()->Endpoint("worker-" + std::to_string(i), i + 1 == stages));
    }
    options.n_vocab = kVocabulary;
    options.n_embd = kEmbedding;
    scheduler = std::make_unique<TokenScheduler>(options, std::move(endpoints), nullptr);
    for (auto& stage : stages_) stage->set_sink(scheduler.get());
    for (auto& stage : stages_) {
      threads_.emplace_back([this, stage = stage.get()] {
        while (!stop_) {
          if (hold_ || !stage->Step()) std::this_thread::yield();
        }
      });
    }
  }
  ~Cluster() {
    hold_ = false;
    scheduler->Shutdown(std::chrono::milliseconds(0));
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  void ConnectAll() {
    for (auto& stage : stages_) stage->Connect();
    WaitForReady(true);
  }
  // Returns why not.
  std::string WaitForReady(bool ready) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    std::string why;
    while (scheduler->Ready(&why) != ready) {
      if (std::chrono::steady_clock::now() > deadline) {
        ADD_FAILURE() << "still " << (ready ? "not ready: " : "ready") << why;
        break;
      }
      std::this_thread::yield();
    }
    return why;
  }
  void Hold(bool hold) { hold_ = hold; }
  FakeStage& stage(uint32_t i) { return *stages_[i]; }

  std::unique_ptr<TokenScheduler> scheduler;

 private:
  std::vector<std::unique_ptr<FakeStage>> stages_;
  std::vector<std::thread> threads_;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> hold_ = false;
};

GenerationRequest Request(std::vector<int32_t> prompt, uint32_t max_tokens, uint64_t seed) {
  GenerationRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.seed = seed;
  return request;
}

TEST(TokenScheduler, ClientsOnManyThreadsGetTheirSoloTokens) {
  StageOptions options = SmallStage();
  options.kv_pages = 20;
  Cluster cluster(2, options);
  cluster.ConnectAll();
  std::vector<std::thread> clients;
  for (uint64_t c = 0; c < 4; ++c) {
    clients.emplace_back([&cluster, c] {
      std::mt19937_64 random(c + 1);
      for (int round = 0; round < 6; ++round) {
        std::vector<int32_t> prompt(1 + random() % 90);
        for (int32_t& token : prompt) token = static_cast<int32_t>(random() % kVocabulary);
        const auto count = static_cast<uint32_t>(1 + random() % 60);
        const uint64_t seed = random();
        Client client;
        const auto id = cluster.scheduler->Submit(Request(prompt, count, seed), client.Sink());
        ASSERT_TRUE(id.ok()) << id.status();
        const bool cancel = random() % 3 == 0;
        if (cancel) {
          client.WaitForTokens(random() % 5);
          cluster.scheduler->Cancel(*id);
        }
        const Outcome outcome = client.Wait();
        auto expected = SoloTokens(prompt, seed, 2, count);
        if (outcome.done->finish == FinishReason::kCancelled) {
          EXPECT_TRUE(cancel);
          expected.resize(outcome.tokens.size());
        }
        EXPECT_EQ(outcome.tokens, expected);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  const SchedulerStatus status = cluster.scheduler->Status();
  EXPECT_EQ(status.decode_hops.size(), 2u);
  EXPECT_GT(status.tokens_per_second, 0);
}

TEST(TokenScheduler, AFullQueueRefusesWithResourceExhausted) {
  SchedulerOptions options;
  options.max_queue = 3;
  StageOptions stage = SmallStage();
  stage.max_sequences = 1;
  Cluster cluster(1, stage, options);
  cluster.ConnectAll();
  cluster.Hold(true);
  std::vector<std::unique_ptr<Client>> clients;
  absl::Status refusal;
  for (int i = 0; i < 10 && refusal.ok(); ++i) {
    clients.push_back(std::make_unique<Client>());
    refusal = cluster.scheduler->Submit(Request({1}, 3, 1), clients.back()->Sink()).status();
  }
  EXPECT_EQ(refusal.code(), absl::StatusCode::kResourceExhausted);
  clients.pop_back();
  EXPECT_LE(clients.size(), 4u) << "one running and three waiting";
  cluster.Hold(false);
  for (auto& client : clients) EXPECT_EQ(client->Wait().tokens.size(), 3u);
}

TEST(TokenScheduler, RefusesWhileAStageIsAwayAndSaysWhich) {
  Cluster cluster(2, SmallStage());
  Client client;
  absl::Status status = cluster.scheduler->Submit(Request({1}, 3, 1), client.Sink()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(std::string(status.message()).find("worker-0"), std::string::npos);
  cluster.ConnectAll();
  cluster.Hold(true);
  ASSERT_TRUE(cluster.scheduler->Submit(Request({1}, 3, 1), client.Sink()).ok());
  cluster.stage(1).Lose(absl::UnavailableError("killed"));
  const Outcome outcome = client.Wait();
  EXPECT_EQ(outcome.done->error.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(std::string(outcome.done->error.message()).find("worker-1 lost: killed"), std::string::npos);
  const std::string why = cluster.WaitForReady(false);
  EXPECT_NE(why.find("worker-1 is not ready: killed"), std::string::npos);
  cluster.Hold(false);
  cluster.stage(1).Connect();
  cluster.WaitForReady(true);
  Client again;
  ASSERT_TRUE(cluster.scheduler->Submit(Request({7}, 3, 1), again.Sink()).ok());
  EXPECT_EQ(again.Wait().tokens, SoloTokens({7}, 1, 2, 3));
}

TEST(TokenScheduler, ShutdownLetsAcceptedRequestsEnd) {
  Cluster cluster(2, SmallStage());
  cluster.ConnectAll();
  Client first;
  Client second;
  ASSERT_TRUE(cluster.scheduler->Submit(Request({1}, 200, 1), first.Sink()).ok());
  ASSERT_TRUE(cluster.scheduler->Submit(Request({2}, 200, 2), second.Sink()).ok());
  cluster.scheduler->Shutdown(std::chrono::seconds(60));
  EXPECT_EQ(first.Wait().tokens, SoloTokens({1}, 1, 2, 200));
  EXPECT_EQ(second.Wait().tokens, SoloTokens({2}, 2, 2, 200));
  Client late;
  const absl::Status status = cluster.scheduler->Submit(Request({1}, 1, 1), late.Sink()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
}

TEST(TokenScheduler, ShutdownEndsWhatDoesNotEndInTime) {
  Cluster cluster(2, SmallStage());
  cluster.ConnectAll();
  cluster.Hold(true);
  Client client;
  ASSERT_TRUE(cluster.scheduler->Submit(Request({1}, 200, 1), client.Sink()).ok());
  cluster.scheduler->Shutdown(std::chrono::milliseconds(1));
  EXPECT_EQ(client.Wait().done->error.code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace spillway::gateway::testing
