// The spillway command: subcommands, --help, --version, and the border that nothing thrown passes.
#include <signal.h>

#include <exception>

#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/exit_code.h"
#include "telemetry/registry.h"

namespace spillway::cli {
namespace {

constexpr char kDescription[] =
    "Spillway serves language models on hardware whose VRAM is too small for them, and says what that costs.";
constexpr char kFooter[] =
    "Exit codes: 0 ok, 1 failed, 2 usage, 3 refused by the plan or a policy, 4 a named cause\n"
    "(doctor: 10 + its number).\n"
    "`spillway COMMAND --help` lists a command's options.";

int Run(int argc, char** argv) {
  CommandLine line("spillway", kDescription, telemetry::kVersion, kFooter);
  for (const auto add : {AddUpCommand, AddRunCommand, AddPlanCommand, AddPsCommand, AddDoctorCommand,
                         AddLogitsCommand, AddTokenizeCommand, AddChatTemplateCommand, AddBenchCommand}) {
    add(line);
  }
  return line.Run(argc, argv);
}

}  // namespace

int Main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);  // a reader that went away is a write error, not a death
  try {
    return Run(argc, argv);
  } catch (const std::exception& error) {
    return Fail(kFailed, std::string("internal error: ") + error.what());
  }
}

}  // namespace spillway::cli
