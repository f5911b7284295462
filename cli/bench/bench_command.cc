// `spillway bench compare A B`: is the smaller file good enough, and what does it bring?
#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/bench/compare.h"
#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/exit_code.h"
#include "cli/plan/cluster_options.h"
#include "cli/text_table.h"
#include "engine/base/status.h"
#include "engine/plan/plan.h"

namespace spillway::cli {
namespace {

// Read when no --text is given: prose, a list, code and figures, so that no one register decides.
constexpr char kSampleText[] =
    R"(A spillway is the part of a dam that lets water pass when the reservoir is full. It does not add to what the
dam can hold; it makes sure that what cannot be held leaves by a known way, at a known rate, and that somebody
down the valley has been told. Engineers who design one begin with the flood that may come once in ten thousand
years, and work backwards from there to the width of the crest, the slope of the chute and the depth of the
basin in which the water loses its force.

Three things go wrong with spillways. The first is that gates jam: they are moved so seldom that nobody notices
rust, and on the day when they are needed the motor turns and the gate does not. The second is erosion; fast
water finds a joint in the concrete, lifts a slab, and digs. The third is the oldest: people build houses on the
flood plain, because it has been dry for a generation.

Inspection list, every spring:
1. Open each gate by a tenth of its travel and close it again. Write down the time it took.
2. Walk the chute. Mark cracks wider than 3 mm, and measure the marked ones of last year.
3. Read the piezometers. A level that rises while the reservoir falls is an alarm, not a curiosity.
4. Test the sirens on the first Wednesday of the month, at noon.

The flow over a sharp crest is Q = C * L * H^1.5, where L is the length of the crest in metres, H the head above
it, and C about 1.8. For L = 40 and H = 2 that gives Q = 1.8 * 40 * 2.83 = 204 cubic metres a second, so a
reservoir of 5 square kilometres would fall by about 3.5 metres in a day if nothing flowed in.

def discharge(length, head, coefficient=1.8):
    """Cubic metres per second over a crest; zero while the water stands below it."""
    if head <= 0:
        return 0.0
    return coefficient * length * head ** 1.5

"You never thank a spillway," the old keeper used to say. "You only notice the one that was not there." He kept
a notebook for forty-one years, one line a day: level, weather, who had called. On most days the line ended with
the same two words, and he was proud of every one of them: nothing happened.
)";

struct BenchOptions {
  std::string what;
  std::string text_file;
  CompareOptions compare;
  bool json = false;
};

absl::StatusOr<std::string> ReadText(const std::string& path) {
  if (path.empty()) return std::string(kSampleText);
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFound("--text {}: {}", path, std::strerror(errno));
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (file.bad()) return Unavailable("--text {}: {}", path, std::strerror(errno));
  return text;
}

std::string Table(const Comparison& result) {
  TextTable table({"MODEL", "FILE", "WEIGHTS", "PERPLEXITY", "PREFILL", "FIRST TOKEN", "DECODE", "ENERGY"});
  for (const ComparedModel& model : result.models) {
    table.Add({model.name, FormatBytesHuman(model.file_bytes), FormatBytesHuman(model.weight_bytes),
               fmt::format("{:.3f}", model.perplexity),
               fmt::format("{:.1f}/s", model.prefill_tokens_per_second),
               fmt::format("{:.0f} ms", 1e3 * model.ttft_seconds),
               fmt::format("{:.1f}/s", model.decode_tokens_per_second),
               model.joules_per_token > 0 ? fmt::format("{:.2f} J/token", model.joules_per_token)
                                          : "not measurable here"});
  }
  return fmt::format(
      "{}\n{} against {}, {} positions: same most likely token {:.1f} %; KL divergence in nats: mean {:.5f}, "
      "median "
      "{:.5f}, 99th percentile {:.5f}, most {:.5f}. The first token came after a prompt of {} tokens.\n",
      table.Render(), result.models[1].name, result.models[0].name, result.positions, 100 * result.same_top,
      result.kl_mean, result.kl_median, result.kl_p99, result.kl_max, result.prompt_tokens);
}

nlohmann::ordered_json Json(const Comparison& result) {
  nlohmann::ordered_json models = nlohmann::ordered_json::array();
  for (const ComparedModel& model : result.models) {
    nlohmann::ordered_json energy = nullptr;
    if (model.joules_per_token > 0) energy = model.joules_per_token;
    models.push_back({{"model", model.name},
                      {"file_bytes", model.file_bytes},
                      {"weight_bytes", model.weight_bytes},
                      {"perplexity", model.perplexity},
                      {"prefill_tokens_per_second", model.prefill_tokens_per_second},
                      {"ttft_seconds", model.ttft_seconds},
                      {"decode_tokens_per_second", model.decode_tokens_per_second},
                      {"joules_per_token", energy}});
  }
  return {{"models", models},
          {"positions", result.positions},
          {"prompt_tokens", result.prompt_tokens},
          {"same_top_token", result.same_top},
          {"kl_divergence",
           {{"mean", result.kl_mean},
            {"median", result.kl_median},
            {"p99", result.kl_p99},
            {"max", result.kl_max}}}};
}

int RunBench(BenchOptions options) {
  auto text = ReadText(options.text_file);
  if (!text.ok()) return FailUsage(text.status());
  options.compare.text = *std::move(text);
  const auto result = Compare(options.compare, SystemRoot());
  if (!result.ok()) return FailUsage(result.status());
  if (options.json) {
    fmt::print("{}\n", Json(*result).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{}", Table(*result));
  }
  return std::fflush(stdout) == 0 ? kOk : Fail(kFailed, "standard output cannot be written");
}

}  // namespace

void AddBenchCommand(CommandLine& line) {
  auto options = std::make_shared<BenchOptions>();
  line.AddCommand(
      "bench", "Compare two quantizations of a model: `bench compare A.gguf B.gguf`",
      {Required(OneOf({"what", &options->what, "compare: quality of B measured by A, and the speed of both"},
                      {"compare"})),
       Required({"a", &options->compare.models[0], "GGUF file, the measure: the larger quantization"}),
       Required({"b", &options->compare.models[1], "GGUF file of the same model"}),
       {"--text", &options->text_file, "Text that both read (default: one of ours, some 600 tokens)"},
       {"-c,--ctx-size", &options->compare.n_ctx, "Tokens read with one context", 16, 1 << 20},
       {"--tokens", &options->compare.max_tokens, "Tokens of the text at most", 2, 1 << 24},
       {"-n,--predict", &options->compare.generate, "Tokens generated for the decode rate", 1, 4096},
       {"-t,--threads", &options->compare.threads, "Compute threads", 1, 1024},
       {"--json", &options->json, "One JSON object on one line"}},
      [options] { return RunBench(*options); });
}

}  // namespace spillway::cli
