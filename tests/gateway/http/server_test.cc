// Goal: the connection machinery keeps its limits and deadlines against clients that are slow, silent, greedy
// or gone. Method: raw sockets on loopback, a handler that echoes, short deadlines injected. Nothing is
// timed: a client waits for the server's reaction.
#include "gateway/http/server.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "engine/base/status.h"
#include "tests/gateway/http/http_server_fixture.h"
#include "tests/gateway/http/raw_client.h"

namespace spillway::gateway {
namespace {

using std::chrono_literals::operator""ms;
using test::HttpServerTest;
using test::PostBytes;
using test::RawClient;
using test::RawResponse;
using ::testing::HasSubstr;

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

TEST_F(HttpServerTest, SlowRequestsAreCut) {
  options_.limits.header_timeout = 50ms;
  options_.limits.body_timeout = 50ms;
  StartServer();
  RawClient header = Connect();
  header.Send("POST /echo HTT");
  EXPECT_EQ(header.ReadResponse().status, 408);
  EXPECT_TRUE(header.AtEnd());
  RawClient body = Connect();
  body.Send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nabc");
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
  for (int i = 0; i < 500; ++i) {  // 1000 connections
    idle.push_back(Connect());
    waiting.push_back(Connect());
    ASSERT_TRUE(idle.back().connected() && waiting.back().connected());
    waiting.back().Send(PostBytes("/wait", ""));
  }
  RawClient active = Connect();
  for (int i = 0; i < 50; ++i) EXPECT_EQ(active.Post("/echo", "x").status, 200);
  for (RawClient& client : idle) EXPECT_EQ(client.Get("/echo").status, 200);
  waiting.clear();
  EXPECT_TRUE(handler_.log.WaitForAbandoned(500));
}

TEST_F(HttpServerTest, ConnectionsPastTheLimitAreRefused) {
  options_.limits.max_connections = 2;
  StartServer();
  RawClient first = Connect();
  RawClient second = Connect();
  EXPECT_EQ(first.Get("/echo").status, 200);
  EXPECT_EQ(second.Get("/echo").status, 200);
  EXPECT_EQ(Connect().ReadResponse().status, 503);
  const RawResponse refused = Connect().Post("/echo", std::string(100'000, 'x'));  // heard out, so not reset
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.body, "too many connections");
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
