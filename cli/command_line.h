// Options as one list of rows: names, where the value goes, help, limits. The list parses, checks and prints
// the help, with the value that is there before parsing as the default. The only way to the parser's library,
// whose header takes ten seconds to compile.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace spillway::cli {

using Target =
    std::variant<std::string*, std::vector<std::string>*, bool*, uint16_t*, uint32_t*, int64_t*,
                 std::optional<uint16_t>*, std::function<void(double)>, std::function<void(int64_t)>>;

struct Option {
  std::string names;  // "-n,--predict,--max-tokens"; a name without dashes may also stand by its place
  Target target;      // outlives the parsing; a bool is a flag without a value
  std::string help;
  double low = std::numeric_limits<double>::lowest(), high = std::numeric_limits<double>::max();
  bool required = false;
  std::vector<std::string> one_of = {};  // the values that a text may have
};

inline Option Required(Option option) {
  option.required = true;
  return option;
}
inline Option OneOf(Option option, std::vector<std::string> values) {
  option.one_of = std::move(values);
  return option;
}

// Returns the exit code.
using Action = std::function<int()>;

class CommandLine {
 public:
  CommandLine(const std::string& name, const std::string& description, const std::string& version,
              const std::string& footer);
  ~CommandLine();

  // The rows of the command that follow belong to it; `action` is what it does.
  void AddCommand(const std::string& name, const std::string& description, const std::vector<Option>& options,
                  Action action);
  // Exactly one of these options of the last command must be given.
  void RequireOne(const std::vector<std::string>& names);

  // Parses and runs the command that was given. Prints help, version and usage errors itself.
  int Run(int argc, char** argv);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace spillway::cli
