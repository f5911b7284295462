// The table itself. Base units only; a counter ends in _total; every configured objective should be a bucket.
#include "telemetry/catalogue.h"

#include <algorithm>

#include "engine/base/ledger.h"
#include "truth/verdict.h"

namespace spillway::telemetry {
namespace {

using Values = std::vector<std::string>;
using Buckets = std::vector<double>;
using enum MetricType;

// Times to the first token: OpenTelemetry's list for GenAI servers, 2 s (a usual objective) and the long tail
// that prompts on a CPU reach.
const Buckets kFirstTokenBuckets = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,
                                    .75,  1,    2,   2.5, 5,   7.5, 10,  20, 40,  80};
// Times per token: OpenTelemetry's list, finer below for small models, longer above for stalls.
const Buckets kTokenBuckets = {.002, .005, .01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 10};
const Buckets kHopBuckets = {.00005, .0001, .00025, .0005, .001, .0025, .005, .01,
                             .025,   .05,   .1,     .25,   .5,   1,     2.5};
const Buckets kRequestBuckets = {.05, .1, .25, .5, 1, 2, 2.5, 5, 10, 20, 40, 80, 160, 320, 640};
const Buckets kTokenCountBuckets = {1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144};
const Buckets kBatchBuckets = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};

const LabelSpec kModel = {"model", {}};
const LabelSpec kStage = {"stage", {"gpu", "cpu"}};
const LabelSpec kPhase = {"phase", {"prefill", "decode"}};
const LabelSpec kDevice = {"device", {"host", "cuda"}};
const LabelSpec kMemory = {"memory", {"vram", "ram", "mmap"}};
const LabelSpec kEndpoint = {"endpoint", {"chat_completions", "completions", "generate"}};
const LabelSpec kOutcome = {"outcome", {"ok", "client_error", "rejected", "error", "cancelled"}};
const LabelSpec kReason = {
    "reason", {"queue_full", "too_large", "rate_limited", "no_worker", "draining", "unauthenticated"}};
const LabelSpec kExtent = {"extent", {"partial", "full"}};
const LabelSpec kWorker = {"worker", {}};
const LabelSpec kCode = {
    "code",
    {"CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
     "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
     "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"}};

LabelSpec PurposeLabel() { return {"purpose", Values(kPurposeNames.begin(), kPurposeNames.end())}; }

LabelSpec CauseLabel() {
  LabelSpec label{"cause", {}};
  for (const truth::CauseInfo& cause : truth::Causes()) label.values.emplace_back(cause.name);
  return label;
}

void AddRequests(std::vector<MetricSpec>& table) {
  const auto add = [&table](const char* name, MetricType type, const char* help,
                            std::vector<LabelSpec> labels, Buckets buckets = {}) {
    table.push_back({name, type, Owner::kGateway, help, std::move(labels), std::move(buckets)});
  };
  add("spillway_requests_total", kCounter, "Finished requests by endpoint and outcome.",
      {kModel, kEndpoint, kOutcome});
  add("spillway_request_duration_seconds", kHistogram, "Whole request, arrival to last byte.",
      {kModel, kEndpoint}, kRequestBuckets);
  add("spillway_time_to_first_token_seconds", kHistogram, "Arrival to the first token handed to the client.",
      {kModel}, kFirstTokenBuckets);
  add("spillway_inter_token_latency_seconds", kHistogram,
      "Each gap between two tokens of a request; stalls show here.", {kModel}, kTokenBuckets);
  add("spillway_time_per_output_token_seconds", kHistogram,
      "Mean time per token after the first, one value a request.", {kModel}, kTokenBuckets);
  add("spillway_request_queue_seconds", kHistogram, "Admission until the first prompt row is computed.",
      {kModel}, kFirstTokenBuckets);
  add("spillway_request_prefill_seconds", kHistogram, "First prompt row computed until the first token.",
      {kModel}, kFirstTokenBuckets);
  add("spillway_request_decode_seconds", kHistogram, "First token until the last.", {kModel},
      kRequestBuckets);
  add("spillway_prompt_tokens_total", kCounter, "Prompt tokens of finished requests.", {kModel});
  add("spillway_generated_tokens_total", kCounter, "Generated tokens of finished requests.", {kModel});
  add("spillway_request_prompt_tokens", kHistogram, "Prompt tokens of a request.", {kModel},
      kTokenCountBuckets);
  add("spillway_request_generated_tokens", kHistogram, "Generated tokens of a request.", {kModel},
      kTokenCountBuckets);
  add("spillway_requests_running", kGauge, "Requests that hold pages and are being computed.", {kModel});
  add("spillway_requests_waiting", kGauge, "Requests accepted and waiting for pages.", {kModel});
  add("spillway_requests_rejected_total", kCounter, "Requests refused before they were accepted, by reason.",
      {kReason});
  add("spillway_preemptions_total", kCounter, "Sequences that gave up their pages to be recomputed later.",
      {kModel});
}

