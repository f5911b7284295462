// Goal: answers and server-sent events are byte for byte what OpenAI's clients parse, however a generation
// ends. Method: a call on a recording exchange, its executor run by hand, a backend whose events the test
// delivers.
#include "gateway/http/generation_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>

#include "gateway/http/openai_answer.h"
#include "telemetry/registry.h"
#include "tests/gateway/http/tiny_vocabulary.h"

namespace spillway::gateway {
namespace {

using ::testing::HasSubstr;

class RecordingExchange : public Exchange {
 public:
  Poster poster() override {
    return [this](std::function<void()> task) { tasks.push_back(std::move(task)); };
  }
  void Respond(HttpResponse r) override { response = std::move(r); }
  void StartStream(HttpResponse head) override { response = std::move(head); }
  void Write(std::string_view bytes) override { stream += bytes; }
  void EndStream(bool close_connection) override { ended = close_connection ? "close" : "keep"; }

  void RunTasks() {
    for (; !tasks.empty(); tasks.pop_front()) tasks.front()();
  }

  std::deque<std::function<void()>> tasks;
  HttpResponse response;
  std::string stream;
  std::string ended;
};

class DirectBackend : public GenerationBackend {
 public:
  absl::StatusOr<RequestId> Submit(GenerationRequest, EventSink s) override {
    sink = std::move(s);
    return 1;
  }
  void Cancel(RequestId) override { cancelled = true; }
  bool Ready(std::string*) const override { return true; }
  void Token(int32_t token) {
    GenerationEvent event;
    event.token = {token, -0.5f};
    event.top = {{token, -0.5f}};
    event.is_stop = token == test::kImEnd;
    sink(event);
  }
  void Done(FinishReason finish, uint32_t generated, absl::Status error = absl::OkStatus()) {
    GenerationEvent event;
    event.kind = GenerationEvent::Kind::kDone;
    event.finish = finish;
    event.error = std::move(error);
    event.prompt_tokens = 3;
    event.generated_tokens = generated;
    event.timings = {0.5, 0.25, 2.0};
    sink(event);
  }
  EventSink sink;
  bool cancelled = false;
};

class GenerationCallTest : public ::testing::Test {
 protected:
  void Start(Endpoint endpoint, bool stream, bool usage = false, const std::vector<std::string>& stop = {},
             bool logprobs = false) {
    ParsedRequest request;
    request.endpoint = endpoint;
    request.stream = stream;
    request.include_usage = usage;
    request.stop = *StopMatcher::Create(stop);
    request.generation.prompt = {1, 2, 3};
    request.generation.sampling.logprobs = logprobs;
    RequestRecord record;
    record.request_id = "r";
    record.endpoint = endpoint;
    record.arrival = std::chrono::steady_clock::now();
    call_ = std::make_unique<GenerationCall>(
        GenerationCall::Parts{backend_, *tokenizer_, metrics_}, std::move(request),
        std::make_unique<OpenAiAnswer>(ResponseIdentity{endpoint, "id-1", 7, "tiny", "fp"}, *tokenizer_,
                                       usage),
        record, exchange_);
    ASSERT_TRUE(call_->Submit().ok());
  }
  void Run() { exchange_->RunTasks(); }
  // ttft_ms is measured; everything else is exact.
  static std::string WithoutTtft(std::string text) {
    const size_t at = text.find(",\"ttft_ms\":");
    if (at != std::string::npos) text.erase(at, text.find('}', at) - at);
    return text;
  }

  telemetry::Registry registry_{"gateway"};
  telemetry::GatewayMetrics metrics_{registry_, "tiny"};
  std::unique_ptr<Tokenizer> tokenizer_ = test::MakeTokenizer();
  DirectBackend backend_;
  std::shared_ptr<RecordingExchange> exchange_ = std::make_shared<RecordingExchange>();
  std::unique_ptr<GenerationCall> call_;
};

constexpr char kTimings[] =
    R"("timings":{"queue_ms":500.0,"prompt_n":3,"prompt_ms":250.0,"prompt_per_second":12.0,"predicted_n":3,)"
    R"("predicted_ms":2000.0,"predicted_per_second":1.0})";

TEST_F(GenerationCallTest, AChatStreamIsExact) {
  Start(Endpoint::kChatCompletions, true, true);
  for (const int32_t token : std::vector<int32_t>{'h', '\n', test::kImEnd}) backend_.Token(token);
  backend_.Done(FinishReason::kStop, 3);
  Run();
  const std::string head =
      R"(data: {"id":"id-1","object":"chat.completion.chunk","created":7,"model":"tiny",)"
      R"("system_fingerprint":"fp","choices":[)";
  const std::string middle = R"(,"logprobs":null,"finish_reason":null}],"usage":null})"
                             "\n\n";
  EXPECT_EQ(WithoutTtft(exchange_->stream),
            head + R"({"index":0,"delta":{"role":"assistant","content":""})" + middle +  //
                head + R"({"index":0,"delta":{"content":"h"})" + middle +                //
                head + R"({"index":0,"delta":{"content":"\n"})" + middle +               //
                head + R"({"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null})" +
                "\n\n" + head + R"(],"usage":{"prompt_tokens":3,"completion_tokens":3,"total_tokens":6,)" +
                R"("prompt_tokens_details":{"cached_tokens":0}},)" + kTimings + "}\n\ndata: [DONE]\n\n");
  EXPECT_EQ(exchange_->response.status, 200);
  EXPECT_EQ(exchange_->response.content_type, "text/event-stream; charset=utf-8");
  EXPECT_EQ(exchange_->ended, "keep");
}

