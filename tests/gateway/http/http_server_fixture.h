// A server on a free port of loopback whose handler echoes, streams or waits as its path says; for tests of
// the connection machinery.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gateway/http/server.h"
#include "tests/gateway/http/raw_client.h"

namespace spillway::gateway::test {

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
  std::string_view Filler() const override { return "~"; }

 private:
  CallLog& log_;
  bool completed_ = false;
};

// POST /echo answers the body, /flood streams 8 MiB, /wait and /drip answer when the test says so (/drip as a
// stream that has begun), everything else 404.
class TestHandler : public RequestHandler {
 public:
  std::unique_ptr<Call> Handle(HttpRequest request, const std::shared_ptr<Exchange>& exchange) override {
    if (request.path == "/wait" || request.path == "/drip") {
      const bool streams = request.path == "/drip";
      if (streams) exchange->StartStream({});
      if (streams) exchange->Write("first ");
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        pending_.push_back({exchange, streams});
      }
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

  bool WaitForPending(int count) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (waiting_.load() < count && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    return waiting_.load() >= count;
  }
  // Answers all requests that wait.
  void FinishPending() {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Pending& pending : pending_) {
      const std::shared_ptr<Exchange> exchange = pending.exchange.lock();
      if (exchange == nullptr) continue;
      exchange->poster()([exchange, streams = pending.streams] {
        if (streams) exchange->Write("last");
        if (streams) return exchange->EndStream(false);
        HttpResponse response;
        response.body = "at last";
        exchange->Respond(std::move(response));
      });
    }
    pending_.clear();
  }

  CallLog log;
  std::atomic<int> waiting_{0};
  std::atomic<bool> drained{false};

 private:
  struct Pending {
    std::weak_ptr<Exchange> exchange;
    bool streams = false;
  };
  std::mutex mutex_;
  std::vector<Pending> pending_;
};

class HttpServerTest : public ::testing::Test {
 protected:
  void StartServer(const std::string& address = "127.0.0.1:0") {
    options_.address = address;
    options_.insecure = address.compare(0, 4, "127.") != 0;
    auto server = HttpServer::Start(options_, handler_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  RawClient Connect(int receive_buffer_bytes = 0) { return RawClient(server_->port(), receive_buffer_bytes); }

  TestHandler handler_;
  HttpOptions options_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace spillway::gateway::test
