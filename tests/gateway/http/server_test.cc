// Goal: the connection machinery keeps its limits and deadlines against clients that are slow, silent, greedy
// or gone. Method: raw sockets on loopback, a handler that echoes, short deadlines injected. Nothing is
// timed: a client waits for the server's reaction.
#include "gateway/http/server.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "engine/base/status.h"
#include "tests/gateway/http/raw_client.h"

namespace spillway::gateway {
namespace {

using std::chrono_literals::operator""ms;
using test::PostBytes;
using test::RawClient;
using test::RawResponse;
using ::testing::HasSubstr;

// Tells when calls end.
class CallLog {
 public:
  void Ended(bool completed) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++(completed ? completed_ : abandoned_);
    changed_.notify_all();
  }
  bool WaitForAbandoned(int count) {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return abandoned_ >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int completed_ = 0;
  int abandoned_ = 0;
};

// Keeps the exchange open until the test, or the client, ends it.
class PendingCall : public Call {
 public:
  explicit PendingCall(CallLog& log) : log_(log) {}
  ~PendingCall() override { log_.Ended(completed_); }
  void Completed() override { completed_ = true; }

 private:
  CallLog& log_;
  bool completed_ = false;
};

// POST /echo answers the body, /flood streams 8 MiB, /wait never answers, everything else 404.
class TestHandler : public RequestHandler {
 public:
  std::unique_ptr<Call> Handle(HttpRequest request, const std::shared_ptr<Exchange>& exchange) override {
    if (request.path == "/wait") {
      waiting_.fetch_add(1);
      return std::make_unique<PendingCall>(log);
    }
    if (request.path == "/flood") {
      auto call = std::make_unique<PendingCall>(log);
      exchange->StartStream({});
      const std::string piece(16 * 1024, 'x');
      for (int i = 0; i < 512; ++i) exchange->Write(piece);
      exchange->EndStream(false);
      return call;
    }
    HttpResponse response;
    response.status = request.path == "/echo" ? 200 : 404;
    response.content_type = "text/plain";
    response.body = request.method + " " + request.body;
    exchange->Respond(std::move(response));
    return nullptr;
  }
  HttpResponse Refusal(int status, const std::string& message) override {
    HttpResponse response;
    response.status = status;
    response.body = message;
    return response;
  }
  void BeginDrain() override { drained = true; }

