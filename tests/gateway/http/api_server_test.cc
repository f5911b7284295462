// Goal: the endpoints as a client sees them over a real connection, with a backend that plays scripts.
// Method: raw sockets on loopback; JSON of the answers is parsed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/base/status.h"
#include "gateway/http/api.h"
#include "gateway/http/server.h"
#include "telemetry/registry.h"
#include "tests/gateway/http/raw_client.h"
#include "tests/gateway/http/scripted_backend.h"
#include "tests/gateway/http/tiny_vocabulary.h"

namespace spillway::gateway {
namespace {

using nlohmann::json;
using test::PostBytes;
using test::RawClient;
using test::RawResponse;
using ::testing::HasSubstr;

constexpr char kChat[] = "/v1/chat/completions";
constexpr char kText[] = "/v1/completions";
constexpr char kHello[] = R"({"messages":[{"role":"user","content":"hi"}]})";
constexpr char kHelloStream[] = R"({"messages":[{"role":"user","content":"hi"}],"stream":true})";

class ApiServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HttpOptions options;
    options.address = "127.0.0.1:0";
    auto server = HttpServer::Start(options, api_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  RawClient Connect() { return RawClient(server_->port()); }
  static std::string ErrorField(const RawResponse& response, const char* field) {
    const json body = json::parse(response.body, nullptr, false);
    if (!body.is_object() || !body.contains("error")) return "no error in: " + response.body;
    const json& value = body["error"][field];
    return value.is_string() ? value.get<std::string>() : value.dump();
  }
  void ExpectMetric(const std::string& line) { EXPECT_THAT(registry_.Render(), HasSubstr(line)); }

  telemetry::Registry registry_{"gateway"};
  telemetry::GatewayMetrics metrics_{registry_, "tiny"};
  std::unique_ptr<Tokenizer> tokenizer_ = test::MakeTokenizer();
  std::unique_ptr<ChatTemplate> template_ = test::MakeChatTemplate();
  test::ScriptedBackend backend_;
  Api api_{test::MakeServedModel(tokenizer_.get(), template_.get()), backend_, metrics_};
  std::unique_ptr<HttpServer> server_;
};

TEST_F(ApiServerTest, ModelsAndPagesAnswer) {
  RawClient client = Connect();
  json models = json::parse(client.Get("/v1/models").body);
  EXPECT_EQ(models["object"], "list");
  EXPECT_EQ(models["data"][0]["id"], "tiny");
  EXPECT_EQ(models["data"][0]["object"], "model");
  EXPECT_EQ(models["data"][0]["created"], 1700000000);
  EXPECT_EQ(json::parse(client.Get("/v1/models/default").body)["id"], "default");
  const RawResponse other = client.Get("/v1/models/org%2Fother");
  EXPECT_EQ(other.status, 404);
  EXPECT_EQ(ErrorField(other, "code"), "model_not_found");
  EXPECT_EQ(client.Get("/version").status, 200);
  EXPECT_EQ(client.Get("/health").body, R"({"status":"ok"})");
  EXPECT_EQ(client.Get("/readyz").status, 200);
  backend_.SetNotReady("cpu-worker-0 is unreachable");
  const RawResponse health = client.Get("/health");
  EXPECT_EQ(health.status, 503);
  EXPECT_EQ(json::parse(health.body)["reason"], "cpu-worker-0 is unreachable");
  EXPECT_EQ(client.Get("/readyz").status, 503);
  EXPECT_EQ(client.Get("/healthz").status, 200);
}

TEST_F(ApiServerTest, UnknownPathsAndMethodsSaySo) {
  RawClient client = Connect();
  const RawResponse unknown = client.Get("/chat/completions");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_THAT(ErrorField(unknown, "message"), HasSubstr("/v1"));
  const RawResponse embeddings = client.Post("/v1/embeddings", "{}");
  EXPECT_EQ(embeddings.status, 404);
  EXPECT_THAT(ErrorField(embeddings, "message"), HasSubstr("embeddings"));
  const RawResponse method = client.Get(kChat);
  EXPECT_EQ(method.status, 405);
  EXPECT_EQ(method.headers.at("allow"), "POST");
  EXPECT_EQ(client.Post("/v1/models", "{}").headers.at("allow"), "GET, HEAD");
}

TEST_F(ApiServerTest, WholeAnswersComeOverOneConnection) {
  backend_.SetScript(test::ScriptedBackend::Script{test::Bytes("héy"), FinishReason::kStop, {}});
  RawClient client = Connect();
  const json chat = json::parse(client.Post(kChat, kHello).body);
  EXPECT_EQ(chat["choices"][0]["message"]["content"], "héy");
  EXPECT_EQ(chat["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(chat["usage"]["completion_tokens"], 5);
  EXPECT_EQ(chat["usage"]["prompt_tokens"], backend_.request(1).prompt.size());
  const json text = json::parse(client.Post(kText, R"({"prompt":[1,2],"logprobs":2,"seed":9})").body);
  EXPECT_EQ(text["choices"][0]["text"], "héy");
  EXPECT_EQ(text["choices"][0]["logprobs"]["text_offset"], json::parse("[0,1,1,2]"));
  EXPECT_EQ(text["choices"][0]["logprobs"]["top_logprobs"][0].size(), 2u);
  EXPECT_EQ(backend_.request(2).sampling.seed, 9u);
  EXPECT_EQ(backend_.request(2).prompt, (std::vector<int32_t>{1, 2}));
}

TEST_F(ApiServerTest, StreamsFlowWhileTokensCome) {
  RawClient client = Connect();
  client.Send(PostBytes(kChat, kHelloStream));
  ASSERT_TRUE(backend_.WaitForRequests(1));
  backend_.Token(1, 'a');
  EXPECT_THAT(client.ReadUntil("\"content\":\"a\"}"), HasSubstr("text/event-stream"));
  backend_.Token(1, 'b');
  EXPECT_THAT(client.ReadUntil("\"content\":\"b\"}"), HasSubstr("data: "));
  backend_.Token(1, test::kImEnd);
  backend_.Finish(1, FinishReason::kStop);
  EXPECT_THAT(client.ReadUntil("0\r\n\r\n"), HasSubstr("data: [DONE]\n\n"));
  EXPECT_EQ(client.Get("/health").status, 200);  // the connection lives on
}

TEST_F(ApiServerTest, BadBodiesAreClientErrors) {
  RawClient client = Connect();
  EXPECT_EQ(ErrorField(client.Post(kChat, "{"), "code"), "invalid_json");
  EXPECT_EQ(ErrorField(client.Post(kChat, "{\"a\":\"\xff\"}"), "code"), "invalid_json");
  const RawResponse param = client.Post(kText, R"({"prompt":"x","max_tokens":1e9})");
  EXPECT_EQ(param.status, 400);
  EXPECT_EQ(ErrorField(param, "param"), "max_tokens");
  EXPECT_EQ(ErrorField(param, "type"), "invalid_request_error");
  const RawResponse model = client.Post(kText, R"({"prompt":"x","model":"y"})");
  EXPECT_EQ(model.status, 404);
  EXPECT_EQ(ErrorField(model, "code"), "model_not_found");
  EXPECT_EQ(backend_.requests(), 0u);
  EXPECT_EQ(client.Post(kText, std::string(5 << 20, ' ')).status, 413);
}

TEST_F(ApiServerTest, RefusalsTellClientsWhenToRetry) {
  RawClient client = Connect();
  backend_.SetRefusal(ResourceExhausted("the queue holds {} requests", 64));
  const RawResponse full = client.Post(kChat, kHelloStream);
  EXPECT_EQ(full.status, 429);
  EXPECT_EQ(full.headers.at("retry-after"), "1");
  EXPECT_EQ(full.headers.at("x-should-retry"), "true");
  EXPECT_EQ(ErrorField(full, "code"), "queue_full");
  backend_.SetRefusal(Unavailable("gpu-worker is unreachable"));
  const RawResponse lost = client.Post(kChat, kHello);
  EXPECT_EQ(lost.status, 503);
  EXPECT_EQ(lost.headers.count("retry-after"), 1u);
  EXPECT_THAT(ErrorField(lost, "message"), HasSubstr("gpu-worker is unreachable"));
  backend_.SetRefusal(InvalidArgument("the prompt does not fit"));
  EXPECT_EQ(client.Post(kChat, kHello).status, 400);
  backend_.SetRefusal(Internal("bug"));
  EXPECT_EQ(client.Post(kChat, kHello).headers.at("x-should-retry"), "false");
  ExpectMetric("spillway_requests_rejected_total{reason=\"queue_full\"} 1");
  ExpectMetric("spillway_requests_rejected_total{reason=\"no_worker\"} 1");
}

TEST_F(ApiServerTest, ADisconnectCancels) {
  RawClient whole = Connect();
  whole.Send(PostBytes(kChat, kHello));
  ASSERT_TRUE(backend_.WaitForRequests(1));
  whole.Close();
  EXPECT_TRUE(backend_.WaitForCancel(1));
  RawClient stream = Connect();
  stream.Send(PostBytes(kChat, kHelloStream));
  ASSERT_TRUE(backend_.WaitForRequests(2));
  backend_.Token(2, 'a');
  stream.ReadUntil("\"content\":\"a\"}");
  stream.Close();
  EXPECT_TRUE(backend_.WaitForCancel(2));
}

TEST_F(ApiServerTest, ALostWorkerIsTold) {
  RawClient waiting = Connect();
  waiting.Send(PostBytes(kChat, kHelloStream));
  RawClient streaming = Connect();
  ASSERT_TRUE(backend_.WaitForRequests(1));
  streaming.Send(PostBytes(kChat, kHelloStream));
  ASSERT_TRUE(backend_.WaitForRequests(2));
  backend_.Token(2, 'a');
  backend_.Finish(1, FinishReason::kError, Unavailable("gone"));
  backend_.Finish(2, FinishReason::kError, Unavailable("gone"));
  const RawResponse refused = waiting.ReadResponse();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.count("retry-after"), 1u);
  EXPECT_THAT(streaming.ReadResponse().body, HasSubstr("data: {\"error\":{\"message\":\"gone\""));
  EXPECT_TRUE(streaming.AtEnd());
}

TEST_F(ApiServerTest, ManyStreamsAtOnceKeepTheirText) {
  constexpr int kStreams = 64;
  std::vector<RawClient> clients;
  for (int i = 0; i < kStreams; ++i) {
    clients.push_back(Connect());
    clients.back().Send(PostBytes(kText, R"({"prompt":"x","stream":true})"));
    ASSERT_TRUE(backend_.WaitForRequests(static_cast<size_t>(i) + 1));  // so that ids follow the clients
  }
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < kStreams; ++i) backend_.Token(static_cast<RequestId>(i) + 1, 'A' + i % 26);
  }
  for (int i = 0; i < kStreams; ++i) backend_.Finish(static_cast<RequestId>(i) + 1, FinishReason::kLength);
  for (int i = 0; i < kStreams; ++i) {
    std::string text;
    const std::string body = clients[static_cast<size_t>(i)].ReadResponse().body;
    for (size_t at = 0; (at = body.find("\"text\":\"", at)) != std::string::npos; at += 8) {
      if (body[at + 8] != '"') text += body[at + 8];
    }
    EXPECT_EQ(text, std::string(10, static_cast<char>('A' + i % 26)));
  }
}

TEST_F(ApiServerTest, StopDrains) {
  RawClient running = Connect();
  running.Send(PostBytes(kChat, kHelloStream));
  RawClient kept = Connect();
  EXPECT_EQ(kept.Get("/health").status, 200);
  ASSERT_TRUE(backend_.WaitForRequests(1));
  backend_.Token(1, 'a');
  running.ReadUntil("\"content\":\"a\"}");
  api_.BeginDrain();
  const RawResponse refused = kept.Post(kChat, kHello);
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(ErrorField(refused, "code"), "draining");
  EXPECT_EQ(kept.Get("/health").status, 503);
  ExpectMetric("spillway_requests_rejected_total{reason=\"draining\"} 1");
  backend_.Finish(1, FinishReason::kStop);
  server_->Stop();
  EXPECT_THAT(running.ReadUntil("0\r\n\r\n"), HasSubstr("[DONE]"));
  EXPECT_TRUE(running.AtEnd());
}

TEST_F(ApiServerTest, StopCancelsWhatDoesNotFinish) {
  Api api(test::MakeServedModel(tokenizer_.get(), template_.get()), backend_, metrics_);
  HttpOptions options;
  options.address = "127.0.0.1:0";
  options.limits.drain_timeout = std::chrono::milliseconds(100);
  server_ = *HttpServer::Start(options, api);
  RawClient client = Connect();
  client.Send(PostBytes(kChat, kHelloStream));
  ASSERT_TRUE(backend_.WaitForRequests(1));
  server_->Stop();
  EXPECT_TRUE(backend_.IsCancelled(1));
  EXPECT_TRUE(client.AtEnd());
  server_.reset();
}

TEST_F(ApiServerTest, EveryRequestIsCountedOnce) {
  backend_.SetScript(test::ScriptedBackend::Script{test::Bytes("abc"), FinishReason::kStop, {}});
  RawClient client = Connect();
  client.Post(kChat, kHello);
  client.Post(kChat, kHelloStream);
  client.Post(kChat, "{}");
  client.Get("/health");  // behind the others, so that they are published
  const std::string text = registry_.Render();
  EXPECT_THAT(text, HasSubstr("spillway_time_to_first_token_seconds_count{model=\"tiny\"} 2"));
  EXPECT_THAT(text, HasSubstr("spillway_time_per_output_token_seconds_count{model=\"tiny\"} 2"));
  EXPECT_THAT(text, HasSubstr("spillway_inter_token_latency_seconds_count{model=\"tiny\"} 6"));
  EXPECT_THAT(text, ::testing::ContainsRegex(
                        "spillway_requests_total\\{[^}]*chat_completions[^}]*outcome=\"ok\"[^}]*\\} 2"));
  EXPECT_THAT(text,
              ::testing::ContainsRegex(
                  "spillway_requests_total\\{[^}]*chat_completions[^}]*outcome=\"client_error\"[^}]*\\} 1"));
}

}  // namespace
}  // namespace spillway::gateway
