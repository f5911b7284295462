// The listener over real sockets: what it serves, what it refuses, and that a bad peer costs nobody else
// anything.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "telemetry/registry.h"
#include "tests/telemetry/http_client.h"

namespace spillway::telemetry {
namespace {

using test::BodyOf;
using test::Exchange;
using test::Get;

class HealthServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto started = HealthServer::Start("127.0.0.1:0", registry_);
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = std::move(*started);
  }
  Registry registry_{"monitor"};
  std::unique_ptr<HealthServer> server_;
};

TEST_F(HealthServerTest, ServesMetricsAsPrometheusText) {
  const std::string answer = Get(server_->port(), "/metrics?x=1");
  EXPECT_EQ(answer.rfind("HTTP/1.1 200 OK", 0), 0u) << answer.substr(0, 80);
  EXPECT_NE(answer.find("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"), std::string::npos);
  EXPECT_NE(
      answer.find("spillway_build_info{service=\"monitor\",version=\"" + std::string(kVersion) + "\"} 1"),
      std::string::npos);
  EXPECT_NE(answer.find("process_resident_memory_bytes "), std::string::npos);
}

TEST_F(HealthServerTest, IsAliveBeforeItIsReady) {
  EXPECT_NE(Get(server_->port(), "/healthz").find(" 200 "), std::string::npos);
  EXPECT_NE(Get(server_->port(), "/readyz").find(" 503 "), std::string::npos);
  server_->SetReadiness([] { return std::string("no stage loaded"); });
  const std::string answer = Get(server_->port(), "/readyz");
  EXPECT_NE(answer.find(" 503 "), std::string::npos);
  EXPECT_EQ(BodyOf(answer), "no stage loaded\n");
  server_->SetReadiness([] { return std::string(); });
  EXPECT_NE(Get(server_->port(), "/readyz").find(" 200 "), std::string::npos);
}

TEST_F(HealthServerTest, ServesAddedPagesAndTurnsTheirExceptionsInto500) {
  server_->AddPage("/page", [] { return HttpPage{200, "text/html; charset=utf-8", "<p>hello</p>"}; });
  server_->AddPage("/broken", []() -> HttpPage { throw std::runtime_error("page failed"); });
  const std::string answer = Get(server_->port(), "/page");
  EXPECT_NE(answer.find("Content-Type: text/html; charset=utf-8"), std::string::npos);
  EXPECT_EQ(BodyOf(answer), "<p>hello</p>");
  EXPECT_NE(Get(server_->port(), "/broken").find(" 500 "), std::string::npos);
  EXPECT_NE(Get(server_->port(), "/missing").find(" 404 "), std::string::npos);
}

TEST_F(HealthServerTest, RefusesWhatIsNotAGet) {
  const std::string answer =
      Exchange(server_->port(), "POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_NE(answer.find(" 405 "), std::string::npos) << answer;
  EXPECT_NE(answer.find("Allow: GET"), std::string::npos);
}

TEST_F(HealthServerTest, OnLoopbackItAnswersOnlyToLoopbacksNames) {
  const auto status = [this](const std::string& host) {
    return Exchange(server_->port(), "GET /metrics HTTP/1.1\r\n" + host + "\r\n").substr(9, 3);
  };
  for (const char* host : {"", "Host: 127.0.0.1:9560\r\n", "Host: LocalHost\r\n", "Host: [::1]:1\r\n"}) {
    EXPECT_EQ(status(host), "200") << host;
  }
  EXPECT_EQ(status("Host: evil.example:9560\r\n"), "403");
}

TEST_F(HealthServerTest, RefusesRequestsBeyondItsBound) {
  const std::string answer =
      Exchange(server_->port(), "GET / HTTP/1.1\r\nX: " + std::string(32 * 1024, 'a') + "\r\n\r\n");
  EXPECT_NE(answer.find(" 431 "), std::string::npos) << answer.substr(0, 100);
}

TEST_F(HealthServerTest, AnswersNonsenseWith400AndGoesOn) {
  for (const std::string& bytes : {std::string("\x16\x03\x01\x00\x05hello\r\n\r\n", 15),
                                   std::string("GET\r\n\r\n"), std::string("GET / HTTP/9.9\r\n\r\n")}) {
    EXPECT_NE(Exchange(server_->port(), bytes).find(" 400 "), std::string::npos);
  }
  EXPECT_NE(Get(server_->port(), "/healthz").find(" 200 "), std::string::npos);
}

TEST_F(HealthServerTest, OutlivesMoreSilentPeersThanItHasRoomFor) {
  namespace asio = boost::asio;
  asio::io_context context;
  std::vector<asio::ip::tcp::socket> silent;
  for (int i = 0; i < 100; ++i) {
    silent.emplace_back(context);
    silent.back().connect({asio::ip::address_v4::loopback(), server_->port()});
  }
  silent.clear();  // all of them leave; the next request must get through
  EXPECT_NE(Get(server_->port(), "/healthz").find(" 200 "), std::string::npos);
}

TEST_F(HealthServerTest, AnswersManyAtOnceWhileCallbacksChange) {
  std::vector<std::thread> clients;
  std::atomic<int> answered{0};
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&] {
      for (int k = 0; k < 25; ++k) answered += Get(server_->port(), "/readyz").empty() ? 0 : 1;
    });
  }
  for (int i = 0; i < 50; ++i) {
    server_->SetReadiness([i] { return std::to_string(i); });
    server_->AddPage("/page" + std::to_string(i), [] { return HttpPage{}; });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(answered, 100);
}

TEST(HealthServer, NamesTheAddressThatIsInUse) {
  Registry registry("gateway");
  auto first = HealthServer::Start("127.0.0.1:0", registry);
  ASSERT_TRUE(first.ok());
  const std::string address = "127.0.0.1:" + std::to_string((*first)->port());
  const auto second = HealthServer::Start(address, registry);
  ASSERT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(std::string(second.status().message()).find(address), std::string::npos) << second.status();
}

TEST(HealthServer, RefusesAddressesThatAreNone) {
  Registry registry("gateway");
  for (const char* address : {"", "127.0.0.1", "127.0.0.1:", "127.0.0.1:notaport", "no host:1"}) {
    EXPECT_EQ(HealthServer::Start(address, registry).status().code(), absl::StatusCode::kInvalidArgument)
        << address;
  }
}

TEST(HealthServer, StopsWhileAPeerIsConnected) {
  Registry registry("gateway");
  auto server = HealthServer::Start("127.0.0.1:0", registry);
  ASSERT_TRUE(server.ok());
  boost::asio::io_context context;
  boost::asio::ip::tcp::socket silent(context);
  silent.connect({boost::asio::ip::address_v4::loopback(), (*server)->port()});
  EXPECT_NE(Get((*server)->port(), "/healthz").find(" 200 "),
            std::string::npos);  // so the silent one is accepted
  server->reset();
}

}  // namespace
}  // namespace spillway::telemetry
