// The board as JSON, for scripts and for those who draw their own page.
#include <nlohmann/json.hpp>

#include "engine/base/ledger.h"
#include "monitor/page/board.h"
#include "rpc/convert.h"

namespace spillway::monitor {
namespace {

using Json = nlohmann::ordered_json;

Json MemoryJson(const v1::DescribeReply& reply) {
  const PurposeBytes planned = rpc::BytesFromProto(reply.expected().memory());
  const PurposeBytes allocated = rpc::BytesFromProto(reply.allocated());
  Json json = Json::object();
  for (size_t i = 0; i < kPurposes; ++i) {
    json[std::string(kPurposeNames[i])] = {{"planned", planned.bytes[i]}, {"allocated", allocated.bytes[i]}};
  }
  return json;
}

Json WorkerJson(const WorkerView& worker) {
  const v1::DescribeReply& reply = worker.reply;
  const v1::StageUnits& units = reply.expected().units();
  return {{"name", worker.target.name},
          {"address", worker.target.address},
          {"up", worker.reachable},
          {"error", worker.error},
          {"state", StateOf(worker)},
          {"role", reply.role()},
          {"device", reply.profile().device()},
          {"device_name", reply.profile().name()},
          {"isa", reply.profile().isa()},
          {"threads", reply.profile().threads()},
          {"layers",
           {{"begin", units.layer_begin()},
            {"end", units.layer_end()},
            {"planned", PlannedLayers(reply)},
            {"loaded", LoadedLayers(reply)},
            {"executed", worker.layers_executed}}},
          {"embedding", units.embedding()},
          {"head", units.head()},
          {"memory", MemoryJson(reply)},
          {"budget_bytes", reply.profile().budget_bytes()},
          {"resident_bytes", reply.resident_bytes()},
          {"rows", reply.rows()},
          {"layer_steps", reply.layer_steps()},
          {"open_sequences", reply.open_sequences()},
          {"free_pages", reply.free_pages()},
          {"fallback", worker.verdict.fallback()},
          {"cause", worker.verdict.cause},
          {"extent", truth::ExtentName(worker.verdict.extent)},
          {"detail", worker.verdict.detail},
          {"remedy", worker.verdict.remedy},
          {"since", worker.since_unix_seconds},
          {"version", reply.version()}};
}

Json GatewayJson(const Board& board) {
  if (!board.gateway_configured) return nullptr;
  const v1::ClusterStatus& cluster = board.cluster;
  return {{"up", board.gateway_up},
          {"error", board.gateway_error},
          {"ready", board.gateway_up && cluster.ready()},
          {"detail", cluster.detail()},
          {"model", cluster.model()},
          {"architecture", cluster.architecture()},
          {"n_layer", cluster.n_layer()},
          {"n_ctx", cluster.n_ctx()},
          {"parallel", cluster.parallel()},
          {"running", cluster.running()},
          {"waiting", cluster.waiting()},
          {"prompt_tokens", cluster.prompt_tokens()},
          {"generated_tokens", cluster.generated_tokens()},
          {"last_minute_tokens_per_second", cluster.last_minute_tokens_per_second()}};
}

Json EngineJson(const EngineView& engine) {
  Json models = Json::array();
  for (const truth::EngineModel& model : engine.facts.models) {
    const std::optional<double> share = truth::VramShare(engine.facts, model);
    models.push_back({{"model", model.name},
                      {"total_bytes", model.total_bytes},
                      {"vram_share", share.has_value() ? Json(*share) : Json(nullptr)},
                      {"context", model.context}});
  }
  return {{"name", engine.name},
          {"up", engine.facts.reachable},
          {"error", engine.facts.error},
          {"state", EngineStateOf(engine)},
          {"expected_share", engine.facts.expected_share},
          {"models", models},
          {"fallback", engine.verdict.fallback()},
          {"cause", engine.verdict.cause},
          {"extent", truth::ExtentName(engine.verdict.extent)},
          {"detail", engine.verdict.detail},
          {"remedy", engine.verdict.remedy},
          {"since", engine.since_unix_seconds}};
}

}  // namespace

std::string RenderJson(const Board& board) {
  Json workers = Json::array(), engines = Json::array(), events = Json::array(), displays = Json::array();
  for (const WorkerView& worker : board.workers) workers.push_back(WorkerJson(worker));
  for (const EngineView& engine : board.engines) {
    if (!engine.name.empty()) engines.push_back(EngineJson(engine));
  }
  for (const Event& event : board.events) {
    events.push_back({{"time", event.unix_seconds},
                      {"worker", event.worker},
                      {"from", event.from},
                      {"to", event.to},
                      {"extent", event.extent},
                      {"detail", event.detail},
                      {"remedy", event.remedy}});
  }
  for (const device::PciDisplay& display : board.nvidia.displays) displays.push_back(display.address);
  const Json json = {{"time", board.unix_seconds},
                     {"gateway", GatewayJson(board)},
                     {"workers", workers},
                     {"engines", engines},
                     {"events", events},
                     {"host",
                      {{"cpu", board.host.cpu_name},
                       {"cpus_allowed", board.host.cpus_allowed},
                       {"memory_total_bytes", board.host.TotalBytes()},
                       {"memory_available_bytes", board.host.AvailableBytes()}}},
                     {"nvidia",
                      {{"present", board.nvidia.present()},
                       {"driver", board.nvidia.driver_version},
                       {"displays", displays}}}};
  // A peer's text may be no UTF-8; replacing is better than not answering.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace spillway::monitor
