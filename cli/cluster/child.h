// One process of the cluster: started, watched and stopped. Knows nothing of what the program does.
#pragma once

#include <absl/status/status.h>
#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace spillway::cli {

struct Listener {
  std::string flag;     // "--listen"
  std::string key;      // in the port file: "grpc"
  std::string address;  // "127.0.0.1:0" until the process has said which port it took
};

struct ChildSpec {
  std::string name;     // "cpu-worker-0"
  std::string program;  // path of the executable
  std::vector<std::string> arguments;
  std::vector<Listener> listeners;
  std::string port_file;
  std::string log_file;  // empty: stderr
};

// Confined to one thread, which must outlive the process: the system ends the process when that thread ends.
class Child {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Child(ChildSpec spec) : spec_(std::move(spec)) {}

  void AddArguments(std::vector<std::string> arguments);  // before Start

  // In a process group of its own, so that a terminal's Ctrl-C reaches only us; told to end when we do.
  absl::Status Start();
  // True when the process has just been found to have ended; `how` then says how.
  bool Reap(std::string* how);
  void Signal(int signal) const;
  // Takes over the addresses in the port file when it is there. False until then.
  bool ReadPorts();

  const std::string& name() const { return spec_.name; }
  const ChildSpec& spec() const { return spec_; }
  pid_t pid() const { return pid_; }  // 0 when it does not run
  bool running() const { return pid_ != 0; }
  int exit_code() const { return exit_code_; }  // of the last end; -1 when a signal ended it
  Clock::time_point started() const { return started_; }
  std::string Address(const std::string& key) const;  // "" when there is no such listener

 private:
  ChildSpec spec_;
  pid_t pid_ = 0;
  int exit_code_ = 0;
  Clock::time_point started_;
};

}  // namespace spillway::cli
