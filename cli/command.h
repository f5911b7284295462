// How a subcommand joins the command line: it adds itself, with its options, to the app and, when it is the
// one that was given, puts what is to be run into `selected`. main.cc runs it after parsing.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace spillway::cli {

// Returns the exit code.
using Action = std::function<int()>;

void AddLogitsCommand(CLI::App& app, Action* selected);
void AddTokenizeCommand(CLI::App& app, Action* selected);
void AddChatTemplateCommand(CLI::App& app, Action* selected);
void AddPlanCommand(CLI::App& app, Action* selected);
void AddUpCommand(CLI::App& app, Action* selected);
void AddRunCommand(CLI::App& app, Action* selected);
void AddPsCommand(CLI::App& app, Action* selected);

// Parses and runs; catches everything that is thrown. The whole of main().
int Main(int argc, char** argv);

}  // namespace spillway::cli
