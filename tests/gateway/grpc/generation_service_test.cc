// Generation.Generate over gRPC on loopback, with a scripted backend behind it: text and tokens arrive as
// drawn, stop strings cut, errors keep their code, and a client that leaves cancels.
#include "gateway/grpc/generation_service.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "engine/gguf/reader.h"
#include "rpc/server.h"
#include "telemetry/registry.h"
#include "tests/support/tiny_model.h"

namespace spillway::gateway::testing {
namespace {

// What the backend does with a request: gives the bytes of `answer` as tokens (in a tiny vocabulary a byte is
// its own token) and ends, in `failure` if there is one; with `endless` only once it is cancelled.
struct Script {
  absl::Status refusal = absl::OkStatus();
  absl::Status failure = absl::OkStatus();
  std::string answer = "Hello, wide world";
  bool endless = false;
};

class ScriptedBackend final : public GenerationBackend {
 public:
  ~ScriptedBackend() override {
    for (std::thread& thread : threads_) thread.join();
  }
  void Set(Script script) {
    const std::lock_guard lock(mutex_);
    script_ = std::move(script);
  }
  GenerationRequest last() {
    const std::lock_guard lock(mutex_);
    return last_;
  }
  absl::StatusOr<RequestId> Submit(GenerationRequest request, EventSink sink) override {
    const std::lock_guard lock(mutex_);
    if (!script_.refusal.ok()) return script_.refusal;
    last_ = request;
    threads_.emplace_back([this, sink = std::move(sink), prompt = request.prompt.size(), script = script_] {
      Play(script, sink, prompt);
    });
    return 1;
  }
  void Cancel(RequestId) override {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    changed_.notify_all();
  }
  bool Ready(std::string*) const override { return true; }
  bool WaitForCancel() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [this] { return cancelled_; });
  }

 private:
  void Play(const Script& script, const EventSink& sink, size_t prompt) {
    GenerationEvent event;
    for (const char c : script.answer) {
      event.token = {static_cast<unsigned char>(c), -0.5f};
      sink(event);
      ++event.generated_tokens;
    }
    if (script.endless) WaitForCancel();
    event.kind = GenerationEvent::Kind::kDone;
    event.prompt_tokens = static_cast<uint32_t>(prompt);
    event.finish = script.endless        ? FinishReason::kCancelled
                   : script.failure.ok() ? FinishReason::kLength
                                         : FinishReason::kError;
    event.error = script.failure;
    sink(event);
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  Script script_;
  GenerationRequest last_;
  bool cancelled_ = false;
  std::vector<std::thread> threads_;
};

struct Answer {
  grpc::Status status;
  std::string text;
  std::vector<int32_t> tokens;
  v1::GenerateReply last;
};

class GenerationServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto path = test::WriteTinyModel({}, ::testing::TempDir() + "generation_service_test.gguf");
    ASSERT_TRUE(path.ok()) << path.status();
    auto file = GgufFile::Open(*path);
    ASSERT_TRUE(file.ok()) << file.status();
    file_ = *std::move(file);
    auto tokenizer = Tokenizer::Load(*file_);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = *std::move(tokenizer);
    service_ = std::make_unique<GenerationService>(backend_, *tokenizer_, metrics_);
    rpc::ServerOptions options;
    options.name = "grpc";
    options.address = "127.0.0.1:0";
    options.services = {service_.get()};
    auto server = rpc::Server::Start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ =
        v1::Generation::NewStub(grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  }
  Answer Generate(const v1::GenerateRequest& request) {
    grpc::ClientContext context;
    auto reader = stub_->Generate(&context, request);
    Answer answer;
    v1::GenerateReply reply;
    while (reader->Read(&reply)) {
      answer.text += reply.text();
      for (const auto& token : reply.tokens()) answer.tokens.push_back(token.token());
      answer.last = reply;
    }
    answer.status = reader->Finish();
    return answer;
  }
  std::string Scrape() { return registry_.Render(); }

  ScriptedBackend backend_;
  telemetry::Registry registry_{"gateway"};
  telemetry::GatewayMetrics metrics_{registry_, "tiny"};
  std::unique_ptr<GgufFile> file_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<GenerationService> service_;
  std::unique_ptr<rpc::Server> server_;
  std::unique_ptr<v1::Generation::Stub> stub_;
};

v1::GenerateRequest TextRequest(const std::string& text) {
  v1::GenerateRequest request;
  request.set_text(text);
  return request;
}

TEST_F(GenerationServiceTest, StreamsTokensAndTheirText) {
  const Answer answer = Generate(TextRequest("abc"));
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.text, "Hello, wide world");
  EXPECT_EQ(answer.tokens.size(), answer.text.size());
  EXPECT_EQ(answer.last.finish_reason(), "length");
  EXPECT_EQ(answer.last.usage().completion_tokens(), answer.text.size());
  EXPECT_EQ(backend_.last().sampling.temperature, 0) << "unset means greedy";
  EXPECT_EQ(backend_.last().sampling.top_p, 1);
  EXPECT_EQ(backend_.last().stop_ids, tokenizer_->stop_ids());
}

TEST_F(GenerationServiceTest, TokensGoThroughAsTheyAre) {
  v1::GenerateRequest request;
  for (const int32_t id : {5, 6, 7}) request.mutable_tokens()->add_ids(id);
  request.set_has_seed(true);
  request.mutable_sampling()->set_seed(42);
  EXPECT_TRUE(Generate(request).status.ok());
  EXPECT_EQ(backend_.last().prompt, (std::vector<int32_t>{5, 6, 7}));
  EXPECT_EQ(backend_.last().sampling.seed, 42u);
}

TEST_F(GenerationServiceTest, AStopStringCutsTheTextAndCancels) {
  backend_.Set({.endless = true});
  v1::GenerateRequest request = TextRequest("abc");
  request.add_stop(", w");
  const Answer answer = Generate(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.text, "Hello");
  EXPECT_EQ(answer.last.finish_reason(), "stop");
  EXPECT_TRUE(backend_.WaitForCancel());
}

TEST_F(GenerationServiceTest, AClientThatLeavesCancels) {
  backend_.Set({.endless = true});
  {
    grpc::ClientContext context;
    auto reader = stub_->Generate(&context, TextRequest("abc"));
    v1::GenerateReply reply;
    ASSERT_TRUE(reader->Read(&reply));
    context.TryCancel();
    reader->Finish();
  }
  EXPECT_TRUE(backend_.WaitForCancel());
}

TEST_F(GenerationServiceTest, ErrorsKeepTheirCodeAndReason) {
  EXPECT_EQ(Generate(v1::GenerateRequest()).status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  backend_.Set({.failure = absl::UnavailableError("cpu-worker-0 lost: gone; retry")});
  const Answer lost = Generate(TextRequest("abc"));
  EXPECT_EQ(lost.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(lost.status.error_message(), "cpu-worker-0 lost: gone; retry");
  backend_.Set({.refusal = absl::ResourceExhaustedError("the queue is full")});
  EXPECT_EQ(Generate(TextRequest("abc")).status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(Scrape().find("spillway_requests_rejected_total{reason=\"queue_full\"} 1"), std::string::npos);
}

}  // namespace
}  // namespace spillway::gateway::testing