void AddPipeline(std::vector<MetricSpec>& table) {
  const auto add = [&table](const char* name, MetricType type, const char* help,
                            std::vector<LabelSpec> labels, Buckets buckets = {}) {
    table.push_back({name, type, Owner::kGateway, help, std::move(labels), std::move(buckets)});
  };
  add("spillway_hop_duration_seconds", kHistogram,
      "Parts of one stage's call; the four components sum to the hop. Queue, compute and serialize are "
      "reported by the "
      "worker, transport is the rest.",
      {kStage, kPhase, {"component", {"queue", "compute", "serialize", "transport"}}}, kHopBuckets);
  add("spillway_hop_payload_bytes_total", kCounter, "Activation bytes sent to and received from a stage.",
      {kStage, {"direction", {"sent", "received"}}, kPhase});
  add("spillway_hop_errors_total", kCounter, "Failed hops by gRPC code.", {kStage, kCode});
  add("spillway_hop_inflight", kGauge, "Micro-batches sent to a stage and not answered.", {kStage});
  add("spillway_pipeline_stall_seconds_total", kCounter,
      "Time a stage was idle while at least one sequence was in flight.", {kStage});
  add("spillway_workers", kGauge, "Configured workers by state.",
      {kStage, {"state", {"ready", "draining", "degraded", "unreachable", "incompatible"}}});
  add("spillway_worker_last_heartbeat_timestamp_seconds", kGauge, "When a worker last answered (Unix time).",
      {kStage, {"peer", {}}});
  add("spillway_layers", kGauge, "Layers that workers hold now.", {kModel, kStage, kMemory});
  add("spillway_layers_planned", kGauge, "Layers that the plan gives to workers.", {kModel, kStage, kMemory});
  add("spillway_weights_bytes", kGauge, "Bytes of weights by the memory that holds them.", {kModel, kMemory});
}

void AddWorker(std::vector<MetricSpec>& table) {
  const auto add = [&table](const char* name, MetricType type, const char* help,
                            std::vector<LabelSpec> labels, Buckets buckets = {}) {
    table.push_back({name, type, Owner::kWorker, help, std::move(labels), std::move(buckets)});
  };
  add("spillway_stage_compute_seconds", kHistogram, "One forward pass through this stage.", {kStage, kPhase},
      kHopBuckets);
  add("spillway_stage_busy_seconds_total", kCounter, "Time spent computing; its rate is the utilisation.",
      {kStage});
  add("spillway_stage_inflight", kGauge, "Micro-batches received and not answered.", {kStage});
  add("spillway_stage_batch_tokens", kHistogram, "Rows of a micro-batch.", {kStage}, kBatchBuckets);
  add("spillway_stage_weight_read_bytes_total", kCounter, "Bytes of weights read by forward passes.",
      {kStage, kDevice});
  add("spillway_stage_layers_planned", kGauge, "Layers the plan gives to this worker.", {kStage, kDevice});
  add("spillway_stage_layers_loaded", kGauge, "Layers this worker holds.", {kStage, kDevice});
  add("spillway_stage_layer_steps_total", kCounter,
      "Layers times rows executed on the device, counted where kernels are launched.", {kStage, kDevice});
  add("spillway_kv_cache_utilization_ratio", kGauge, "Used pages of the state pool, 0 to 1.", {kStage});
  add("spillway_kv_cache_capacity_tokens", kGauge, "Tokens the state pool can hold.", {kStage});
  add("spillway_device_memory_purpose_bytes", kGauge, "Bytes this worker has allocated, by purpose.",
      {kDevice, PurposeLabel()});
  add("spillway_device_memory_budget_bytes", kGauge, "Bytes this worker may allocate; +Inf without a budget.",
      {kDevice});
  add("spillway_device_allocation_failures_total", kCounter,
      "Allocations that the budget or the device refused.", {kDevice});
  add("spillway_state", kGauge, "1 for the state the worker is in.",
      {{"state", {"starting", "loading", "ready", "degraded", "draining"}}});
  add("spillway_fallback_active", kGauge,
      "1 while the worker does not run as planned, by cause (docs/runbook.md) and extent.",
      {CauseLabel(), kExtent});
  add("spillway_fallback_transitions_total", kCounter,
      "Times the worker entered a fallback, by cause and extent.", {CauseLabel(), kExtent});
  add("spillway_model_info", kGauge, "1; the model this worker holds a part of.",
      {kModel, {"architecture", {}}, {"quantization", {}}, {"layers", {}}, {"context", {}}});
}