  CallLog log;
  std::atomic<int> waiting_{0};
  std::atomic<bool> drained{false};
};

class HttpServerTest : public ::testing::Test {
 protected:
  void StartServer() {
    options_.address = "127.0.0.1:0";
    auto server = HttpServer::Start(options_, handler_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  RawClient Connect(int receive_buffer_bytes = 0) { return RawClient(server_->port(), receive_buffer_bytes); }

  TestHandler handler_;
  HttpOptions options_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, AddressesAreChecked) {
  for (const char* bad :
       {"", "8080", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:65536", "host.invalid:80", "[::1:80"}) {
    options_.address = bad;
    EXPECT_TRUE(absl::IsInvalidArgument(HttpServer::Start(options_, handler_).status())) << bad;
  }
  for (const char* wide : {"0.0.0.0:0", "[::]:0"}) {
    options_.address = wide;
    const absl::Status status = HttpServer::Start(options_, handler_).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << wide;
    EXPECT_THAT(MessageOf(status), HasSubstr("TLS"));
  }
  options_.address = "0.0.0.0:0";
  options_.insecure = true;
  EXPECT_TRUE(HttpServer::Start(options_, handler_).ok());
  StartServer();
  handler_.drained = false;
  options_.address = fmt::format("127.0.0.1:{}", server_->port());
  const absl::Status in_use = HttpServer::Start(options_, handler_).status();
  EXPECT_TRUE(absl::IsUnavailable(in_use));
  EXPECT_THAT(MessageOf(in_use), HasSubstr(options_.address));
  EXPECT_FALSE(handler_.drained);
}

TEST_F(HttpServerTest, PipelinedRequestsAreAnsweredInOrder) {
  StartServer();
  RawClient client = Connect();
  client.Send(PostBytes("/echo", "one") + PostBytes("/echo", "two") + "GET /echo HTTP/1.1\r\n\r\n");
  EXPECT_EQ(client.ReadResponse().body, "POST one");
  EXPECT_EQ(client.ReadResponse().body, "POST two");
  EXPECT_EQ(client.ReadResponse().body, "GET ");
  EXPECT_EQ(client.Post("/echo", "three").body, "POST three");
}

TEST_F(HttpServerTest, ChunkedAndExpectedBodiesArrive) {
  StartServer();
  RawClient client = Connect();
  client.Send("POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  EXPECT_EQ(client.ReadResponse().body, "POST abcde");
  client.Send("POST /echo HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("hi");
  EXPECT_EQ(client.ReadResponse().body, "POST hi");
}

TEST_F(HttpServerTest, VersionsAndConnectionHeadersAreHonoured) {
  StartServer();
  RawClient old = Connect();
  old.Send("GET /echo HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.ReadResponse().body, "GET ");
  EXPECT_TRUE(old.AtEnd());
  RawClient closing = Connect();
  closing.Send("GET /echo HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(closing.ReadResponse().headers.at("connection"), "close");
  EXPECT_TRUE(closing.AtEnd());
  RawClient head = Connect();
  head.Send("HEAD /echo HTTP/1.1\r\n\r\nGET /echo HTTP/1.1\r\n\r\n");
  EXPECT_EQ(head.ReadResponse(/*has_body=*/false).headers.at("content-length"), "5");
  EXPECT_EQ(head.ReadResponse().body, "GET ");
}

TEST_F(HttpServerTest, RequestIdsAreEchoedWhenHarmless) {
  StartServer();
  RawClient client = Connect();
  client.Send("GET /echo HTTP/1.1\r\nx-request-id: my-1.2_3\r\n\r\n");
  EXPECT_EQ(client.ReadResponse().headers.at("x-request-id"), "my-1.2_3");
  client.Send("GET /echo HTTP/1.1\r\nx-request-id: a\tb=\"c\"\r\n\r\n");
  EXPECT_THAT(client.ReadResponse().headers.at("x-request-id"), ::testing::StartsWith("req-"));
}

TEST_F(HttpServerTest, WhatIsTooLargeOrNoHttpIsRefused) {
  options_.limits.body_bytes = 1000;
  StartServer();
  const std::pair<std::string, int> cases[] = {
      {PostBytes("/echo", std::string(1001, 'x')), 413},
      {"POST /echo HTTP/1.1\r\nContent-Length: 99999999999999\r\n\r\n", 413},
      {"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" + std::string(2000, 'x'), 413},
      {"GET / HTTP/1.1\r\nx: " + std::string(20000, 'x') + "\r\n\r\n", 431},
      {"hello\r\n\r\n", 400},
      {"POST /echo HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400},
      {"POST /echo HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx", 415},
  };
  for (const auto& [bytes, status] : cases) {
    RawClient client = Connect();
    client.Send(bytes);
    EXPECT_EQ(client.ReadResponse().status, status) << bytes.substr(0, 60);
    EXPECT_TRUE(client.AtEnd());
  }
}

TEST_F(HttpServerTest, SlowRequestsAreCut) {
  options_.limits.header_timeout = 50ms;
  options_.limits.body_timeout = 50ms;
  StartServer();
  RawClient header = Connect();
  header.Send("POST /echo HTT");
  EXPECT_EQ(header.ReadResponse().status, 408);
  EXPECT_TRUE(header.AtEnd());
  RawClient body = Connect();
  body.Send("POST /echo HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc");
  EXPECT_EQ(body.ReadResponse().status, 408);
  EXPECT_TRUE(body.AtEnd());
  // Bytes that trickle in do not extend the deadline.
  RawClient trickle = Connect();
  trickle.Send("GET /");
  for (int i = 0; i < 10'000 && !trickle.ReadableWithin(5); ++i) trickle.Send("x");
  EXPECT_EQ(trickle.ReadResponse().status, 408);
}

TEST_F(HttpServerTest, IdleConnectionsAreClosedAfterTheirTime) {
  options_.limits.idle_timeout = 1000ms;  // a busy machine must still get a request in
  StartServer();
  RawClient silent = Connect();
  EXPECT_TRUE(silent.AtEnd());
  RawClient used = Connect();
  EXPECT_EQ(used.Get("/echo").status, 200);
  EXPECT_TRUE(used.AtEnd());
}

TEST_F(HttpServerTest, AClientThatLeavesEndsItsCall) {
  StartServer();
  {
    RawClient client = Connect();
    client.Send(PostBytes("/wait", ""));
  }
  EXPECT_TRUE(handler_.log.WaitForAbandoned(1));
  // Also with a pipelined request behind.
  RawClient client = Connect();
  client.Send(PostBytes("/wait", "") + PostBytes("/echo", "x"));
  client.Close();
  EXPECT_TRUE(handler_.log.WaitForAbandoned(2));
}

TEST_F(HttpServerTest, AClientThatNeverReadsIsCut) {
  options_.limits.send_buffer_bytes = 4096;
  options_.limits.write_timeout = 50ms;
  options_.limits.stream_backlog_bytes = 64 * 1024 * 1024;
  StartServer();
  RawClient client = Connect(/*receive_buffer_bytes=*/4096);
  client.Send(PostBytes("/flood", ""));
  EXPECT_TRUE(handler_.log.WaitForAbandoned(1));
}

TEST_F(HttpServerTest, AStreamsBacklogIsBounded) {
  options_.limits.stream_backlog_bytes = 1024 * 1024;
  StartServer();
  RawClient client = Connect();
  client.Send(PostBytes("/flood", ""));  // 8 MiB in one turn, more than may wait
  EXPECT_TRUE(handler_.log.WaitForAbandoned(1));
}

TEST_F(HttpServerTest, AReaderGetsTheWholeStream) {
  options_.limits.stream_backlog_bytes = 64 * 1024 * 1024;
  options_.limits.send_buffer_bytes = 4096;
  StartServer();
  RawClient client = Connect();
  client.Send(PostBytes("/flood", ""));
  EXPECT_EQ(client.ReadResponse().body.size(), 8u * 1024 * 1024);
  EXPECT_EQ(client.Get("/echo").status, 200);
}

TEST_F(HttpServerTest, ManyIdleAndWaitingConnectionsLeaveRoomForOthers) {
  StartServer();
  std::vector<RawClient> idle;
  std::vector<RawClient> waiting;
  for (int i = 0; i < 200; ++i) {
    idle.push_back(Connect());
    waiting.push_back(Connect());
    ASSERT_TRUE(idle.back().connected() && waiting.back().connected());
    waiting.back().Send(PostBytes("/wait", ""));
  }
  RawClient active = Connect();
  for (int i = 0; i < 50; ++i) EXPECT_EQ(active.Post("/echo", "x").status, 200);
  for (RawClient& client : idle) EXPECT_EQ(client.Get("/echo").status, 200);
  waiting.clear();
  EXPECT_TRUE(handler_.log.WaitForAbandoned(200));
}

TEST_F(HttpServerTest, ConnectionsPastTheLimitAreRefused) {
  options_.limits.max_connections = 2;
  StartServer();
  RawClient first = Connect();
  RawClient second = Connect();
  EXPECT_EQ(first.Get("/echo").status, 200);
  EXPECT_EQ(second.Get("/echo").status, 200);
  EXPECT_EQ(Connect().ReadResponse().status, 503);
  EXPECT_EQ(first.Get("/echo").status, 200);
}

TEST_F(HttpServerTest, StopLetsAnswersFinishAndCutsTheRest) {
  options_.limits.drain_timeout = 100ms;
  StartServer();
  RawClient idle = Connect();
  EXPECT_EQ(idle.Get("/echo").status, 200);
  RawClient waiting = Connect();
  waiting.Send(PostBytes("/wait", ""));
  while (handler_.waiting_.load() == 0) std::this_thread::yield();
  const uint16_t port = server_->port();
  server_->Stop();
  EXPECT_TRUE(handler_.drained);
  EXPECT_TRUE(idle.AtEnd());
  EXPECT_TRUE(waiting.AtEnd());
  EXPECT_TRUE(handler_.log.WaitForAbandoned(1));
  EXPECT_FALSE(RawClient(port).connected());
  server_->Stop();
}

}  // namespace
}  // namespace spillway::gateway
