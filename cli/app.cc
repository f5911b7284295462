// The spillway command: subcommands, --help, --version, and the border that nothing thrown passes.
#include <signal.h>

#include <CLI/CLI.hpp>
#include <exception>

#include "cli/command.h"
#include "cli/exit_code.h"
#include "telemetry/registry.h"

namespace spillway::cli {
namespace {

constexpr char kDescription[] =
    "Spillway serves language models on hardware whose VRAM is too small for them, and says what that costs.";
constexpr char kFooter[] =
    "Exit codes: 0 ok, 1 failed, 2 usage, 3 refused by the plan or a policy, 4 a named cause.\n"
    "`spillway COMMAND --help` lists a command's options.";

int Run(int argc, char** argv) {
  CLI::App app(kDescription);
  app.name("spillway");
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("spillway ") + telemetry::kVersion);
  app.require_subcommand(1);
  Action selected;
  AddUpCommand(app, &selected);
  AddRunCommand(app, &selected);
  AddPlanCommand(app, &selected);
  AddPsCommand(app, &selected);
  AddLogitsCommand(app, &selected);
  AddTokenizeCommand(app, &selected);
  AddChatTemplateCommand(app, &selected);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help_or_version) {
    return app.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    return Fail(kUsage, std::string(error.what()) + " (see --help)");
  }
  return selected();
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
