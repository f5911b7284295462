// `spillway run`: a cluster for one sequence, one question or a conversation, and what it cost. The cluster
// lives on a thread of its own (its processes end with the thread that started them); this one talks.
#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <future>
#include <memory>
#include <optional>
#include <thread>

#include "cli/cluster/cluster_command.h"
#include "cli/cluster/status_client.h"
#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/run/chat_client.h"
#include "engine/base/status.h"

namespace spillway::cli {
namespace {

using Json = nlohmann::ordered_json;

struct RunOptions {
  StartOptions start;
  std::string prompt;
  std::string system;
  AskOptions ask;
  bool keep = false;
};

// Starts, supervises and stops the cluster on its own thread.
class ClusterThread {
 public:
  explicit ClusterThread(Cluster& cluster) : cluster_(cluster), thread_([this] { Run(); }) {}
  ~ClusterThread() {
    cluster_.RequestStop();
    Join();
  }
  void Join() {
    if (thread_.joinable()) thread_.join();
  }
  absl::Status WaitForStart() { return started_.get_future().get(); }
  bool stopping() const { return stopping_.load(); }

 private:
  void Run() {
    const absl::Status status = cluster_.Start();
    started_.set_value(status);
    if (!status.ok()) return;
    cluster_.Supervise();
    stopping_.store(true);
    cluster_.Stop();
  }

  Cluster& cluster_;
  std::promise<absl::Status> started_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;  // last: it uses the others
};

void PrintPiece(std::string_view text) {
  fmt::print("{}", text);
  std::fflush(stdout);
}

std::string DescribeHops(const Cluster& cluster) {
  const auto status = GetClusterStatus(cluster.admin());
  if (!status.ok()) return "The parts of each hop are not known: " + MessageOf(status.status()) + "\n";
  return "Parts of each hop, means over the last minute:\n" + HopTable(*status);
}

// What the answer cost: the client's figures, the gateway's view of the hops, and where to look further.
void PrintCosts(const PreparedCluster& prepared, const Answer& answer, const std::string& hops) {
  const Cluster& cluster = *prepared.cluster;
  fmt::print("\n{}\n", prepared.placement);
  fmt::print("{} prompt tokens, {} generated ({}); time to first token {:.0f} ms; {:.1f} tokens/s\n\n",
             answer.prompt_tokens, answer.generated_tokens, answer.finish_reason, answer.ttft_seconds * 1e3,
             answer.tokens_per_second);
  fmt::print("{}\n", hops);
  fmt::print("API      {}/v1\nstatus   {}\n", cluster.api_url(), cluster.status_url());
  const Json description = cluster.Description();
  for (const Json& process : description["processes"]) {
    fmt::print("metrics  {}  ({})\n", process["metrics"].get<std::string>(),
               process["name"].get<std::string>());
  }
  std::fflush(stdout);
}

// One line from the terminal; nullopt at its end or when the cluster stops.
std::optional<std::string> ReadLine(const ClusterThread& thread) {
  std::string line;
  while (!thread.stopping()) {
    pollfd input = {STDIN_FILENO, POLLIN, 0};
    if (poll(&input, 1, 100) <= 0) continue;
    char c = 0;
    if (read(STDIN_FILENO, &c, 1) <= 0) return std::nullopt;
    if (c == '\n') return line;
    line += c;
  }
  return std::nullopt;
}

class Conversation {
 public:
  Conversation(const RunOptions& options, const PreparedCluster& prepared, const ClusterThread& thread)
      : options_(options),
        thread_(thread),
        prepared_(prepared),
        address_(prepared.cluster->api_url().substr(7)) {
    if (!options.system.empty()) messages_.push_back({{"role", "system"}, {"content", options.system}});
  }