TEST_F(GenerationCallTest, ACompletionStreamIsExact) {
  Start(Endpoint::kCompletions, true);
  for (const int32_t token : std::vector<int32_t>{'h', 'i', 'j'}) backend_.Token(token);
  backend_.Done(FinishReason::kLength, 3);
  Run();
  const std::string head = R"(data: {"id":"id-1","object":"text_completion","created":7,"model":"tiny",)"
                           R"("system_fingerprint":"fp","choices":[{"index":0,"text":)";
  const std::string end = R"(,"logprobs":null,"finish_reason":null}]})"
                          "\n\n";
  EXPECT_EQ(WithoutTtft(exchange_->stream),
            head + "\"h\"" + end + head + "\"i\"" + end + head + "\"j\"" + end + head +
                R"("","logprobs":null,"finish_reason":"length"}],)" + kTimings + "}\n\ndata: [DONE]\n\n");
}

TEST_F(GenerationCallTest, AWholeChatAnswerIsExact) {
  Start(Endpoint::kChatCompletions, false, false, {}, true);
  for (const int32_t token : std::vector<int32_t>{'h', 0xC3, test::kImEnd}) backend_.Token(token);
  backend_.Done(FinishReason::kStop, 3);
  Run();
  EXPECT_EQ(
      WithoutTtft(exchange_->response.body),
      R"({"id":"id-1","object":"chat.completion","created":7,"model":"tiny","system_fingerprint":"fp","choices":[)"
      R"({"index":0,"message":{"role":"assistant","content":"h�"},"logprobs":{"content":[)"
      R"({"token":"h","logprob":-0.5,"bytes":[104],"top_logprobs":[{"token":"h","logprob":-0.5,"bytes":[104]}]},)"
      R"({"token":"bytes:\\xc3","logprob":-0.5,"bytes":[195],"top_logprobs":[)"
      R"({"token":"bytes:\\xc3","logprob":-0.5,"bytes":[195]}]}],"refusal":null},"finish_reason":"stop"}],)"
      R"("usage":{"prompt_tokens":3,"completion_tokens":3,"total_tokens":6,)"
      R"("prompt_tokens_details":{"cached_tokens":0}},)" +
          std::string(kTimings) + "}");
}

TEST_F(GenerationCallTest, CompletionLogprobsHaveTheirOwnForm) {
  Start(Endpoint::kCompletions, false, false, {}, true);
  for (const int32_t token : std::vector<int32_t>{'h', 'i'}) backend_.Token(token);
  backend_.Done(FinishReason::kLength, 2);
  Run();
  EXPECT_THAT(
      exchange_->response.body,
      HasSubstr(R"("text":"hi","logprobs":{"tokens":["h","i"],"token_logprobs":[-0.5,-0.5],)"
                R"("top_logprobs":[{"h":-0.5},{"i":-0.5}],"text_offset":[0,1]},"finish_reason":"length")"));
}

TEST_F(GenerationCallTest, AStopStringCancelsAndFinishesAsStop) {
  Start(Endpoint::kChatCompletions, false, false, {"ij"});
  for (const int32_t token : test::Bytes("hij")) backend_.Token(token);
  Run();
  EXPECT_TRUE(backend_.cancelled);
  backend_.Token('x');
  backend_.Done(FinishReason::kCancelled, 4);
  Run();
  EXPECT_THAT(exchange_->response.body, HasSubstr(R"("content":"h"})"));
  EXPECT_THAT(exchange_->response.body, HasSubstr(R"("finish_reason":"stop")"));
  EXPECT_THAT(exchange_->response.body, HasSubstr(R"("completion_tokens":3,)"));
}

TEST_F(GenerationCallTest, AnErrorBeforeTheFirstTokenHasItsStatus) {
  Start(Endpoint::kChatCompletions, true);
  backend_.Done(FinishReason::kError, 0, absl::UnavailableError("cpu-worker-0 is gone"));
  Run();
  EXPECT_EQ(exchange_->response.status, 503);
  EXPECT_THAT(exchange_->response.body, HasSubstr("cpu-worker-0 is gone"));
  EXPECT_EQ(exchange_->stream, "");
}

TEST_F(GenerationCallTest, AnErrorInMidStreamIsAnEventAndCloses) {
  Start(Endpoint::kChatCompletions, true);
  backend_.Token('h');
  backend_.Done(FinishReason::kError, 1, absl::UnavailableError("lost"));
  Run();
  EXPECT_THAT(exchange_->stream,
              ::testing::EndsWith(
                  R"(data: {"error":{"message":"lost","type":"service_unavailable_error","param":null,)"
                  R"("code":"unavailable"}})"
                  "\n\n"));
  EXPECT_EQ(exchange_->ended, "close");
}

TEST_F(GenerationCallTest, LeavingCancelsAndLaterEventsAreIgnored) {
  Start(Endpoint::kChatCompletions, true);
  backend_.Token('h');
  call_.reset();
  EXPECT_TRUE(backend_.cancelled);
  backend_.Token('i');
  backend_.Done(FinishReason::kCancelled, 2);
  Run();
  EXPECT_EQ(exchange_->stream, "");
  EXPECT_THAT(registry_.Render(),
              ::testing::ContainsRegex("spillway_requests_total\\{[^}]*outcome=\"cancelled\"[^}]*\\} 1"));
}

}  // namespace
}  // namespace spillway::gateway
