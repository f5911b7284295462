// See doctor_report.h.
#include "cli/doctor/doctor_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/text_table.h"
#include "engine/plan/plan.h"

namespace spillway::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFirstCauseCode = 10;

std::string HostText(const DoctorFindings& findings) {
  const device::HostFacts& host = findings.host;
  const std::string quota = host.cpu_quota > 0 ? fmt::format("{:g} cores' time", host.cpu_quota) : "none";
  const std::string limit = host.cgroup_limit_bytes > 0 ? FormatBytesHuman(host.cgroup_limit_bytes) : "none";
  return fmt::format(
      "host: {}, {} of {} processors, kernels {}\n"
      "memory: {}, {} available; limits of the cgroup: memory {}, processors {}\n",
      host.cpu_name.empty() ? "unknown processor" : host.cpu_name, host.cpus_allowed, findings.processors,
      findings.isa, FormatBytesHuman(host.TotalBytes()), FormatBytesHuman(host.AvailableBytes()), limit,
      quota);
}

std::string DriverText(const device::GpuFacts& facts) {
  const std::string version =
      facts.files.driver_version.empty() ? facts.nvml.driver_version : facts.files.driver_version;
  const size_t devices = std::max(facts.cuda.devices.size(), facts.nvml.devices.size());
  return fmt::format("nvidia: driver {}, {} device(s)\n", version.empty() ? "not loaded" : version,
                     std::max(devices, facts.files.displays.size()));
}

// A field as JSON: what is not known is null.
Json FieldJson(const std::string& field) { return field.empty() ? Json() : Json(field); }
template <typename Number>
Json FieldJson(const std::optional<Number>& field) {
  return field ? Json(*field) : Json();
}

template <typename Facts>
Json FactsJson(const Facts& facts) {
  Json json = Json::object();
  VisitFields(facts, [&](const char* name, const auto& field) { json[name] = FieldJson(field); });
  return json;
}

template <typename Facts>
Json LibraryJson(const Facts& facts) {
  Json json = FactsJson(facts);
  json["failed"] = facts.failed.code ? FactsJson(facts.failed) : Json();
  json["seconds"] = facts.run.seconds;
  json["devices"] = Json::array();
  for (const auto& device : facts.devices) {
    Json row = FactsJson(device);
    row["failed"] = device.failed.code ? FactsJson(device.failed) : Json();
    json["devices"].push_back(row);
  }
  return json;
}

Json NvidiaJson(const device::GpuFacts& facts) {
  Json nodes = Json::array();
  for (const device::DeviceNode& node : facts.nodes) {
    nodes.push_back({{"path", node.path}, {"exists", node.exists}, {"open_error", node.open_error}});
  }
  Json displays = Json::array();
  for (const device::PciDisplay& display : facts.files.displays) displays.push_back(display.address);
  Json nvml = LibraryJson(facts.nvml);
  for (size_t i = 0; i < facts.nvml.devices.size(); ++i) {
    Json processes = Json::array();
    for (const device::GpuProcess& process : facts.nvml.devices[i].processes)
      processes.push_back(FactsJson(process));
    nvml["devices"][i]["processes"] = processes;
  }
  return {{"present", facts.present()},
          {"kernel_module", FieldJson(facts.files.driver_version)},
          {"pci_displays", displays},
          {"device_nodes", nodes},
          {"cuda_visible_devices", FieldJson(facts.cuda_visible_devices)},
          {"suspended_seconds", facts.suspended_seconds},
          {"cuda", LibraryJson(facts.cuda)},
          {"nvml", nvml}};
}

Json HostJson(const DoctorFindings& findings) {
  const device::HostFacts& host = findings.host;
  return {{"cpu", host.cpu_name},
          {"isa", findings.isa},
          {"processors", findings.processors},
          {"processors_allowed", host.cpus_allowed},
          {"cpu_quota", host.cpu_quota > 0 ? Json(host.cpu_quota) : Json()},
          {"memory_total_bytes", host.TotalBytes()},
          {"memory_available_bytes", host.AvailableBytes()},
          {"cgroup_limit_bytes", host.cgroup_limit_bytes > 0 ? Json(host.cgroup_limit_bytes) : Json()}};
}

Json CheckJson(const truth::DeviceCheck& check) {
  const truth::CauseInfo* cause = truth::FindCause(check.cause);
  return {{"name", check.name},
          {"ok", check.ok()},
          {"cause", cause == nullptr ? Json() : Json(cause->name)},
          {"id", cause == nullptr ? Json() : Json(cause->id)},
          {"detail", check.detail},
          {"remedy", cause == nullptr ? Json() : Json(cause->remedy)}};
}

}  // namespace

int DoctorExitCode(const DoctorFindings& findings) {
  const truth::DeviceCheck* problem = truth::FirstProblem(findings.gpu.checks);
  if (problem == nullptr) return 0;
  return kFirstCauseCode + static_cast<int>(truth::FindCause(problem->cause) - truth::Causes().data());
}

std::string DoctorText(const DoctorFindings& findings) {
  const device::GpuFacts& facts = findings.gpu.facts;
  std::string text = HostText(findings);
  if (!facts.present()) {
    return text + "nvidia: no NVIDIA device in this machine; the GPU worker can run as --device host\n";
  }
  text += DriverText(facts) + "\n";
  TextTable table({"CHECK", "RESULT", "WHAT"});
  for (const truth::DeviceCheck& check : findings.gpu.checks) {
    table.Add({check.name, check.ok() ? "ok" : check.cause, check.detail});
  }
  text += table.Render();
  const truth::DeviceCheck* problem = truth::FirstProblem(findings.gpu.checks);
  if (problem == nullptr) return text + "\nAll is well.\n";
  if (findings.gpu.attempts > 1) text += fmt::format("\nTried {} times.", findings.gpu.attempts);
  return text + "\n" + truth::Describe(*problem) + "\n";
}

Json DoctorJson(const DoctorFindings& findings) {
  const truth::DeviceCheck* problem = truth::FirstProblem(findings.gpu.checks);
  Json checks = Json::array();
  for (const truth::DeviceCheck& check : findings.gpu.checks) checks.push_back(CheckJson(check));
  const truth::CauseInfo* cause = problem == nullptr ? nullptr : truth::FindCause(problem->cause);
  return {{"ok", problem == nullptr},
          {"exit_code", DoctorExitCode(findings)},
          {"cause", cause == nullptr ? Json() : Json(cause->name)},
          {"id", cause == nullptr ? Json() : Json(cause->id)},
          {"detail", problem == nullptr ? Json() : Json(problem->detail)},
          {"remedy", cause == nullptr ? Json() : Json(cause->remedy)},
          {"attempts", findings.gpu.attempts},
          {"host", HostJson(findings)},
          {"nvidia", NvidiaJson(findings.gpu.facts)},
          {"checks", checks}};
}

}  // namespace spillway::cli
