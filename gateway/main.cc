// spillway-gateway: options, parts in order, run until SIGTERM or SIGINT, drain.
#include <spdlog/spdlog.h>

#include <exception>
#include <iostream>

#include "engine/base/status.h"
#include "gateway/gateway.h"
#include "gateway/options.h"
#include "gateway/signals.h"
#include "telemetry/registry.h"

namespace {

// 0 ok, 1 failed, 2 usage, 3 refused by the plan.
int ExitCode(const absl::Status& status) {
  if (status.ok() || absl::IsCancelled(status)) return 0;
  return absl::IsResourceExhausted(status) ? 3 : 1;
}

int Run(const spillway::gateway::GatewayOptions& options) {
  spillway::gateway::Signals signals;  // before any thread starts
  if (options.exit_with_parent && !signals.ExitWithParent()) return 0;
  spillway::telemetry::SetUpLogging("gateway");
  auto gateway = spillway::gateway::Gateway::Start(options, [&signals] { return signals.Pending(); });
  if (!gateway.ok()) {
    std::cerr << "spillway-gateway: " << gateway.status().message() << std::endl;
    return ExitCode(gateway.status());
  }
  signals.Wait();
  spdlog::info("event=draining timeout_s={}", options.drain_timeout.count());
  (*gateway)->Drain();
  spdlog::info("event=stopped");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto parsed = spillway::gateway::ParseOptions(argc, argv);
    return parsed.options.has_value() ? Run(*parsed.options) : parsed.exit_code;
  } catch (const std::exception& error) {
    std::cerr << "spillway-gateway: " << error.what() << std::endl;
    return 1;
  }
}
