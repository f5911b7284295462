// fork and exec; between the two only what is safe after fork in a process with threads.
#include "cli/cluster/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/base/status.h"

namespace spillway::cli {
namespace {

constexpr int kExecFailed = 127;

// Runs in the child. Never returns.
[[noreturn]] void Become(char* const* arguments, int null_in, int output, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(kExecFailed);
  struct sigaction by_default = {};
  by_default.sa_handler = SIG_DFL;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGCHLD, SIGPIPE})
    sigaction(signal, &by_default, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  dup2(null_in, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  execv(arguments[0], arguments);
  _exit(kExecFailed);
}

}  // namespace

void Child::AddArguments(std::vector<std::string> arguments) {
  for (std::string& argument : arguments) spec_.arguments.push_back(std::move(argument));
}

absl::Status Child::Start() {
  unlink(spec_.port_file.c_str());
  std::vector<std::string> words = {spec_.program};
  for (const Listener& listener : spec_.listeners)
    words.insert(words.end(), {listener.flag, listener.address});
  words.insert(words.end(), spec_.arguments.begin(), spec_.arguments.end());
  words.insert(words.end(), {"--port-file", spec_.port_file, "--exit-with-parent"});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  if (access(spec_.program.c_str(), X_OK) != 0) {
    return NotFound("{}: {} ({})", spec_.name, spec_.program, std::strerror(errno));
  }
  const int null_in = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int output = spec_.log_file.empty()
                         ? fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)
                         : open(spec_.log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (null_in < 0 || output < 0) {
    const int error = errno;
    if (null_in >= 0) close(null_in);
    if (output >= 0) close(output);
    return Unavailable("{}: log {}: {}", spec_.name, spec_.log_file, std::strerror(error));
  }
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) Become(arguments.data(), null_in, output, parent);
  const int error = errno;
  close(null_in);
  close(output);
  if (pid < 0) return Unavailable("{}: fork: {}", spec_.name, std::strerror(error));
  pid_ = pid;
  started_ = Clock::now();
  return absl::OkStatus();
}

bool Child::Reap(std::string* how) {
  if (pid_ == 0) return false;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return false;
  pid_ = 0;
  if (WIFSIGNALED(status)) {
    exit_code_ = -1;
    *how = fmt::format("was ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  } else {
    exit_code_ = WEXITSTATUS(status);
    *how = fmt::format("ended with exit code {}", exit_code_);
  }
  return true;
}

void Child::Signal(int signal) const {
  if (pid_ != 0) kill(pid_, signal);
}

bool Child::ReadPorts() {
  std::ifstream file(spec_.port_file);
  if (!file) return false;
  const auto ports = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!ports.is_object()) return false;
  for (Listener& listener : spec_.listeners) {
    const auto found = ports.find(listener.key);
    if (found == ports.end() || !found->is_string()) return false;
    listener.address = found->get<std::string>();
  }
  return true;
}

std::string Child::Address(const std::string& key) const {
  for (const Listener& listener : spec_.listeners) {
    if (listener.key == key) return listener.address;
  }
  return "";
}

}  // namespace spillway::cli
