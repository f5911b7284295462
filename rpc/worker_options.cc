// Flags by CLI11, whose exceptions end here.
#include "rpc/worker_options.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "engine/base/status.h"
#include "engine/plan/plan.h"
#include "telemetry/registry.h"
#include "truth/device_checks.h"

namespace spillway::rpc {

namespace {

constexpr int kUsage = 2;
constexpr int kNamedCause = 4;

int UsageError(const WorkerProgram& program, const std::string& message) {
  fmt::print(stderr, "{}: {}\nRun {} --help for the options.\n", program.name, message, program.name);
  return kUsage;
}

// Why the machine's device cannot be used whatever the build, waiting for one that is not ready yet.
std::optional<std::string> DeviceObstacle(uint32_t index) {
  const device::GpuOptions gpu = device::GpuOptionsFromEnvironment();
  truth::DeviceNeeds needs;
  needs.device = index;
  const truth::Examination examined =
      truth::ExamineDevices([&gpu] { return device::ReadGpu(gpu); }, needs, truth::kStartPatience);
  const truth::DeviceCheck* obstacle = truth::FirstObstacle(examined.checks);
  if (obstacle == nullptr) return std::nullopt;
  return truth::Describe(*obstacle);
}

// What --device asks for that this build or this worker cannot do; nullopt when all is well.
std::optional<int> CheckDevice(const WorkerProgram& program, const WorkerFlags& flags) {
  if (program.role != "gpu") return std::nullopt;
  if (flags.device.empty()) {
    return UsageError(
        program,
        "--device is missing: cuda:N for a GPU, or host to run the GPU worker's layers on the CPU with a "
        "VRAM budget. The host device must be asked for; it is never chosen silently");
  }
  if (flags.device == "host") {
    if (flags.budget_bytes.has_value()) return std::nullopt;
    return UsageError(program,
                      "--device host needs --vram-budget: a host has no VRAM to take the limit from");
  }
  uint32_t index = 0;
  const std::string digits = flags.device.rfind("cuda:", 0) == 0 ? flags.device.substr(5) : "";
  if (digits.empty() || digits.size() > 3 || !CLI::detail::lexical_cast(digits, index)) {
    return UsageError(program, fmt::format("--device {}: it is host or cuda:N", flags.device));
  }
  if (const auto obstacle = DeviceObstacle(index)) {
    fmt::print(stderr, "{}: --device {}: {}\n", program.name, flags.device, *obstacle);
    return kNamedCause;
  }
  const truth::CauseInfo* cause = truth::FindCause("backend_missing");
  fmt::print(stderr, "{}: --device {}: cause={} ({}) {} Remedy: {} This build has no CUDA backend.\n",
             program.name, flags.device, cause->name, cause->id, cause->meaning, cause->remedy);
  return kNamedCause;
}

}  // namespace

ParsedFlags ParseWorkerFlags(const WorkerProgram& program, int argc, char** argv) {
  ParsedFlags parsed;
  WorkerFlags& flags = parsed.flags;
  const bool gpu = program.role == "gpu";
  const std::string budget_flag = gpu ? "--vram-budget" : "--ram-budget";
  flags.listen = program.default_listen;
  flags.metrics = program.default_metrics;
  if (!gpu) flags.device = "host";
  std::string budget;
  CLI::App app(gpu ? "Spillway GPU worker: the resident layers and the output head of a model"
                   : "Spillway CPU worker: the layers of a model that do not fit the GPU",
               program.name);
  app.set_version_flag("--version", fmt::format("{} {}", program.name, telemetry::kVersion));
  app.add_option("--model", flags.model, "The model file (GGUF)")->required();
  app.add_option("--listen", flags.listen, "gRPC address; port 0 = any")->capture_default_str();
  app.add_option("--metrics", flags.metrics, "HTTP address of /metrics, /healthz, /readyz; port 0 = any")
      ->capture_default_str();
  if (gpu) app.add_option("--device", flags.device, "host | cuda:N");
  app.add_option(
      budget_flag, budget,
      gpu ? "VRAM it may allocate, such as 8GiB" : "RAM it may allocate (default: what is available)");
  app.add_option("--threads", flags.threads, "Compute threads the worker offers (default: all processors)")
      ->check(CLI::Range(1, 1024));
  app.add_option("--port-file", flags.port_file, "Writes the chosen addresses there as JSON once it listens");
  app.add_option("--insecure", flags.insecure, "Lets a listener bind beyond loopback without TLS")
      ->check(CLI::IsMember({"worker"}))
      ->type_name("NAME");
  app.add_flag("--exit-with-parent", flags.exit_with_parent, "Drains and ends when the parent process dies");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    parsed.exit_code = app.exit(error) == 0 ? 0 : kUsage;
    return parsed;
  }
  if (!budget.empty()) {
    const absl::StatusOr<uint64_t> bytes = ParseBytes(budget);
    if (!bytes.ok() || *bytes == 0) {
      parsed.exit_code =
          UsageError(program, fmt::format("{} {}: {}", budget_flag, budget,
                                          bytes.ok() ? "no bytes at all" : MessageOf(bytes.status())));
      return parsed;
    }
    flags.budget_bytes = *bytes;
  }
  parsed.exit_code = CheckDevice(program, flags);
  return parsed;
}

}  // namespace spillway::rpc
