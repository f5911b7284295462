// How a subcommand joins the command line: it adds itself with its options and what it does.
#pragma once

namespace spillway::cli {

class CommandLine;

void AddLogitsCommand(CommandLine& line);
void AddTokenizeCommand(CommandLine& line);
void AddChatTemplateCommand(CommandLine& line);
void AddPlanCommand(CommandLine& line);
void AddUpCommand(CommandLine& line);
void AddRunCommand(CommandLine& line);
void AddPsCommand(CommandLine& line);
void AddDoctorCommand(CommandLine& line);
void AddBenchCommand(CommandLine& line);

// Parses and runs; catches everything that is thrown. The whole of main().
int Main(int argc, char** argv);

}  // namespace spillway::cli
