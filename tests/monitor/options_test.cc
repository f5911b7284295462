// The command line: what it accepts, and that each refusal names the option.
#include "monitor/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway::monitor {
namespace {

absl::StatusOr<std::optional<Options>> Parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "spillway-monitor");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  return ParseOptions(static_cast<int>(arguments.size()), argv.data());
}

std::string Refusal(const std::vector<std::string>& arguments) {
  const auto parsed = Parse(arguments);
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(parsed.status().message());
}

TEST(Options, ReadsWorkersAndTimes) {
  const auto parsed =
      Parse({"--worker", "gpu-worker=127.0.0.1:50051", "--worker=cpu-worker-0=[::1]:50100", "--gateway-admin",
             "127.0.0.1:50060", "--metrics", "127.0.0.1:0", "--interval", "250ms", "--exit-with-parent"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const Options& options = **parsed;
  ASSERT_EQ(options.workers.size(), 2u);
  EXPECT_EQ(options.workers[0].name, "gpu-worker");
  EXPECT_EQ(options.workers[1].address, "[::1]:50100");
  EXPECT_EQ(options.interval, std::chrono::milliseconds(250));
  EXPECT_TRUE(options.exit_with_parent);
}

TEST(Options, NamesWhatItRefuses) {
  using ::testing::HasSubstr;
  EXPECT_THAT(Refusal({"--worker", "nothing"}), HasSubstr("nothing"));
  EXPECT_THAT(Refusal({"--worker", "a=h:1", "--worker", "a=h:2"}), HasSubstr("stands twice"));
  for (const char* interval : {"0", "1h", "", "nan", "1e9"}) {
    EXPECT_THAT(Refusal({"--interval", interval}), HasSubstr("--interval"));
  }
  EXPECT_THAT(Refusal({"--metrics", "0.0.0.0:9563"}), HasSubstr("--insecure=metrics"));
  EXPECT_THAT(Refusal({"--insecure", "grpc"}), HasSubstr("grpc"));
  EXPECT_THAT(Refusal({"--no-such-option"}), HasSubstr("no-such-option"));
}

TEST(Options, ReadsEnginesToWatch) {
  const auto parsed = Parse(
      {"--watch", "ollama=http://127.0.0.1:11434/", "--watch=llama-server=box:8081", "--expect", "0.5"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const Options& options = **parsed;
  ASSERT_EQ(options.engines.size(), 2u);
  EXPECT_EQ(options.engines[0].name, "ollama@127.0.0.1:11434");
  EXPECT_EQ(options.engines[0].kind, EngineKind::kOllama);
  EXPECT_EQ(options.engines[1].address, "box:8081");
  EXPECT_EQ(options.expected_share, 0.5);
  using ::testing::HasSubstr;
  for (const char* text :
       {"vllm=http://h:1", "ollama", "ollama=", "ollama=https://h:1", "ollama=http://h", "ollama=h:0"}) {
    EXPECT_THAT(Refusal({"--watch", text}), HasSubstr("--watch")) << text;
  }
  EXPECT_THAT(Refusal({"--watch", "ollama=h:1", "--watch", "ollama=h:1"}), HasSubstr("stands twice"));
  EXPECT_THAT(Refusal({"--expect", "2"}), HasSubstr("--expect"));
}

TEST(Options, WiderBindNeedsTheListenersName) {
  EXPECT_TRUE(Parse({"--metrics", "0.0.0.0:9563", "--insecure=metrics"}).ok());
}

}  // namespace
}  // namespace spillway::monitor
