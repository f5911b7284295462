// The board as a plain page: no script, no external asset, narrow enough for a phone. Every text from outside
// is escaped.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "engine/base/ledger.h"
#include "engine/stage/units_text.h"
#include "monitor/page/board.h"
#include "rpc/convert.h"

namespace spillway::monitor {
namespace {

constexpr std::string_view kHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="2"><title>Spillway</title><style>
:root{color-scheme:light dark;--line:#8884;--good:#2a7d3f;--bad:#c0392b;--wait:#b7791f}
body{font:15px/1.45 system-ui,sans-serif;margin:0 auto;padding:.8rem;max-width:70rem}
h1{font-size:1.25rem;margin:.2rem 0}h2{font-size:1.05rem;margin:1.2rem 0 .3rem}p{margin:.3rem 0}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%}
th,td{padding:.25rem .6rem;border-bottom:1px solid var(--line);text-align:left;white-space:nowrap}
td.wide{white-space:normal;min-width:14rem}th.n,td.n{text-align:right;font-variant-numeric:tabular-nums}
.tag{color:#fff;border-radius:.3rem;padding:.05rem .45rem;background:var(--wait)}
.good{background:var(--good)}.bad{background:var(--bad)}
@media(max-width:40rem){th,td{padding:.25rem .4rem;white-space:normal}td.n{white-space:nowrap}td.wide{min-width:9rem}}
.alarm{border-left:.3rem solid var(--bad);padding:.3rem .7rem;margin:.5rem 0}small{opacity:.75}
</style></head><body>
)";

std::string Escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string Bytes(uint64_t bytes) {
  constexpr double kMiB = 1024.0 * 1024.0;
  if (bytes == 0) return "0";
  if (static_cast<double>(bytes) < kMiB) return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / 1024);
  if (static_cast<double>(bytes) < 1024 * kMiB)
    return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / kMiB);
  return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (1024 * kMiB));
}

std::string Tag(const std::string& state) {
  const bool good = state == "ready";
  const bool bad =
      state == "unreachable" || state == "degraded" || state.find("fallback") != std::string::npos;
  return fmt::format("<span class=\"tag{}\">{}</span>", good ? " good" : bad ? " bad" : "", Escape(state));
}

std::string UnitsText(const v1::DescribeReply& reply) {
  if (!reply.has_expected()) return "no plan yet";
  const v1::StageUnits& units = reply.expected().units();
  return DescribeUnits({units.layer_begin(), units.layer_end(), units.embedding(), units.head()});
}

struct Headline {
  std::string state;
  std::string text;
};

// The worst that is known: nobody who looks at the first line only may take an alarm for health.
Headline HeadlineOf(const Board& board) {
  if (board.gateway_configured && !board.gateway_up) {
    return {"unreachable", "The gateway does not answer: " + board.gateway_error};
  }
  const bool ready = board.cluster.ready();
  std::string alarms;
  for (const WorkerView& worker : board.workers) {
    if (!worker.verdict.fallback()) continue;
    alarms += fmt::format("{}{}: {}", alarms.empty() ? "" : ", ", worker.target.name, worker.verdict.cause);
  }
  for (const EngineView& engine : board.engines) {
    if (!engine.verdict.fallback()) continue;
    alarms += fmt::format("{}{}: {}", alarms.empty() ? "" : ", ", engine.name, engine.verdict.cause);
  }
  const std::string serving = !board.gateway_configured ? "No gateway is configured for this monitor."
                              : ready                   ? "Requests are served."
                                                        : "Requests are refused: " + board.cluster.detail();
  if (!alarms.empty()) return {"degraded", alarms + ". " + serving};
  return {ready || !board.gateway_configured ? "ready" : "not ready", serving};
}

void AppendGateway(const Board& board, std::string* out) {
  const v1::ClusterStatus& cluster = board.cluster;
  *out += fmt::format("<h1>{}</h1>\n", cluster.model().empty() ? "Spillway" : Escape(cluster.model()));
  const Headline headline = HeadlineOf(board);
  *out += fmt::format("<p>{} {}</p>\n", Tag(headline.state), Escape(headline.text));
  if (!board.gateway_up) return;
  *out += fmt::format(
      "<p>{} layers ({}), context {} × {} sequences; {} running, {} waiting; {:.1f} tokens/s over the last "
      "minute</p>\n",
      cluster.n_layer(), Escape(cluster.architecture()), cluster.n_ctx(), cluster.parallel(),
      cluster.running(), cluster.waiting(), cluster.last_minute_tokens_per_second());
}

