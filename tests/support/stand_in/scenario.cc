// See scenario.h.
#include "tests/support/stand_in/scenario.h"

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace spillway::stand_in {
namespace {

// How often this was asked, over all processes.
uint64_t CountCall(const std::string& counter) {
  std::ofstream(counter, std::ios::app) << '.';
  return std::ifstream(counter, std::ios::ate).tellg();
}

}  // namespace

Scenario::Scenario() {
  const char* path = std::getenv("SPILLWAY_STAND_IN_SCENARIO");
  if (path == nullptr) return;
  std::ostringstream text;
  text << '\n' << std::ifstream(path).rdbuf();
  text_ = text.str();
}

std::string Scenario::Text(const std::string& name, const std::string& otherwise) const {
  const std::string key = "\n" + name + " = ";
  const size_t at = text_.find(key);
  if (at == std::string::npos) return otherwise;
  const size_t begin = at + key.size();
  return text_.substr(begin, text_.find('\n', begin) - begin);
}

uint64_t Scenario::Number(const std::string& name, uint64_t otherwise) const {
  const std::string text = Text(name, "");
  return text.empty() ? otherwise : std::strtoull(text.c_str(), nullptr, 0);
}

int Enter(const char* call) {
  const Scenario scenario;
  std::istringstream words(scenario.Text(std::string("call.") + call, ""));
  std::string action, times;
  int code = 0;
  uint64_t most = 0;
  words >> action;
  if (action == "hang") {
    while (true) pause();
  }
  if (action == "crash") kill(getpid(), SIGSEGV);
  if (action != "fail") return 0;
  words >> code;
  if (words >> times >> most && CountCall(scenario.Text("counter", "/dev/null")) > most) return 0;
  return code;
}

}  // namespace spillway::stand_in
