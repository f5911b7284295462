// fork without exec: the child has the code already, whatever program it is part of. See child.h.
#include "device/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace spillway::device {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kMaxReportBytes = size_t{1} << 20;
constexpr std::chrono::milliseconds kKillGrace{500};
constexpr int kReportDescriptor = 3;

// Leaves the child nothing of ours: no handlers, no terminal, no listening sockets that would outlive us.
void LeaveParent(pid_t parent, int descriptor) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  setpgid(0, 0);
  for (int signal_number = 1; signal_number < NSIG; ++signal_number) signal(signal_number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  dup2(descriptor, kReportDescriptor);
  const int nowhere = open("/dev/null", O_RDWR);
  for (int standard = 0; standard < kReportDescriptor && nowhere >= 0; ++standard) dup2(nowhere, standard);
  if (close_range(kReportDescriptor + 1, ~0U, 0) == 0) return;
  const long most = std::min(sysconf(_SC_OPEN_MAX), 4096L);
  for (int other = kReportDescriptor + 1; other < most; ++other) close(other);
}

// Until the child has said all, is gone, said too much, or the time is over.
struct Listened {
  std::string text;
  bool complete = false, late = false, too_much = false;
};

Listened Listen(int descriptor, Clock::time_point until) {
  Listened heard;
  while (!heard.complete && !heard.too_much) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd watched = {descriptor, POLLIN, 0};
    const int ready = left <= 0 ? 0 : poll(&watched, 1, static_cast<int>(std::min<int64_t>(left, 60'000)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0 && left > 60'000) continue;
    if (ready <= 0) {
      heard.late = true;
      return heard;
    }
    char buffer[4096];
    const ssize_t size = read(descriptor, buffer, sizeof(buffer));
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return heard;
    heard.text.append(buffer, static_cast<size_t>(size));
    heard.complete = heard.text.ends_with("end\t\n");
    heard.too_much = heard.text.size() > kMaxReportBytes;
  }
  return heard;
}

// The status of the child once it is gone; nullopt when it could not be ended or somebody else reaped it.
std::optional<int> Reap(pid_t child, std::chrono::milliseconds patience) {
  const auto until = Clock::now() + patience;
  while (true) {
    int status = 0;
    const pid_t gone = waitpid(child, &status, WNOHANG);
    if (gone == child) return status;
    if ((gone < 0 && errno != EINTR) || Clock::now() >= until) return std::nullopt;
    poll(nullptr, 0, 2);
  }
}

// The step is what came last under that name.
void ParseLines(const std::string& text, ChildRun* run, Fields* fields) {
  size_t begin = 0;
  for (size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string line = text.substr(begin, end - begin);
    const size_t tab = line.find('\t');
    if (tab == std::string::npos) continue;
    const std::string path = line.substr(0, tab);
    if (path == "step") run->step = line.substr(tab + 1);
    if (path != "step" && path != "end") (*fields)[path] = line.substr(tab + 1);
  }
}

template <typename Number>
void ParseNumber(const std::string& text, std::optional<Number>* field) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) *field = value;
}

}  // namespace

void Report::Line(std::string_view path, std::string_view value) {
  std::string line = std::string(path) + '\t' + std::string(value) + '\n';
  for (size_t i = path.size() + 1; i + 1 < line.size(); ++i) {
    if (line[i] < ' ' || line[i] > '~') line[i] = '?';
  }
  for (size_t written = 0; written < line.size();) {
    const ssize_t size = write(descriptor_, line.data() + written, line.size() - written);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) _exit(1);  // nobody listens any more
    written += static_cast<size_t>(size);
  }
}

ChildRun RunInChild(const std::function<void(Report&)>& work, std::chrono::milliseconds deadline,
                    Fields* fields) {
  ChildRun run;
  const auto start = Clock::now();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    run.error = std::string("no pipe: ") + std::strerror(errno);
    return run;
  }
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) {
    run.error = std::string("no child process: ") + std::strerror(errno);
    close(ends[0]);
    close(ends[1]);
    return run;
  }
  if (child == 0) {
    LeaveParent(parent, ends[1]);
    Report report(kReportDescriptor);
    try {
      work(report);
    } catch (...) {
      _exit(1);
    }
    report.End();
    _exit(0);
  }
  setpgid(child, child);  // whoever of the two comes first
  close(ends[1]);
  const Listened heard = Listen(ends[0], start + deadline);
  close(ends[0]);
  ParseLines(heard.text, &run, fields);
  if (heard.complete || heard.late || heard.too_much) kill(-child, SIGKILL);
  const std::optional<int> status = Reap(child, kKillGrace);
  kill(-child, SIGKILL);  // what the child started
  run.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (heard.complete) {
    run.end = ChildEnd::kDone;
  } else if (heard.late) {
    run.end = ChildEnd::kTimedOut;
  } else if (!heard.too_much && status && WIFSIGNALED(*status)) {
    run.end = ChildEnd::kCrashed;
    run.signal = WTERMSIG(*status);
  } else {
    run.error = heard.too_much ? "it reported without end" : "it ended without a report";
  }
  return run;
}

void ParseField(const std::string& text, std::string* field) { *field = text; }
void ParseField(const std::string& text, std::optional<uint64_t>* field) { ParseNumber(text, field); }
void ParseField(const std::string& text, std::optional<int64_t>* field) { ParseNumber(text, field); }
void ParseField(const std::string& text, std::optional<double>* field) { ParseNumber(text, field); }

}  // namespace spillway::device
