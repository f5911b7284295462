// See command_line.h. llama.cpp's two-letter short names are no short names to CLI11, which takes "-np" for
// "-n p": they are replaced before it sees them.
#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <map>

#include "cli/exit_code.h"

namespace spillway::cli {
namespace {

const std::map<std::string, std::string>& LongNames() {
  static const auto* const names = new std::map<std::string, std::string>{{"-ngl", "--n-gpu-layers"},
                                                                          {"-np", "--parallel"},
                                                                          {"-sys", "--system"},
                                                                          {"-ctk", "--cache-type-k"},
                                                                          {"-ctv", "--cache-type-v"}};
  return *names;
}

// The arguments in the order that CLI11 wants: the last first.
std::vector<std::string> Arguments(int argc, char** argv) {
  std::vector<std::string> arguments;
  bool options = true;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    options = options && word != "--";
    const auto found = LongNames().find(word);
    arguments.insert(arguments.begin(), options && found != LongNames().end() ? found->second : word);
  }
  return arguments;
}

// The default is shown where it says something.
bool Tells(const Target& target) {
  if (const auto* text = std::get_if<std::string*>(&target)) return !(*text)->empty();
  if (const auto* number = std::get_if<uint32_t*>(&target)) return **number != 0;
  return std::holds_alternative<uint16_t*>(target);
}

CLI::Option* Add(CLI::App& command, const Option& row) {
  return std::visit(
      [&](auto target) -> CLI::Option* {
        using T = decltype(target);
        if constexpr (std::is_same_v<T, bool*>) {
          return command.add_flag(row.names, *target, row.help);
        } else if constexpr (std::is_same_v<T, std::function<void(double)>>) {
          return command.add_option_function<double>(row.names, target, row.help);
        } else if constexpr (std::is_same_v<T, std::function<void(int64_t)>>) {
          return command.add_option_function<int64_t>(row.names, target, row.help);
        } else if constexpr (std::is_same_v<T, std::vector<std::string>*>) {
          // One value each time it is given: the word after it may be the model.
          return command.add_option(row.names, *target, row.help)->allow_extra_args(false);
        } else {
          return command.add_option(row.names, *target, row.help);
        }
      },
      row.target);
}

std::string Number(double value) {
  std::ostringstream text;
  text << std::setprecision(16) << value;
  return text.str();
}

CLI::Validator Between(double low, double high) {
  return CLI::Validator(
      [low, high](std::string& text) {
        double value = 0;
        const bool number = CLI::detail::lexical_cast(text, value);
        if (number && value >= low && value <= high) return std::string();
        return text + " is not in " + Number(low) + " to " + Number(high);
      },
      Number(low) + " to " + Number(high));
}

}  // namespace

struct CommandLine::Impl {
  CLI::App app;
  CLI::App* last = nullptr;
  Action selected;
};

CommandLine::CommandLine(const std::string& name, const std::string& description, const std::string& version,
                         const std::string& footer)
    : impl_(std::make_unique<Impl>()) {
  impl_->app.description(description);
  impl_->app.name(name);
  impl_->app.footer(footer);
  impl_->app.set_version_flag("--version", name + " " + version);
  impl_->app.require_subcommand(1);
}

CommandLine::~CommandLine() = default;

void CommandLine::AddCommand(const std::string& name, const std::string& description,
                             const std::vector<Option>& options, Action action) {
  impl_->last = impl_->app.add_subcommand(name, description);
  for (const Option& row : options) {
    CLI::Option* option = Add(*impl_->last, row);
    option->required(row.required);
    if (row.low > std::numeric_limits<double>::lowest()) option->check(Between(row.low, row.high));
    if (!row.one_of.empty()) option->check(CLI::IsMember(row.one_of));
    if (Tells(row.target)) option->capture_default_str();
  }
  impl_->last->callback([impl = impl_.get(), action = std::move(action)] { impl->selected = action; });
}

void CommandLine::RequireOne(const std::vector<std::string>& names) {
  CLI::Option_group* group = impl_->last->add_option_group("one of");
  for (const std::string& name : names) group->add_option(impl_->last->get_option(name));
  group->require_option(1);
}

int CommandLine::Run(int argc, char** argv) {
  try {
    impl_->app.parse(Arguments(argc, argv));
  } catch (const CLI::Success& help_or_version) {
    return impl_->app.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    return Fail(kUsage, std::string(error.what()) + " (see --help)");
  }
  return impl_->selected();
}

}  // namespace spillway::cli