void AppendAlarm(const std::string& name, const truth::Verdict& verdict, double since, std::string* out) {
  if (!verdict.fallback()) return;
  *out +=
      fmt::format("<div class=\"alarm\"><b>{}: {} fallback, {}</b> since {}<br>{}<br>What to do: {}</div>\n",
                  Escape(name), truth::ExtentName(verdict.extent), Escape(verdict.cause), TimeText(since),
                  Escape(verdict.detail), Escape(verdict.remedy));
}

void AppendAlarms(const Board& board, std::string* out) {
  for (const WorkerView& worker : board.workers) {
    AppendAlarm(worker.target.name, worker.verdict, worker.since_unix_seconds, out);
  }
  for (const EngineView& engine : board.engines) {
    AppendAlarm(engine.name, engine.verdict, engine.since_unix_seconds, out);
  }
}

void AppendPlacement(const Board& board, std::string* out) {
  *out +=
      "<h2>Placement</h2><div "
      "class=\"scroll\"><table><tr><th>worker</th><th>state</th><th>device</th><th>holds</th>"
      "<th class=\"n\">planned</th><th class=\"n\">loaded</th><th "
      "class=\"n\">executed</th><th>cause</th></tr>\n";
  for (const WorkerView& worker : board.workers) {
    const v1::DescribeReply& reply = worker.reply;
    *out += fmt::format(
        "<tr><td>{}<br><small>{}</small></td><td>{}</td><td>{}<br><small>{} {}</small></td><td>{}</td>"
        "<td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{:.4g}</td><td>{}</td></tr>\n",
        Escape(worker.target.name), Escape(worker.target.address), Tag(StateOf(worker)),
        Escape(reply.profile().device()), Escape(reply.profile().name()), Escape(reply.profile().isa()),
        UnitsText(reply), PlannedLayers(reply), LoadedLayers(reply), worker.layers_executed,
        worker.verdict.fallback() ? Escape(worker.verdict.cause) : "–");
  }
  *out += "</table></div>\n";
}

// Purposes that any worker has or plans bytes for.
std::vector<size_t> UsedPurposes(const Board& board) {
  std::vector<size_t> used;
  for (size_t i = 0; i < kPurposes; ++i) {
    const bool any = std::any_of(board.workers.begin(), board.workers.end(), [i](const WorkerView& worker) {
      return rpc::BytesFromProto(worker.reply.expected().memory()).bytes[i] > 0 ||
             rpc::BytesFromProto(worker.reply.allocated()).bytes[i] > 0;
    });
    if (any) used.push_back(i);
  }
  return used;
}

void AppendMemory(const Board& board, std::string* out) {
  *out += "<h2>Memory by purpose</h2><div class=\"scroll\"><table><tr><th>worker</th>";
  const std::vector<size_t> purposes = UsedPurposes(board);
  for (const size_t i : purposes) *out += fmt::format("<th class=\"n\">{}</th>", kPurposeNames[i]);
  *out += "<th class=\"n\">total</th><th class=\"n\">budget</th></tr>\n";
  for (const WorkerView& worker : board.workers) {
    const PurposeBytes planned = rpc::BytesFromProto(worker.reply.expected().memory());
    const PurposeBytes allocated = rpc::BytesFromProto(worker.reply.allocated());
    *out += fmt::format("<tr><td>{}</td>", Escape(worker.target.name));
    for (const size_t i : purposes) {
      const bool differs = worker.reply.has_loaded() && planned.bytes[i] != allocated.bytes[i];
      *out +=
          fmt::format("<td class=\"n\">{}{}</td>", Bytes(allocated.bytes[i]),
                      differs ? fmt::format("<br><small>planned {}</small>", Bytes(planned.bytes[i])) : "");
    }
    const uint64_t budget = worker.reply.profile().budget_bytes();
    *out += fmt::format("<td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n", Bytes(allocated.Total()),
                        budget == 0 || budget == Ledger::kUnlimited ? "–" : Bytes(budget));
  }
  *out += "</table></div>\n";
}

