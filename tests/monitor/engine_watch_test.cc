// Goal: engines that are not ours get the same verdicts, and none of their answers or silences harms the
// monitor. Method: a server on loopback that answers recorded and hostile bodies.
#include "monitor/watch/engine_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio.hpp>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "monitor/monitor.h"
#include "tests/telemetry/http_client.h"

namespace spillway::monitor {
namespace {

using ::testing::HasSubstr;

// Answers every request for a path with its body; unknown paths with 404; "" as a body: never.
class FakeEngine {
 public:
  FakeEngine()
      : acceptor_(context_, {boost::asio::ip::address_v4::loopback(), 0}), thread_([this] { Run(); }) {}
  ~FakeEngine() {
    stopping_ = true;
    boost::asio::ip::tcp::socket wake(context_);  // accept returns, or is not called again
    boost::system::error_code error;
    wake.connect(acceptor_.local_endpoint(), error);
    wake.close();
    thread_.join();
  }
  uint16_t port() const { return acceptor_.local_endpoint().port(); }
  std::string address() const { return "127.0.0.1:" + std::to_string(port()); }
  void Set(const std::string& path, const std::string& body) {
    const std::lock_guard lock(mutex_);
    bodies_[path] = body;
  }

 private:
  void Run() {
    std::vector<boost::asio::ip::tcp::socket> silent;
    while (!stopping_) {
      boost::asio::ip::tcp::socket socket(context_);
      boost::system::error_code error;
      acceptor_.accept(socket, error);
      std::string request;
      boost::asio::read_until(socket, boost::asio::dynamic_buffer(request), "\r\n\r\n", error);
      const size_t begin = request.find(' ') + 1;
      const std::string path = request.substr(begin, request.find(' ', begin) - begin);
      const std::lock_guard lock(mutex_);
      const auto found = bodies_.find(path);
      if (found != bodies_.end() && found->second.empty()) {
        silent.push_back(std::move(socket));
        continue;
      }
      const std::string body = found == bodies_.end() ? "no" : found->second;
      const std::string head =
          std::string("HTTP/1.1 ") + (found == bodies_.end() ? "404 Not Found" : "200 OK");
      const std::string answer = head + "\r\nContent-Length: " + std::to_string(body.size()) +
                                 "\r\nConnection: close\r\n\r\n" + body;
      boost::asio::write(socket, boost::asio::buffer(answer), error);
    }
  }

  boost::asio::io_context context_;
  boost::asio::ip::tcp::acceptor acceptor_;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::map<std::string, std::string> bodies_;
  std::thread thread_;
};

constexpr std::chrono::milliseconds kTimeout{5000};

// An 8B model with a context of 16 384: 2 GiB of KV (131 072 bytes a token), 6.7 GB in all.
constexpr char kShow[] = R"({"model_info":{"general.architecture":"llama","llama.block_count":32,
  "llama.attention.head_count":32,"llama.attention.head_count_kv":8,"llama.embedding_length":4096}})";