  absl::StatusOr<Answer> Say(const std::string& text) {
    messages_.push_back({{"role", "user"}, {"content", text}});
    auto answer = Ask(address_, messages_, options_.ask, [this](std::string_view piece) {
      PrintPiece(piece);
      return !thread_.stopping();  // Ctrl-C: leaving frees the gateway at once
    });
    fmt::print("\n");
    if (answer.ok()) {
      messages_.push_back({{"role", "assistant"}, {"content", answer->text}});
    } else {
      messages_.erase(messages_.size() - 1);
    }
    return answer;
  }

  int Chat() {
    std::optional<Answer> last;
    std::string hops;  // asked for while the cluster still runs
    while (true) {
      PrintPiece("> ");
      const auto line = ReadLine(thread_);
      if (!line.has_value()) break;
      if (line->empty()) continue;
      const auto answer = Say(*line);
      if (answer.ok()) {
        last = *answer;
        hops = DescribeHops(*prepared_.cluster);
      } else if (thread_.stopping()) {
        break;
      } else {
        fmt::print(stderr, "spillway: {}\n", MessageOf(answer.status()));
      }
    }
    fmt::print("\n");
    if (last.has_value()) PrintCosts(prepared_, *last, hops);
    return kOk;
  }

 private:
  const RunOptions& options_;
  const ClusterThread& thread_;
  const PreparedCluster& prepared_;
  const std::string address_;
  Json messages_ = Json::array();
};

// The prompt: the option, or all of standard input when that is no terminal.
std::string PromptOf(const RunOptions& options) {
  if (!options.prompt.empty() || isatty(STDIN_FILENO)) return options.prompt;
  std::string text;
  char block[4096];
  for (ssize_t count = 0; (count = read(STDIN_FILENO, block, sizeof(block))) > 0;) {
    text.append(block, static_cast<size_t>(count));
  }
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

int RunRun(const RunOptions& options) {
  const std::string prompt = PromptOf(options);
  if (prompt.empty() && !isatty(STDIN_FILENO)) {
    return Fail(kUsage, "no prompt: give --prompt TEXT, text on standard input, or a terminal");
  }
  int exit_code = kFailed;
  const auto prepared = PrepareCluster(options.start, &exit_code);
  if (!prepared.has_value()) return exit_code;
  fmt::print(stderr, "spillway: starting; logs in {}\n", prepared->cluster->run_directory());
  ClusterThread thread(*prepared->cluster);
  const absl::Status started = thread.WaitForStart();
  if (absl::IsCancelled(started)) return Fail(kFailed, "stopped before the answer");
  if (!started.ok()) {
    Fail(kFailed, MessageOf(started));
    return prepared->cluster->exit_code();
  }
  Conversation conversation(options, *prepared, thread);
  if (prompt.empty()) return conversation.Chat();
  const auto answer = conversation.Say(prompt);
  if (!answer.ok()) return Fail(kFailed, MessageOf(answer.status()));
  PrintCosts(*prepared, *answer, DescribeHops(*prepared->cluster));
  if (options.keep) {
    fmt::print("\nServing until Ctrl-C.\n");
    std::fflush(stdout);
    thread.Join();
  } else {
    fmt::print("\nStopped; with --keep it goes on serving.\n");
  }
  return kOk;
}

}  // namespace

void AddRunCommand(CLI::App& app, Action* selected) {
  auto options = std::make_shared<RunOptions>();
  options->start.cluster.parallel = 1;
  CLI::App* command = app.add_subcommand(
      "run", "Start a cluster, ask it a question (or chat on a terminal), print what it cost, stop");
  AddStartOptions(*command, &options->start);
  command->add_option("--prompt", options->prompt,
                      "The question; without it standard input, or a chat on a terminal");
  command->add_option("--system", options->system, "System message");
  command->add_option("--max-tokens", options->ask.max_tokens,
                      "Longest answer (default: what the context allows)");
  command->add_flag("--keep", options->keep, "Keep serving after the answer until Ctrl-C");
  command->callback([options, selected] { *selected = [options] { return RunRun(*options); }; });
}

}  // namespace spillway::cli
