// `spillway doctor`: whether this machine's devices can be used, and if not, why. Needs no model and no other
// process of ours.
#include <fmt/core.h>

#include <cstdio>
#include <memory>
#include <thread>

#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/doctor/doctor_report.h"
#include "cli/exit_code.h"
#include "engine/cpu/host_stage.h"

namespace spillway::cli {
namespace {

struct DoctorOptions {
  double deadline_seconds = 10;
  double wait_seconds = 5;
  bool json = false;
};

std::chrono::milliseconds Milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(1000 * seconds));
}

int RunDoctor(const DoctorOptions& options) {
  device::GpuOptions gpu = device::GpuOptionsFromEnvironment();
  gpu.probe.deadline = Milliseconds(options.deadline_seconds);
  DoctorFindings findings;
  findings.host = device::ReadHost(gpu.root);
  findings.isa = cpu::IsaName(cpu::DetectIsa());
  findings.processors = std::thread::hardware_concurrency();
  findings.gpu =
      truth::ExamineDevices([&gpu] { return device::ReadGpu(gpu); }, {}, Milliseconds(options.wait_seconds));
  using nlohmann::json;
  fmt::print("{}", options.json
                       ? DoctorJson(findings).dump(-1, ' ', false, json::error_handler_t::replace) + "\n"
                       : DoctorText(findings));
  if (std::fflush(stdout) != 0) return Fail(kFailed, "standard output cannot be written");
  return DoctorExitCode(findings);
}

}  // namespace

void AddDoctorCommand(CommandLine& line) {
  auto options = std::make_shared<DoctorOptions>();
  const std::function<void(double)> deadline = [options](double value) { options->deadline_seconds = value; };
  const std::function<void(double)> wait = [options](double value) { options->wait_seconds = value; };
  line.AddCommand(
      "doctor", "Check this machine's devices; exits with 10 + the number of the cause of the first problem",
      {{"--deadline", deadline,
        "Seconds that each of the driver's two libraries may take before its probe is ended (default: 10)",
        0.1, 600},
       {"--wait", wait, "Seconds to try again while a device is not ready (default: 5)", 0, 3600},
       {"--json", &options->json, "One JSON object on one line"}},
      [options] { return RunDoctor(*options); });
}

}  // namespace spillway::cli
