// What a scrape reads after known calls: exact lines, everything there at 0 from the start, nothing twice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "telemetry/catalogue.h"
#include "telemetry/gateway_metrics.h"
#include "telemetry/monitor_metrics.h"
#include "telemetry/registry.h"
#include "telemetry/worker_metrics.h"

namespace spillway::telemetry {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::set<std::string> FamiliesIn(const std::string& text) {
  std::set<std::string> names;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("# TYPE ", 0) == 0) names.insert(line.substr(7, line.find(' ', 7) - 7));
  }
  return names;
}

std::set<std::string> Owned(std::initializer_list<Owner> owners) {
  std::set<std::string> names;
  for (const MetricSpec& metric : Catalogue()) {
    for (const Owner owner : owners) {
      if (metric.owner == owner) names.insert(metric.name);
    }
  }
  return names;
}

TEST(GatewayMetrics, ExportsExactlyItsRowsFromTheStart) {
  Registry registry("gateway");
  GatewayMetrics metrics(registry, "m");
  metrics.WorkerHeartbeat("cpu", "cpu-worker-0", 1);  // its peers are known from the configuration only
  EXPECT_EQ(FamiliesIn(registry.Render()), Owned({Owner::kGateway, Owner::kEvery}));
  const std::string text = registry.Render();
  EXPECT_THAT(
      text,
      HasSubstr("spillway_requests_total{endpoint=\"generate\",model=\"m\",outcome=\"cancelled\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("spillway_requests_rejected_total{reason=\"unauthenticated\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("spillway_hop_errors_total{code=\"UNAVAILABLE\",stage=\"gpu\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("spillway_time_to_first_token_seconds_bucket{model=\"m\",le=\"2\"} 0\n"));
}

TEST(GatewayMetrics, CountsARequest) {
  Registry registry("gateway");
  GatewayMetrics metrics(registry, "m");
  metrics.RequestFinished("completions", "ok", 1.5);
  metrics.FirstToken(0.03);
  metrics.InterToken(0.02);
  metrics.TimePerOutputToken(0.02);
  metrics.Phases(0.01, 0.02, 1);
  metrics.Tokens(7, 12);
  metrics.SetRunning(1);
  metrics.SetWaiting(2);
  metrics.Rejected("queue_full");
  metrics.Preempted();
  const std::string text = registry.Render();
  EXPECT_THAT(text,
              HasSubstr("spillway_requests_total{endpoint=\"completions\",model=\"m\",outcome=\"ok\"} 1\n"));
  EXPECT_THAT(text,
              HasSubstr("spillway_request_duration_seconds_sum{endpoint=\"completions\",model=\"m\"} 1.5\n"));
  EXPECT_THAT(text, HasSubstr("spillway_time_to_first_token_seconds_bucket{model=\"m\",le=\"0.02\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("spillway_time_to_first_token_seconds_bucket{model=\"m\",le=\"0.04\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("spillway_generated_tokens_total{model=\"m\"} 12\n"));
  EXPECT_THAT(text, HasSubstr("spillway_request_prompt_tokens_sum{model=\"m\"} 7\n"));
  EXPECT_THAT(text, HasSubstr("spillway_requests_waiting{model=\"m\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("spillway_requests_rejected_total{reason=\"queue_full\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("spillway_preemptions_total{model=\"m\"} 1\n"));
}

TEST(GatewayMetrics, SplitsAHopIntoItsParts) {
  Registry registry("gateway");
  GatewayMetrics metrics(registry, "m");
  metrics.Hop({"cpu", "decode", 0.25, 0.5, 0.125, 0.0625, 100, 200});
  const std::string text = registry.Render();
  const auto sum = [](const char* component, const char* value) {
    return std::string("spillway_hop_duration_seconds_sum{component=\"") + component +
           "\",phase=\"decode\",stage=\"cpu\"} " + value + "\n";
  };
  EXPECT_THAT(text, HasSubstr(sum("queue", "0.25")));
  EXPECT_THAT(text, HasSubstr(sum("compute", "0.5")));
  EXPECT_THAT(text, HasSubstr(sum("serialize", "0.125")));
  EXPECT_THAT(text, HasSubstr(sum("transport", "0.0625")));
  EXPECT_THAT(
      text,
      HasSubstr("spillway_hop_payload_bytes_total{direction=\"received\",phase=\"decode\",stage=\"cpu\"} "
                "200\n"));
}

TEST(GatewayMetrics, IgnoresValuesOutsideAClosedSet) {
  Registry registry("gateway");
  GatewayMetrics metrics(registry, "m");
  metrics.Rejected("a client's text");
  metrics.SetWorkers("tpu", "ready", 1);
  EXPECT_THAT(registry.Render(), Not(HasSubstr("client's")));
  EXPECT_THAT(registry.Render(), Not(HasSubstr("\"tpu\"")));
}

TEST(GatewayMetrics, BoundsTheNumberOfPeers) {
  Registry registry("gateway");
  GatewayMetrics metrics(registry, "m");
  for (int i = 0; i < 500; ++i) metrics.WorkerHeartbeat("cpu", "peer-" + std::to_string(i), 1);
  const std::string text = registry.Render();
  EXPECT_THAT(text, HasSubstr("peer=\"other\""));
  EXPECT_THAT(text, Not(HasSubstr("peer-100")));
}

TEST(WorkerMetrics, ExportsExactlyItsRowsFromTheStart) {
  Registry registry("cpu-worker");
  WorkerMetrics metrics(registry, "cpu", "host");
  EXPECT_EQ(FamiliesIn(registry.Render()).count("spillway_model_info"),
            0u);  // an empty family is not printed
  metrics.SetModel("m", "llama", "Q4_K", 30, 2048);
  EXPECT_EQ(FamiliesIn(registry.Render()), Owned({Owner::kWorker, Owner::kEvery}));
  const std::string text = registry.Render();
  EXPECT_THAT(text, HasSubstr("spillway_fallback_active{cause=\"alloc_failed\",extent=\"full\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("spillway_state{state=\"starting\"} 1\n"));
  EXPECT_THAT(text,
              HasSubstr("spillway_device_memory_purpose_bytes{device=\"host\",purpose=\"kv_cache\"} 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("stage=\"gpu\"")));
}

TEST(WorkerMetrics, ReportsLedgerLayersAndState) {
  Registry registry("cpu-worker");
  WorkerMetrics metrics(registry, "cpu", "host");
  PurposeBytes bytes;
  bytes[Purpose::kWeights] = 1024;
  metrics.SetMemory(bytes, Ledger::kUnlimited);
  metrics.SetLayers(10, 9);
  metrics.LayerSteps(90);
  metrics.StageCompute("decode", 0.5, 4);
  metrics.SetKvCache(1, 4);
  metrics.AllocationFailures(2);
  metrics.AllocationFailures(2);
  metrics.WeightBytesRead(4096);
  metrics.SetState("ready");
  const std::string text = registry.Render();
  EXPECT_THAT(text,
              HasSubstr("spillway_device_memory_purpose_bytes{device=\"host\",purpose=\"weights\"} 1024\n"));
  EXPECT_THAT(text, HasSubstr("spillway_device_memory_budget_bytes{device=\"host\"} +Inf\n"));
  EXPECT_THAT(text, HasSubstr("spillway_stage_layers_planned{device=\"host\",stage=\"cpu\"} 10\n"));
  EXPECT_THAT(text, HasSubstr("spillway_stage_layers_loaded{device=\"host\",stage=\"cpu\"} 9\n"));
  EXPECT_THAT(text, HasSubstr("spillway_stage_layer_steps_total{device=\"host\",stage=\"cpu\"} 90\n"));
  EXPECT_THAT(text, HasSubstr("spillway_stage_busy_seconds_total{stage=\"cpu\"} 0.5\n"));
  EXPECT_THAT(text, HasSubstr("spillway_kv_cache_utilization_ratio{stage=\"cpu\"} 0.25\n"));
  EXPECT_THAT(text, HasSubstr("spillway_kv_cache_capacity_tokens{stage=\"cpu\"} 128\n"));
  EXPECT_THAT(text, HasSubstr("spillway_device_allocation_failures_total{device=\"host\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("spillway_state{state=\"ready\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("spillway_state{state=\"starting\"} 0\n"));
}

TEST(WorkerMetrics, FallbackIsOneSeriesAndCountsEntries) {
  Registry registry("cpu-worker");
  WorkerMetrics metrics(registry, "cpu", "host");
  metrics.SetFallback("alloc_failed", "partial");
  metrics.SetFallback("alloc_failed", "partial");
  metrics.SetFallback("alloc_failed", "full");
  std::string text = registry.Render();
  EXPECT_THAT(text, HasSubstr("spillway_fallback_active{cause=\"alloc_failed\",extent=\"partial\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("spillway_fallback_active{cause=\"alloc_failed\",extent=\"full\"} 1\n"));
  EXPECT_THAT(
      text, HasSubstr("spillway_fallback_transitions_total{cause=\"alloc_failed\",extent=\"partial\"} 1\n"));
  metrics.SetFallback("", "");
  text = registry.Render();
  EXPECT_THAT(text, HasSubstr("spillway_fallback_active{cause=\"alloc_failed\",extent=\"full\"} 0\n"));
}

TEST(WorkerMetrics, ModelInfoReplacesTheOldModel) {
  Registry registry("gpu-worker");
  WorkerMetrics metrics(registry, "gpu", "host");
  metrics.SetModel("one", "llama", "Q8_0", 30, 2048);
  metrics.SetModel("two", "llama", "Q8_0", 30, 2048);
  EXPECT_THAT(registry.Render(), Not(HasSubstr("model=\"one\"")));
  EXPECT_THAT(registry.Render(), HasSubstr("model=\"two\""));
}

TEST(MonitorMetrics, ExportsExactlyItsRowsFromTheStart) {
  Registry registry("monitor");
  MonitorMetrics metrics(registry, {"gpu-worker", "cpu-worker-0"}, {"ollama@h:1"});
  EXPECT_EQ(FamiliesIn(registry.Render()), Owned({Owner::kMonitor, Owner::kEvery}));
  metrics.SetVerdict("gpu-worker", "worker_unreachable");
  metrics.SetWorker("cpu-worker-0", true, 10, 9);
  metrics.Transition("gpu-worker");
  metrics.SetDevice("host", true, 1000, 400);
  metrics.SetEngine("ollama@h:1", true, 0.4, "vram_short_model");
  const std::string text = registry.Render();
  EXPECT_THAT(text, HasSubstr("spillway_monitor_worker_fallback_active{cause=\"worker_unreachable\","
                              "worker=\"gpu-worker\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("spillway_monitor_worker_fallback_active{cause=\"worker_unreachable\","
                              "worker=\"cpu-worker-0\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("spillway_monitor_worker_up{worker=\"cpu-worker-0\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("spillway_watched_vram_share_ratio{engine=\"ollama@h:1\"} 0.4"));
  EXPECT_THAT(
      text,
      HasSubstr("spillway_watched_fallback_active{cause=\"vram_short_model\",engine=\"ollama@h:1\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("spillway_monitor_worker_layers_executed{worker=\"cpu-worker-0\"} 9\n"));
  EXPECT_THAT(text, HasSubstr("spillway_monitor_transitions_total{worker=\"gpu-worker\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("spillway_device_memory_used_bytes{device=\"host\"} 600\n"));
}

}  // namespace
}  // namespace spillway::telemetry