void AddMonitor(std::vector<MetricSpec>& table) {
  const auto add = [&table](const char* name, MetricType type, const char* help,
                            std::vector<LabelSpec> labels) {
    table.push_back({name, type, Owner::kMonitor, help, std::move(labels), {}});
  };
  add("spillway_device_memory_total_bytes", kGauge,
      "Memory of the device as the system states it; on the host what the cgroup or the machine allows.",
      {kDevice});
  add("spillway_device_memory_used_bytes", kGauge, "Memory in use on the device, by all processes.",
      {kDevice});
  add("spillway_device_memory_free_bytes", kGauge, "Memory still available on the device.", {kDevice});
  add("spillway_device_present", kGauge,
      "1 when the machine has such a device (from PCI and the driver's files).", {kDevice});
  add("spillway_monitor_worker_up", kGauge, "1 when the worker answered the last Describe.", {kWorker});
  add("spillway_monitor_worker_fallback_active", kGauge,
      "1 while the monitor judges the worker to be in a fallback.", {kWorker, CauseLabel()});
  add("spillway_monitor_transitions_total", kCounter, "Changes of the monitor's verdict on a worker.",
      {kWorker});
  add("spillway_monitor_worker_layers_planned", kGauge, "Layers the plan gives to the worker.", {kWorker});
  add("spillway_monitor_worker_layers_executed", kGauge,
      "Layers a row really passed through on the worker (layer-steps over rows); what is loaded until a row "
      "came.",
      {kWorker});
  add("spillway_monitor_gateway_up", kGauge, "1 when the gateway's Cluster service answered the last time.",
      {});
  const LabelSpec engine = {"engine", {}};
  add("spillway_watched_engine_up", kGauge, "1 when the watched engine answered the last time.", {engine});
  add("spillway_watched_vram_share_ratio", kGauge,
      "Share of the engine's least resident model that is in VRAM, 0 to 1; 1 while none is loaded or nobody "
      "knows.",
      {engine});
  add("spillway_watched_fallback_active", kGauge,
      "1 while the monitor judges the watched engine to be in a fallback.", {engine, CauseLabel()});
  add("spillway_monitor_rounds_total", kCounter, "Rounds in which all workers were asked.", {});
}

void AddEvery(std::vector<MetricSpec>& table) {
  const auto add = [&table](const char* name, MetricType type, const char* help,
                            std::vector<LabelSpec> labels = {}) {
    table.push_back({name, type, Owner::kEvery, help, std::move(labels), {}});
  };
  add("spillway_build_info", kGauge, "1; which program this is.", {{"service", {}}, {"version", {}}});
  add("process_cpu_seconds_total", kCounter, "User and system CPU time spent.");
  add("process_resident_memory_bytes", kGauge, "Resident memory.");
  add("process_virtual_memory_bytes", kGauge, "Virtual memory.");
  add("process_open_fds", kGauge, "Open file descriptors.");
  add("process_start_time_seconds", kGauge, "Start of the process (Unix time).");
  add("process_major_faults_total", kCounter,
      "Page faults that had to read from disk; mapped weights pushed out of memory show here.");
}

}  // namespace

const std::vector<MetricSpec>& Catalogue() {
  static const std::vector<MetricSpec> table = [] {
    std::vector<MetricSpec> rows;
    AddRequests(rows);
    AddPipeline(rows);
    AddWorker(rows);
    AddMonitor(rows);
    AddEvery(rows);
    return rows;
  }();
  return table;
}

const MetricSpec* FindMetric(std::string_view name) {
  const auto& table = Catalogue();
  const auto found =
      std::find_if(table.begin(), table.end(), [name](const MetricSpec& m) { return m.name == name; });
  return found == table.end() ? nullptr : &*found;
}

std::string_view MetricTypeName(MetricType type) {
  switch (type) {
    case kCounter:
      return "counter";
    case kGauge:
      return "gauge";
    case kHistogram:
      return "histogram";
  }
  return "";
}

std::string_view OwnerName(Owner owner) {
  switch (owner) {
    case Owner::kGateway:
      return "gateway";
    case Owner::kWorker:
      return "worker";
    case Owner::kMonitor:
      return "monitor";
    case Owner::kEvery:
      return "every process";
  }
  return "";
}

}  // namespace spillway::telemetry