void AppendEngines(const Board& board, std::string* out) {
  if (board.engines.empty()) return;
  *out +=
      "<h2>Other engines</h2><div class=\"scroll\"><table><tr><th>engine</th><th>state</th><th>model</th>"
      "<th class=\"n\">memory</th><th class=\"n\">in VRAM</th><th "
      "class=\"n\">context</th><th>cause</th></tr>\n";
  for (const EngineView& engine : board.engines) {
    const std::string state = engine.name.empty() ? "connecting" : EngineStateOf(engine);
    std::vector<truth::EngineModel> models = engine.facts.models;
    if (models.empty()) models.push_back({"–", 0, std::nullopt, 0, 0});
    for (const truth::EngineModel& model : models) {
      const std::optional<double> share = truth::VramShare(engine.facts, model);
      *out += fmt::format(
          "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td "
          "class=\"n\">{}</td><td>{}</td></tr>\n",
          Escape(engine.name), Tag(state), Escape(model.name),
          model.total_bytes > 0 ? Bytes(model.total_bytes) : "–",
          share.has_value() ? fmt::format("{:.0f} %", 100 * *share) : "unknown",
          model.context > 0 ? std::to_string(model.context) : "–",
          engine.verdict.fallback() ? Escape(engine.verdict.cause) : "–");
    }
  }
  *out += "</table></div>\n";
}

void AppendEvents(const Board& board, std::string* out) {
  *out += "<h2>Events</h2>\n";
  if (board.events.empty()) {
    *out += "<p>None: everything has run as planned since this monitor started.</p>\n";
    return;
  }
  *out +=
      "<div class=\"scroll\"><table><tr><th>time</th><th>worker</th><th>change</th><th>detail</th></tr>\n";
  for (const Event& event : board.events) {
    *out += fmt::format("<tr><td>{}</td><td>{}</td><td>{} → {}</td><td class=\"wide\">{}</td></tr>\n",
                        TimeText(event.unix_seconds), Escape(event.worker),
                        event.from.empty() ? "as planned" : Escape(event.from),
                        event.to.empty() ? "as planned" : Escape(event.to), Escape(event.detail));
  }
  *out += "</table></div>\n";
}

void AppendMachine(const Board& board, std::string* out) {
  *out += fmt::format(
      "<h2>Machine</h2><p>{}, {} cores allowed, memory {} of {} available. NVIDIA device: {}</p>\n",
      Escape(board.host.cpu_name), board.host.cpus_allowed, Bytes(board.host.AvailableBytes()),
      Bytes(board.host.TotalBytes()),
      board.nvidia.present()
          ? Escape("present, driver " + (board.nvidia.driver_version.empty() ? std::string("not loaded")
                                                                             : board.nvidia.driver_version))
          : "none");
}

}  // namespace

std::string StateOf(const WorkerView& worker) {
  if (!worker.reachable)
    return worker.ever_reached || worker.verdict.fallback() ? "unreachable" : "connecting";
  if (worker.verdict.fallback()) return fmt::format("{} fallback", truth::ExtentName(worker.verdict.extent));
  return worker.reply.state().empty() ? "unknown" : worker.reply.state();
}

std::string EngineStateOf(const EngineView& engine) {
  if (!engine.facts.reachable) return "unreachable";
  if (engine.verdict.fallback()) return fmt::format("{} fallback", truth::ExtentName(engine.verdict.extent));
  return "ready";
}

std::string TimeText(double unix_seconds) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S}Z", fmt::gmtime(static_cast<std::time_t>(unix_seconds)));
}

std::string RenderHtml(const Board& board) {
  std::string out(kHead);
  AppendGateway(board, &out);
  AppendAlarms(board, &out);
  AppendPlacement(board, &out);
  AppendMemory(board, &out);
  AppendEngines(board, &out);
  AppendEvents(board, &out);
  AppendMachine(board, &out);
  out += fmt::format(
      "<p><small>As of {}. <a href=\"/status.json\">status.json</a> <a href=\"/metrics\">metrics</a>"
      "</small></p></body></html>\n",
      TimeText(board.unix_seconds));
  return out;
}

}  // namespace spillway::monitor
