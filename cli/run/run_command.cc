// `spillway run`: a cluster for one sequence, one question or a conversation, and what it cost. The cluster
// lives on a thread of its own (its processes end with the thread that started them); this one talks.
#include <fmt/core.h>
#include <unistd.h>

#include <fstream>
#include <future>
#include <memory>
#include <optional>
#include <thread>

#include "cli/cluster/cluster_command.h"
#include "cli/cluster/status_client.h"
#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/run/conversation.h"
#include "engine/base/status.h"

namespace spillway::cli {
namespace {

using Json = nlohmann::ordered_json;

struct RunOptions {
  StartOptions start;
  std::string prompt;
  std::string system;
  AskOptions ask;
  bool json = false;
  std::string json_schema;
  bool keep = false;
};

// What --json and --json-schema ask for, as the request's response_format.
absl::Status SetResponseFormat(RunOptions* options) {
  if (options->json) options->ask.sampling["response_format"] = {{"type", "json_object"}};
  if (options->json_schema.empty()) return absl::OkStatus();
  std::ifstream stream(options->json_schema, std::ios::binary);
  Json schema = Json::parse(stream, nullptr, /*allow_exceptions=*/false);
  if (schema.is_discarded())
    return InvalidArgument("--json-schema {}: cannot be read as JSON", options->json_schema);
  options->ask.sampling["response_format"] = {
      {"type", "json_schema"}, {"json_schema", {{"name", "answer"}, {"schema", std::move(schema)}}}};
  return absl::OkStatus();
}

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

ConversationOptions ConversationOf(const RunOptions& options, const PreparedCluster& prepared) {
  ConversationOptions conversation;
  conversation.api_address = prepared.cluster->api_url().substr(std::string_view("http://").size());
  conversation.system = options.system;
  conversation.ask = options.ask;
  conversation.n_ctx = prepared.n_ctx;
  return conversation;
}

void Chat(Conversation& conversation, const PreparedCluster& prepared) {
  std::optional<Answer> last;
  std::string hops;  // asked for while the cluster still runs
  conversation.Chat([&](const Answer& answer) {
    last = answer;
    hops = DescribeHops(*prepared.cluster);
  });
  if (last.has_value()) PrintCosts(prepared, *last, hops);
}

int RunRun(RunOptions options) {
  if (const absl::Status status = SetResponseFormat(&options); !status.ok()) return FailUsage(status);
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
  Conversation conversation(ConversationOf(options, *prepared), [&thread] { return thread.stopping(); });
  if (prompt.empty()) {
    Chat(conversation, *prepared);
    return kOk;
  }
  const auto answer = conversation.Say(prompt);
  if (!answer.ok()) {
    // A prompt that is too long is no fault that the logs could explain.
    if (!thread.stopping() && !absl::IsOutOfRange(answer.status())) prepared->cluster->SetFailed();
    return Fail(kFailed, MessageOf(answer.status()));
  }
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

// The request's sampling fields as options, named as in llama.cpp.
struct SamplingOption {
  const char* names;
  const char* field;
  double low, high;
  bool whole;
  const char* help;
};
constexpr SamplingOption kSamplingOptions[] = {
    {"--temp,--temperature", "temperature", 0, 2, false,
     "Temperature; 0, the default, always takes the likeliest token, whatever the options below say"},
    {"--top-k", "top_k", 0, 1 << 30, true, "Draw among the K likeliest tokens; 0 = all"},
    {"--top-p", "top_p", 1e-6, 1, false, "Draw among the likeliest tokens that together have P"},
    {"--min-p", "min_p", 0, 0.999999, false, "Draw among tokens of at least P times the likeliest one's"},
    {"--repeat-penalty", "repeat_penalty", 1e-6, 10, false, "Penalty of tokens that were there; 1 = none"},
    {"--seed", "seed", 0, 9007199254740992, true, "Seed of the draws (default: another one each time)"},
};

std::vector<Option> AskOptionRows(AskOptions* ask) {
  std::vector<Option> rows = {{"-n,--predict,--max-tokens", &ask->max_tokens,
                               "Longest answer in tokens; -1, the default = what the context allows", -1,
                               1 << 24}};
  for (const SamplingOption& option : kSamplingOptions) {
    const auto set = [ask, &option](auto value) { ask->sampling[option.field] = value; };
    const Target real = std::function<void(double)>(set), whole = std::function<void(int64_t)>(set);
    rows.push_back({option.names, option.whole ? whole : real, option.help, option.low, option.high});
  }
  return rows;
}

}  // namespace

void AddRunCommand(CommandLine& line) {
  auto options = std::make_shared<RunOptions>();
  options->start.cluster.parallel = 1;
  std::vector<Option> rows = StartOptionRows(&options->start);
  const std::vector<Option> ask = AskOptionRows(&options->ask);
  rows.push_back(
      {"-p,--prompt", &options->prompt, "The question; without it standard input, or a chat on a terminal"});
  rows.push_back({"--system", &options->system, "System message, kept when the context is full (also -sys)"});
  rows.insert(rows.end(), ask.begin(), ask.end());
  rows.push_back({"--json", &options->json, "The answer is a JSON object"});
  rows.push_back({"--json-schema", &options->json_schema, "File with a JSON schema that the answer follows"});
  rows.push_back({"--keep", &options->keep, "Keep serving after the answer until Ctrl-C"});
  line.AddCommand("run",
                  "Start a cluster, ask it a question (or chat on a terminal), print what it cost, stop",
                  rows, [options] { return RunRun(*options); });
}

}  // namespace spillway::cli
