// Goal: HTTP/1 as clients speak it: pipelines, half-closed connections, versions, bodies, and refusals that
// arrive. Method: raw sockets on loopback, a handler that echoes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/gateway/http/http_server_fixture.h"
#include "tests/gateway/http/raw_client.h"

namespace spillway::gateway {
namespace {

using test::HttpServerTest;
using test::PostBytes;
using test::RawClient;
using test::RawResponse;
using ::testing::HasSubstr;

constexpr char kChunked[] = "Transfer-Encoding: chunked\r\n";

// A request without a body.
std::string Line(const std::string& line, const std::string& headers = "") {
  return fmt::format("{} HTTP/1.1\r\nHost: localhost\r\n{}\r\n", line, headers);
}

class HttpProtocol : public HttpServerTest {};

TEST_F(HttpProtocol, PipelinedRequestsAreAnsweredInOrder) {
  StartServer();
  RawClient client = Connect();
  client.Send(PostBytes("/echo", "one") + PostBytes("/echo", "two") + Line("GET /echo"));
  EXPECT_EQ(client.ReadResponse().body, "POST one");
  EXPECT_EQ(client.ReadResponse().body, "POST two");
  EXPECT_EQ(client.ReadResponse().body, "GET ");
  EXPECT_EQ(client.Post("/echo", "three").body, "POST three");
}

// Many times what may be received ahead: the client waits, and nothing is lost.
TEST_F(HttpProtocol, ALongPipelineIsAnsweredToItsEnd) {
  StartServer();
  constexpr int kRequests = 3000;
  std::string bytes;
  for (int i = 0; i < kRequests; ++i) bytes += PostBytes("/echo", std::to_string(i));
  RawClient client = Connect();
  std::thread sender([&client, &bytes] { EXPECT_TRUE(client.Send(bytes)); });
  for (int i = 0; i < kRequests; ++i) {
    ASSERT_EQ(client.ReadResponse().body, "POST " + std::to_string(i));
  }
  sender.join();
  // Also behind a request whose answer takes its time, and with the end of the input right behind.
  RawClient waiting = Connect();
  waiting.Send(PostBytes("/wait", "") + bytes.substr(0, 100'000));
  ASSERT_TRUE(handler_.WaitForPending(1));
  handler_.FinishPending();
  EXPECT_EQ(waiting.ReadResponse().body, "at last");
  EXPECT_EQ(waiting.ReadResponse().body, "POST 0");
}

TEST_F(HttpProtocol, AClientThatSendsNoMoreGetsItsAnswers) {
  StartServer();
  RawClient whole = Connect();
  whole.Send(PostBytes("/wait", ""));
  whole.ShutdownWrite();
  RawClient stream = Connect();
  stream.Send(PostBytes("/drip", ""));
  stream.ShutdownWrite();
  RawClient behind = Connect();
  behind.Send(PostBytes("/echo", "1") + PostBytes("/wait", "") + PostBytes("/echo", "2"));
  behind.ShutdownWrite();
  // The server asks whether they are still there, which only a client that is can see.
  EXPECT_EQ(whole.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_THAT(stream.ReadUntil("~\r\n"), HasSubstr("first "));
  EXPECT_EQ(behind.ReadResponse().body, "POST 1");
  EXPECT_EQ(behind.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  ASSERT_TRUE(handler_.WaitForPending(3));
  handler_.FinishPending();
  EXPECT_EQ(whole.ReadResponse().body, "at last");
  EXPECT_TRUE(whole.AtEnd());
  EXPECT_THAT(stream.ReadUntil("0\r\n\r\n"), HasSubstr("last"));
  EXPECT_TRUE(stream.AtEnd());
  EXPECT_EQ(behind.ReadResponse().body, "at last");
  EXPECT_EQ(behind.ReadResponse().body, "POST 2");
  EXPECT_TRUE(behind.AtEnd());
}

TEST_F(HttpProtocol, AnEndAndAResetOfTheClientAreToldApart) {
  StartServer();
  {
    RawClient whole = Connect();
    whole.Send(PostBytes("/wait", ""));
    RawClient stream = Connect();
    stream.Send(PostBytes("/drip", ""));
    stream.ReadUntil("first ");
    ASSERT_TRUE(handler_.WaitForPending(2));
  }
  EXPECT_TRUE(handler_.log.WaitForAbandoned(2));
  // HTTP/1.0 has no answer before the answer, so its end of input is the client's end.
  RawClient old = Connect();
  old.Send("POST /wait HTTP/1.0\r\n\r\n");
  ASSERT_TRUE(handler_.WaitForPending(3));
  old.ShutdownWrite();
  EXPECT_TRUE(handler_.log.WaitForAbandoned(3));
  EXPECT_TRUE(old.AtEnd());
  RawClient quick = Connect();
  quick.Send("GET /echo HTTP/1.0\r\n\r\n");
  quick.ShutdownWrite();
  EXPECT_EQ(quick.ReadResponse().body, "GET ");
}

TEST_F(HttpProtocol, ChunkedAndExpectedBodiesArrive) {
  StartServer();
  RawClient client = Connect();
  client.Send(Line("POST /echo", kChunked) + "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  EXPECT_EQ(client.ReadResponse().body, "POST abcde");
  client.Send(Line("POST /echo", "Expect: 100-continue\r\nContent-Length: 2\r\n"));
  EXPECT_EQ(client.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("hi");
  EXPECT_EQ(client.ReadResponse().body, "POST hi");
}

TEST_F(HttpProtocol, VersionsAndConnectionHeadersAreHonoured) {
  StartServer();
  RawClient old = Connect();
  old.Send("GET /echo HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.ReadResponse().body, "GET ");
  EXPECT_TRUE(old.AtEnd());
  RawClient kept = Connect();
  kept.Send(
      "POST /echo HTTP/1.0\r\nConnection: keep-alive\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx");
  EXPECT_EQ(kept.ReadUntil("\r\n"), "HTTP/1.1 200 OK\r\n");
  EXPECT_THAT(kept.ReadUntil("POST x"), HasSubstr("Connection: keep-alive\r\n"));
  RawClient closing = Connect();
  closing.Send(Line("GET /echo", "Connection: close\r\n"));
  EXPECT_EQ(closing.ReadResponse().headers.at("connection"), "close");
  EXPECT_TRUE(closing.AtEnd());
  RawClient head = Connect();
  head.Send(Line("HEAD /echo") + Line("GET /echo"));
  EXPECT_EQ(head.ReadResponse(/*has_body=*/false).headers.at("content-length"), "5");
  EXPECT_EQ(head.ReadResponse().body, "GET ");
}

TEST_F(HttpProtocol, RequestIdsAreEchoedWhenHarmless) {
  StartServer();
  RawClient client = Connect();
  client.Send(Line("GET /echo", "x-request-id: my-1.2_3\r\n"));
  EXPECT_EQ(client.ReadResponse().headers.at("x-request-id"), "my-1.2_3");
  client.Send(Line("GET /echo", "x-request-id: a\tb=\"c\"\r\n"));
  EXPECT_THAT(client.ReadResponse().headers.at("x-request-id"), ::testing::StartsWith("req-"));
}

TEST_F(HttpProtocol, WhatIsTooLargeOrNoHttpIsRefused) {
  options_.limits.body_bytes = 1000;
  StartServer();
  const std::pair<std::string, int> cases[] = {
      {PostBytes("/echo", std::string(1001, 'x')), 413},
      {Line("POST /echo", "Content-Length: 99999999999999\r\n"), 413},
      {Line("POST /echo", "Content-Length: 1001\r\nExpect: 100-continue\r\n"), 413},
      {Line("POST /echo", kChunked) + "7d0\r\n" + std::string(2000, 'x'), 413},
      {Line("GET /", "x: " + std::string(20000, 'x') + "\r\n"), 431},
      {"GET /" + std::string(20000, 'x'), 431},
      {Line("POST /echo", kChunked) + "1;" + std::string(100'000, 'x'), 431},
      {Line("POST /echo", kChunked) + "0\r\nx: " + std::string(100'000, 'x'), 431},
      {"hello\r\n\r\n", 400},
      {Line("POST /echo", "Content-Length: -1\r\n"), 400},
      {Line("POST /echo", "Content-Length: 1\r\nContent-Length: 2\r\n") + "x", 400},
      {Line("POST /echo", std::string(kChunked) + "Content-Length: 1\r\n") + "x", 400},
      {Line("POST /echo", kChunked) + "zz\r\n", 400},
      {"GET /echo HTTP/1.1\r\n\r\n", 400},
      {Line("GET /echo", "Host: localhost\r\n"), 400},
      {Line("POST /echo", "Content-Encoding: gzip\r\nContent-Length: 1\r\n") + "x", 415},
      {Line("POST /echo", "Transfer-Encoding: gzip\r\n") + "x", 501},
  };
  for (const auto& [bytes, status] : cases) {
    RawClient client = Connect();
    client.Send(bytes);
    const RawResponse response = client.ReadResponse();
    EXPECT_EQ(response.status, status) << bytes.substr(0, 100);
    EXPECT_FALSE(response.body.empty()) << bytes.substr(0, 100);
    EXPECT_EQ(response.headers.count("x-request-id"), 1u) << bytes.substr(0, 100);
    EXPECT_TRUE(client.AtEnd());
  }
}

TEST_F(HttpProtocol, HeadsOfRefusedRequestsGetNoBody) {
  StartServer();
  RawClient client = Connect();
  client.Send(Line("HEAD /echo", "Content-Encoding: gzip\r\n"));
  EXPECT_EQ(client.ReadResponse(/*has_body=*/false).status, 415);
  EXPECT_TRUE(client.AtEnd());
}

TEST_F(HttpProtocol, ALoopbackServerAnswersOnlyToItsNames) {
  options_.access.hosts = {"Chat.Example"};
  StartServer();
  RawClient client = Connect();
  for (const char* host : {"localhost", "LOCALHOST.:1", "ui.localhost:80", "127.0.0.1:8080", "127.9.9.9",
                           "[::1]:8080", "chat.example:8080"}) {
    client.Send(fmt::format("GET /echo HTTP/1.1\r\nHost: {}\r\n\r\n", host));
    EXPECT_EQ(client.ReadResponse().status, 200) << host;
  }
  for (const char* host :
       {"evil.example:8080", "localhost.evil.example", "evil-localhost", "10.0.0.1", "0.0.0.0:8080",
        "[fd00::1]", "[::1", "127.0.0.1.evil.example", "x@localhost", "localhost/x", "\"\\\t"}) {
    RawClient attacker = Connect();
    attacker.Send(fmt::format("POST /echo HTTP/1.1\r\nHost: {}\r\nContent-Length: 5\r\n\r\n", host));
    const RawResponse response = attacker.ReadResponse();  // before its body
    EXPECT_EQ(response.status, 403) << host;
    EXPECT_THAT(response.body, HasSubstr("--allowed-host")) << host;
    EXPECT_TRUE(attacker.AtEnd());
  }
}

TEST_F(HttpProtocol, WebPagesNeedAPermittedOrigin) {
  options_.access.origins = {"https://Chat.Example", "null"};
  StartServer();
  for (const char* origin : {"https://evil.example", "http://chat.example", "https://chat.example:444",
                             "http://localhost.evil.example", "localhost", "://localhost",
                             "http://x@localhost", "http://localhost/", "*"}) {
    RawClient client = Connect();
    client.Send(Line("POST /echo", fmt::format("Origin: {}\r\nContent-Length: 1\r\n", origin)));
    const RawResponse response = client.ReadResponse();
    EXPECT_EQ(response.status, 403) << origin;
    EXPECT_THAT(response.body, HasSubstr("--allowed-origin")) << origin;
    EXPECT_EQ(response.headers.count("access-control-allow-origin"), 0u) << origin;
    EXPECT_TRUE(client.AtEnd());
  }
  RawClient client = Connect();
  for (const char* origin : {"http://localhost:3000", "https://127.0.0.1", "http://[::1]:5173",
                             "tauri://localhost", "https://chat.example", "null"}) {
    client.Send(Line("GET /echo", fmt::format("Origin: {}\r\n", origin)));
    const RawResponse response = client.ReadResponse();
    EXPECT_EQ(response.status, 200) << origin;
    EXPECT_EQ(response.headers.at("access-control-allow-origin"), origin);
    EXPECT_EQ(response.headers.at("vary"), "Origin");
  }
  EXPECT_EQ(client.Get("/echo").headers.count("access-control-allow-origin"), 0u);
  // The page may read why its request failed, too.
  client.Send(Line("POST /echo", "Origin: http://localhost\r\nContent-Encoding: gzip\r\n"));
  EXPECT_EQ(client.ReadResponse().headers.at("access-control-allow-origin"), "http://localhost");
}

TEST_F(HttpProtocol, PreflightsArePermittedByOrigin) {
  StartServer();
  const auto preflight = [](const char* origin) {
    return Line("OPTIONS /v1/chat/completions",
                fmt::format("Origin: {}\r\nAccess-Control-Request-Method: POST\r\n"
                            "Access-Control-Request-Headers: authorization,content-type\r\n",
                            origin));
  };
  RawClient client = Connect();
  client.Send(preflight("http://localhost:3000"));
  const RawResponse permitted = client.ReadResponse();
  EXPECT_EQ(permitted.status, 200);
  EXPECT_EQ(permitted.body, "");
  EXPECT_EQ(permitted.headers.at("access-control-allow-origin"), "http://localhost:3000");
  EXPECT_EQ(permitted.headers.at("access-control-allow-headers"), "authorization,content-type");
  EXPECT_THAT(permitted.headers.at("access-control-allow-methods"), HasSubstr("POST"));
  EXPECT_EQ(client.Post("/echo", "x").status, 200);  // the connection lives on
  client.Send(preflight("https://evil.example"));
  EXPECT_EQ(client.ReadResponse().status, 403);
  RawClient plain = Connect();
  plain.Send(Line("OPTIONS /nothing"));
  EXPECT_EQ(plain.ReadResponse().status, 404);  // no question of a browser: the handler's
}

TEST_F(HttpProtocol, AWideBindChecksOriginsOnly) {
  options_.access.origins = {"*"};
  StartServer("0.0.0.0:0");
  RawClient any = Connect();
  any.Send("GET /echo HTTP/1.1\r\nHost: box.example\r\nOrigin: https://any.example\r\n\r\n");
  const RawResponse response = any.ReadResponse();
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.headers.at("access-control-allow-origin"), "*");
  options_.access.origins.clear();
  StartServer("0.0.0.0:0");
  RawClient checked = Connect();
  checked.Send("GET /echo HTTP/1.1\r\nHost: box.example\r\n\r\n");
  EXPECT_EQ(checked.ReadResponse().status, 200);
  checked.Send("GET /echo HTTP/1.1\r\nHost: box.example\r\nOrigin: http://box.example\r\n\r\n");
  EXPECT_EQ(checked.ReadResponse().status, 403);
}

TEST(AccessPolicy, OptionsAreChecked) {
  for (const char* host : {"chat.example", "chat.example:80", "10.0.0.7", "[fd00::1]", "fd00::1"}) {
    EXPECT_EQ(CheckAllowedHost(host), "") << host;
  }
  for (const char* host : {"", "http://chat.example", "chat.example/", "a b", "*"}) {
    EXPECT_NE(CheckAllowedHost(host), "") << host;
  }
  for (const char* origin :
       {"*", "null", "https://chat.example", "http://10.0.0.7:3000", "app://obsidian.md"}) {
    EXPECT_EQ(CheckAllowedOrigin(origin), "") << origin;
  }
  for (const char* origin : {"", "chat.example", "https://", "https://chat.example/", "https://*"}) {
    EXPECT_NE(CheckAllowedOrigin(origin), "") << origin;
  }
}

}  // namespace
}  // namespace spillway::gateway
