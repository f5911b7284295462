// A round: ask, judge, log, export, show.
#include "monitor/monitor.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/base/status.h"

namespace spillway::monitor {
namespace {

// Below the shortest useful interval, so that rounds keep their rhythm while a worker is dead.
constexpr std::chrono::milliseconds kDescribeDeadline{800};

double UnixNow() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

template <typename Target>
std::vector<std::string> NamesOf(const std::vector<Target>& targets) {
  std::vector<std::string> names;
  for (const Target& target : targets) names.push_back(target.name);
  return names;
}

// Written beside and renamed, so that a reader sees all of it or nothing.
absl::Status WritePortFile(const std::string& path, const std::string& address) {
  if (path.empty()) return absl::OkStatus();
  const std::string part = path + ".part";
  {
    std::ofstream out(part);
    out << nlohmann::json{{"metrics", address}}.dump() << '\n';
    if (!out.flush()) return Unavailable("cannot write the port file {}", part);
  }
  if (std::rename(part.c_str(), path.c_str()) != 0) return Unavailable("cannot write the port file {}", path);
  return absl::OkStatus();
}

// Quotes a value for a key=value line.
std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void LogTransition(const Event& event) {
  spdlog::warn("event=verdict worker={} from={} to={} extent={} detail={} remedy={}", event.worker,
               event.from.empty() ? "as_planned" : event.from, event.to.empty() ? "as_planned" : event.to,
               event.extent, Quoted(event.detail), Quoted(event.remedy));
}

}  // namespace

Monitor::Monitor(const Options& options, const device::Root& root)
    : options_(options),
      root_(root),
      registry_("monitor"),
      metrics_(registry_, NamesOf(options.workers), NamesOf(options.engines)),
      poller_(options.workers, options.gateway_admin),
      state_(options.workers, UnixNow()),
      engines_(options.engines, options.interval, options.expected_share, root),
      engine_tracks_(options.engines.size(), VerdictTrack(UnixNow())),
      engine_views_(options.engines.size()) {}

Monitor::~Monitor() = default;

absl::StatusOr<std::unique_ptr<Monitor>> Monitor::Start(const Options& options, const device::Root& root) {
  std::unique_ptr<Monitor> monitor(new Monitor(options, root));
  Monitor* raw = monitor.get();
  SPILLWAY_ASSIGN_OR_RETURN(monitor->health_,
                            telemetry::HealthServer::Start(options.metrics, monitor->registry_));
  raw->health_->SetReadiness(
      [raw] { return raw->asked_ ? std::string() : std::string("the first round is not done"); });
  raw->health_->AddPage("/", [raw] {
    return telemetry::HttpPage{200, "text/html; charset=utf-8", RenderHtml(*raw->board_.Get())};
  });
  raw->health_->AddPage("/status.json", [raw] {
    return telemetry::HttpPage{200, "application/json", RenderJson(*raw->board_.Get())};
  });
  const std::string host = options.metrics.substr(0, options.metrics.rfind(':'));
  const std::string address = fmt::format("{}:{}", host, raw->health_->port());
  SPILLWAY_RETURN_IF_ERROR(WritePortFile(options.port_file, address));
  spdlog::info("event=listening metrics={} workers={}", address, options.workers.size());
  return monitor;
}

void Monitor::JudgeEngines(double now) {
  const std::vector<std::optional<truth::EngineFacts>> facts = engines_.Facts();
  for (size_t i = 0; i < facts.size(); ++i) {
    if (!facts[i].has_value()) continue;
    EngineView& view = engine_views_[i];
    VerdictTrack& track = engine_tracks_[i];
    view.name = engines_.targets()[i].name;
    view.facts = *facts[i];
    std::optional<Event> event = track.Update(truth::JudgeEngine(view.facts), /*certain=*/false, now);
    view.verdict = track.verdict();
    view.since_unix_seconds = track.since_unix_seconds();
    double share = 1;
    for (const truth::EngineModel& model : view.facts.models) {
      share = std::min(share, truth::VramShare(view.facts, model).value_or(1));
    }
    metrics_.SetEngine(view.name, view.facts.reachable, share, view.verdict.cause);
    if (!event.has_value()) continue;
    event->worker = view.name;
    LogTransition(*event);
    events_.Add(*std::move(event));
  }
}

void Monitor::Round() {
  Sample sample = poller_.Poll(std::min(kDescribeDeadline, options_.interval));
  const double now = UnixNow();
  for (const Event& event : state_.Update(sample.workers, now)) {
    LogTransition(event);
    metrics_.Transition(event.worker);
    events_.Add(event);
  }
  JudgeEngines(now);
  for (const WorkerView& worker : state_.workers()) {
    metrics_.SetWorker(worker.target.name, worker.reachable, PlannedLayers(worker.reply),
                       worker.layers_executed);
    metrics_.SetVerdict(worker.target.name, worker.verdict.cause);
  }
  if (sample.gateway_up) cluster_ = std::move(sample.cluster);

  Board board;
  board.unix_seconds = now;
  board.gateway_configured = !options_.gateway_admin.empty();
  board.gateway_up = sample.gateway_up;
  board.gateway_error = sample.gateway_error;
  board.cluster = cluster_;
  board.workers = state_.workers();
  board.engines = engine_views_;
  board.events = events_.newest_first();
  board.host = device::ReadHost(root_);
  board.nvidia = device::ReadNvidia(root_);
  metrics_.SetGatewayUp(sample.gateway_up);
  metrics_.SetDevice("host", true, board.host.TotalBytes(), board.host.AvailableBytes());
  metrics_.SetDevice("cuda", board.nvidia.present(), 0, 0);
  metrics_.RoundDone();
  board_.Set(std::move(board));
  asked_ = true;
}

}  // namespace spillway::monitor
