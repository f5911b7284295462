// The monitor against real gRPC servers on loopback: healthy, disagreeing, silent and gone.
#include "monitor/monitor.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>

#include "spillway/v1/cluster.grpc.pb.h"
#include "spillway/v1/worker.grpc.pb.h"
#include "tests/monitor/samples.h"
#include "tests/telemetry/http_client.h"

namespace spillway::monitor {
namespace {

using ::testing::HasSubstr;

// Answers Describe with a given reply; while `silent` it answers only when the caller has given up.
class FakeWorker final : public v1::Worker::Service {
 public:
  FakeWorker() { Start("127.0.0.1:0"); }
  ~FakeWorker() override { Stop(); }

  grpc::Status Describe(grpc::ServerContext* context, const v1::DescribeRequest*,
                        v1::DescribeReply* out) override {
    std::unique_lock lock(mutex_);
    while (silent_ && !context->IsCancelled()) changed_.wait_for(lock, std::chrono::milliseconds(5));
    *out = reply_;
    return grpc::Status::OK;
  }
  void Set(const v1::DescribeReply& reply) {
    const std::lock_guard lock(mutex_);
    reply_ = reply;
  }
  void SetSilent(bool silent) {
    const std::lock_guard lock(mutex_);
    silent_ = silent;
    changed_.notify_all();
  }
  void Stop() {
    SetSilent(false);
    if (server_) server_->Shutdown(std::chrono::system_clock::now());
    server_.reset();
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  void Start(const std::string& address) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool silent_ = false;
  v1::DescribeReply reply_ = HealthyReply();
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

class FakeGateway final : public v1::Cluster::Service {
 public:
  FakeGateway() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~FakeGateway() override { server_->Shutdown(std::chrono::system_clock::now()); }
  grpc::Status GetStatus(grpc::ServerContext*, const v1::GetStatusRequest*, v1::ClusterStatus* out) override {
    out->set_model("tiny");
    out->set_ready(true);
    return grpc::Status::OK;
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

class MonitorTest : public ::testing::Test {
 protected:
  std::unique_ptr<Monitor> StartMonitor() {
    Options options;
    options.workers = {{"gpu-worker", gpu_.address()}, {"cpu-worker-0", cpu_.address()}};
    options.gateway_admin = gateway_.address();
    options.metrics = "127.0.0.1:0";
    auto started = Monitor::Start(options, device::Root());
    EXPECT_TRUE(started.ok()) << started.status();
    return std::move(*started);
  }
  static std::string Metrics(const Monitor& monitor) {
    return test::BodyOf(test::Get(monitor.port(), "/metrics"));
  }
  static nlohmann::json Status(const Monitor& monitor) {
    return nlohmann::json::parse(test::BodyOf(test::Get(monitor.port(), "/status.json")));
  }
  FakeWorker gpu_, cpu_;
  FakeGateway gateway_;
};

TEST_F(MonitorTest, HealthyClusterIsShownAsPlanned) {
  auto monitor = StartMonitor();
  EXPECT_THAT(test::Get(monitor->port(), "/readyz"), HasSubstr(" 503 "));
  for (int i = 0; i < 3; ++i) monitor->Round();
  EXPECT_THAT(test::Get(monitor->port(), "/readyz"), HasSubstr(" 200 "));
  const nlohmann::json status = Status(*monitor);
  EXPECT_EQ(status["gateway"]["model"], "tiny");
  EXPECT_EQ(status["workers"][0]["state"], "ready");
  EXPECT_EQ(status["events"].size(), 0u);
  const std::string metrics = Metrics(*monitor);
  EXPECT_THAT(metrics, HasSubstr("spillway_monitor_worker_up{worker=\"cpu-worker-0\"} 1\n"));
  EXPECT_THAT(metrics, HasSubstr("spillway_monitor_worker_layers_executed{worker=\"gpu-worker\"} 10\n"));
  EXPECT_THAT(metrics, HasSubstr("spillway_monitor_gateway_up 1\n"));
  EXPECT_THAT(metrics, HasSubstr("spillway_monitor_rounds_total 3\n"));
  EXPECT_THAT(test::Get(monitor->port(), "/"), HasSubstr("Content-Type: text/html"));
}

TEST_F(MonitorTest, WorkerThatEndsIsNamedAndItsNeighbourIsNot) {
  auto monitor = StartMonitor();
  monitor->Round();
  cpu_.Stop();
  monitor->Round();
  monitor->Round();
  const std::string metrics = Metrics(*monitor);
  EXPECT_THAT(metrics,
              HasSubstr("spillway_monitor_worker_fallback_active{cause=\"worker_unreachable\",worker="
                        "\"cpu-worker-0\"} 1\n"));
  EXPECT_THAT(metrics,
              HasSubstr("spillway_monitor_worker_fallback_active{cause=\"worker_unreachable\",worker="
                        "\"gpu-worker\"} 0\n"));
  EXPECT_THAT(metrics, HasSubstr("spillway_monitor_transitions_total{worker=\"cpu-worker-0\"} 1\n"));
  EXPECT_EQ(Status(*monitor)["events"][0]["to"], "worker_unreachable");
}

TEST_F(MonitorTest, SilentWorkerDelaysNobody) {
  auto monitor = StartMonitor();
  monitor->Round();
  gpu_.SetSilent(true);
  v1::DescribeReply reply = HealthyReply();
  reply.mutable_allocated()->set_weights(1);
  cpu_.Set(reply);
  monitor->Round();
  monitor->Round();
  const nlohmann::json status = Status(*monitor);
  EXPECT_EQ(status["workers"][0]["cause"], "worker_unreachable");
  EXPECT_EQ(status["workers"][1]["cause"], "unknown");
  EXPECT_THAT(status["workers"][1]["detail"].get<std::string>(),
              HasSubstr("weights: 3145728 bytes planned, 1"));
}

TEST_F(MonitorTest, PortFileNamesTheListener) {
  Options options;
  options.metrics = "127.0.0.1:0";
  options.port_file = ::testing::TempDir() + "spillway_monitor_port.json";
  std::filesystem::remove(options.port_file);
  auto started = Monitor::Start(options, device::Root());
  ASSERT_TRUE(started.ok()) << started.status();
  std::ifstream in(options.port_file);
  EXPECT_EQ(nlohmann::json::parse(in)["metrics"], "127.0.0.1:" + std::to_string((*started)->port()));
  std::filesystem::remove(options.port_file);
}

TEST_F(MonitorTest, AddressInUseIsAnError) {
  auto monitor = StartMonitor();
  Options options;
  options.metrics = "127.0.0.1:" + std::to_string(monitor->port());
  EXPECT_EQ(Monitor::Start(options, device::Root()).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace spillway::monitor