std::string Ps(uint64_t vram) {
  const nlohmann::json model = {
      {"name", "llama3.1:8b"}, {"size", 6'700'000'000}, {"size_vram", vram}, {"context_length", 16384}};
  return nlohmann::json{{"models", nlohmann::json::array({model})}}.dump();
}

truth::EngineFacts Ask(const FakeEngine& engine, EngineKind kind = EngineKind::kOllama) {
  truth::EngineFacts facts = AskEngine({kind, "engine", engine.address()}, kTimeout);
  facts.this_host = facts.nvidia_present = facts.driver_loaded = true;
  return facts;
}

TEST(EngineWatch, OllamaWithEverythingInVramIsAsExpected) {
  FakeEngine engine;
  engine.Set("/api/ps", Ps(6'700'000'000));
  const truth::EngineFacts facts = Ask(engine);
  ASSERT_TRUE(facts.reachable) << facts.error;
  EXPECT_EQ(truth::VramShare(facts, facts.models.at(0)), 1.0);
  EXPECT_FALSE(truth::JudgeEngine(facts).fallback());
}

TEST(EngineWatch, AContextThatDoesNotFitIsNamedWithOneThatWould) {
  FakeEngine engine;
  engine.Set("/api/show", kShow);
  engine.Set("/api/ps", Ps(6'160'000'000));
  const truth::EngineFacts facts = Ask(engine);
  ASSERT_EQ(facts.models.at(0).state_bytes_per_token, 131072u);
  const truth::Verdict verdict = truth::JudgeEngine(facts);
  EXPECT_EQ(verdict.cause, "vram_short_context");
  EXPECT_EQ(verdict.extent, truth::Extent::kPartial);
  EXPECT_THAT(verdict.detail, HasSubstr("92 % of its memory is in VRAM"));
  EXPECT_THAT(verdict.remedy,
              HasSubstr("Set num_ctx to 12032"));  // (6.16e9 - (6.7e9 - 2^31)) / 131072 in 256s
}

TEST(EngineWatch, AModelThatDoesNotFitAtAnyContextIsNamedSo) {
  FakeEngine engine;
  engine.Set("/api/show", kShow);
  engine.Set("/api/ps", Ps(2'000'000'000));
  EXPECT_EQ(truth::JudgeEngine(Ask(engine)).cause, "vram_short_model");
  engine.Set("/api/ps", Ps(0));
  truth::EngineFacts facts = Ask(engine);
  EXPECT_EQ(truth::JudgeEngine(facts).extent, truth::Extent::kFull);
  facts.expected_share = 0;
  EXPECT_FALSE(truth::JudgeEngine(facts).fallback());
}

TEST(EngineWatch, VramThatTheDriverDoesNotSeeIsNotBelieved) {
  FakeEngine engine;
  engine.Set("/api/ps", Ps(6'700'000'000));
  truth::EngineFacts facts = Ask(engine);
  facts.process_vram_bytes = 0;
  EXPECT_EQ(truth::JudgeEngine(facts).cause, "backend_missing");
  EXPECT_EQ(truth::JudgeEngine(facts).extent, truth::Extent::kFull);
}

TEST(EngineWatch, LlamaServerIsJudgedByItsFileAndTheDriver) {
  FakeEngine engine;
  const std::string model = testing::TempDir() + "watched.gguf";
  std::ofstream(model) << std::string(1000, 'x');
  engine.Set(
      "/props",
      nlohmann::json{{"model_path", model}, {"default_generation_settings", {{"n_ctx", 4096}}}}.dump());
  truth::EngineFacts facts = Ask(engine, EngineKind::kLlamaServer);
  ASSERT_TRUE(facts.reachable) << facts.error;
  EXPECT_EQ(facts.models.at(0).name, "watched.gguf");
  EXPECT_EQ(facts.models.at(0).total_bytes, 1000u);
  EXPECT_FALSE(truth::JudgeEngine(facts).fallback());  // nobody says anything
  facts.driver_loaded = false;
  EXPECT_EQ(truth::JudgeEngine(facts).cause, "driver_absent");
  facts.this_host = false;
  EXPECT_FALSE(truth::JudgeEngine(facts).fallback());  // of another machine nothing is known
  facts.this_host = facts.driver_loaded = true;
  facts.process_vram_bytes = 1200;
  EXPECT_FALSE(truth::JudgeEngine(facts).fallback());
  facts.process_vram_bytes = 600;
  EXPECT_EQ(truth::JudgeEngine(facts).cause, "vram_short_model");
}

TEST(EngineWatch, AnswersOfStrangersAreErrorsOrUnknowns) {
  FakeEngine engine;
  for (const char* body : {"no json", "[]", "{}", R"({"models":7})"}) {
    engine.Set("/api/ps", body);
    const truth::EngineFacts facts = Ask(engine);
    EXPECT_FALSE(facts.reachable) << body;
    EXPECT_EQ(truth::JudgeEngine(facts).cause, "worker_unreachable");
  }
  for (const char* body : {R"({"models":[]})", R"({"models":[1,null,"x"]})",
                           R"({"models":[{"name":5,"size":"big","size_vram":[]}]})",
                           R"({"models":[{"name":"m","size":-5,"size_vram":1e300}]})"}) {
    engine.Set("/api/ps", body);
    EXPECT_FALSE(truth::JudgeEngine(Ask(engine)).fallback()) << body;
  }
  engine.Set("/api/ps", std::string(size_t{9} << 20, ' '));
  EXPECT_THAT(Ask(engine).error, HasSubstr("too long"));
}

// Rounds until `done` of the status page's JSON, or a minute.
template <typename Done>
nlohmann::json RoundsUntil(Monitor& monitor, Done done) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (std::chrono::steady_clock::now() < deadline) {
    monitor.Round();
    const auto json = nlohmann::json::parse(test::BodyOf(test::Get(monitor.port(), "/status.json")));
    if (done(json)) return json;
  }
  ADD_FAILURE() << "did not come";
  return {};
}

std::unique_ptr<Monitor> Watching(std::vector<EngineTarget> engines) {
  Options options;
  options.metrics = "127.0.0.1:0";
  options.interval = std::chrono::milliseconds(50);
  options.engines = std::move(engines);
  auto monitor = Monitor::Start(options, device::Root());
  EXPECT_TRUE(monitor.ok()) << monitor.status();
  return *std::move(monitor);
}

TEST(EngineWatch, FiftyEnginesHalfOfThemSilentDelayNoRound) {
  FakeEngine silent;
  silent.Set("/api/ps", "");
  std::vector<EngineTarget> engines;
  for (int i = 0; i < 25; ++i) {
    engines.push_back({EngineKind::kOllama, "dead-" + std::to_string(i), "127.0.0.1:9"});
    engines.push_back({EngineKind::kOllama, "silent-" + std::to_string(i), silent.address()});
  }
  const auto monitor = Watching(engines);
  const auto json = RoundsUntil(*monitor, [](const nlohmann::json& status) {
    for (const auto& engine : status["engines"]) {
      if (engine["name"] == "dead-24" && engine["fallback"] == true) return true;
    }
    return false;
  });
  EXPECT_THAT(
      test::Get(monitor->port(), "/metrics"),
      HasSubstr("spillway_watched_fallback_active{cause=\"worker_unreachable\",engine=\"dead-24\"} 1\n"));
  EXPECT_THAT(test::Get(monitor->port(), "/"), HasSubstr("Other engines"));
}

TEST(EngineWatch, AFallbackComesAndGoesWithItsEvents) {
  FakeEngine engine;
  engine.Set("/api/show", kShow);
  engine.Set("/api/ps", Ps(0));
  const auto monitor = Watching({{EngineKind::kOllama, "ollama@x", engine.address()}});
  const auto fallback = [](bool wanted) {
    return [wanted](const nlohmann::json& status) {
      return !status["engines"].empty() && status["engines"][0]["fallback"] == wanted;
    };
  };
  EXPECT_EQ(RoundsUntil(*monitor, fallback(true))["engines"][0]["extent"], "full");
  // Where the tests run there may be no driver: only an expectation of nothing is then met.
  const bool driver = device::ReadNvidia(device::Root()).driver_loaded;
  engine.Set("/api/ps", driver ? Ps(6'700'000'000) : R"({"models":[]})");
  const auto healthy = RoundsUntil(*monitor, fallback(false));
  ASSERT_EQ(healthy["events"].size(), 2u);
  EXPECT_EQ(healthy["events"][0]["worker"], "ollama@x");
  EXPECT_EQ(healthy["events"][0]["to"], "");
}

}  // namespace
}  // namespace spillway::monitor
