// Speed of the host backend in one process, without any wire: prefill and decode tokens/s of a model. One
// JSON object on one line, for the comparison scripts beside it. Never a test.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "engine/base/status.h"
#include "engine/cpu/host_stage.h"
#include "engine/stage/stage.h"

namespace spillway {
namespace {

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Options {
  std::string model;
  uint32_t threads = 1;
  uint32_t prompt = 512;
  uint32_t generate = 64;
  uint32_t chunk = 128;
  uint32_t streams = 1;
};

absl::Status Measure(const Options& options) {
  SPILLWAY_ASSIGN_OR_RETURN(const Model model, LoadModel(options.model));
  Ledger ledger;
  StageOptions stage_options;
  stage_options.n_ctx = options.prompt + options.generate + 1;
  stage_options.max_sequences = options.streams;
  stage_options.kv_pages = options.streams * PagesFor(stage_options.n_ctx);
  stage_options.max_rows = std::max(options.chunk, options.streams);
  stage_options.threads = options.threads;
  SPILLWAY_ASSIGN_OR_RETURN(
      auto stage, cpu::CreateHostStage(model, {0, model.config.n_layer, true, true}, stage_options, ledger));
  SequenceOptions greedy;
  greedy.sampling.temperature = 0.0f;
  std::vector<std::vector<int32_t>> tokens(options.streams);
  std::vector<Segment> segments;
  const auto run = [&](uint32_t stream, uint32_t begin, uint32_t count) {
    Segment segment;
    segment.sequence = stream + 1;
    segment.begin = begin;
    segment.outputs = begin + count >= options.prompt ? Outputs::kLast : Outputs::kNone;
    segment.prefix_hash = PrefixHash(std::span(tokens[stream]).first(begin));
    segment.tokens = std::span(tokens[stream]).subspan(begin, count);
    segments.push_back(segment);
  };
  for (uint32_t s = 0; s < options.streams; ++s) {
    SPILLWAY_RETURN_IF_ERROR(stage->Open(s + 1, greedy));
    for (uint32_t i = 0; i < options.prompt; ++i) {
      tokens[s].push_back(static_cast<int32_t>((i * 7919 + s * 31) % model.config.n_vocab));
    }
  }
  ForwardOutput output;
  double start = Seconds();
  for (uint32_t s = 0; s < options.streams; ++s) {
    for (uint32_t begin = 0; begin < options.prompt; begin += options.chunk) {
      segments.clear();
      run(s, begin, std::min(options.chunk, options.prompt - begin));
      SPILLWAY_RETURN_IF_ERROR(stage->Forward({segments, {}}, &output));
    }
    tokens[s].push_back(output.sampled[0].chosen.token);
  }
  const double prefill = Seconds() - start;
  start = Seconds();
  for (uint32_t i = 0; i < options.generate; ++i) {
    segments.clear();
    for (uint32_t s = 0; s < options.streams; ++s) run(s, options.prompt + i, 1);
    SPILLWAY_RETURN_IF_ERROR(stage->Forward({segments, {}}, &output));
    for (uint32_t s = 0; s < options.streams; ++s) tokens[s].push_back(output.sampled[s].chosen.token);
  }
  const double decode = Seconds() - start;
  const nlohmann::ordered_json result = {
      {"engine", "spillway"},
      {"isa", cpu::IsaName(cpu::DetectIsa())},
      {"threads", options.threads},
      {"prompt_tokens", options.prompt},
      {"generated_tokens", options.generate},
      {"streams", options.streams},
      {"prefill_tokens_per_second", options.streams * options.prompt / prefill},
      {"decode_tokens_per_second", options.streams * options.generate / decode}};
  std::printf("%s\n", result.dump().c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace spillway

int main(int argc, char** argv) {
  spillway::Options options;
  CLI::App app{"prefill and decode speed of the host backend in one process"};
  app.add_option("--model", options.model, "GGUF file")->required();
  app.add_option("--threads", options.threads, "compute threads")->capture_default_str();
  app.add_option("--prompt", options.prompt, "prompt tokens")->capture_default_str();
  app.add_option("--generate", options.generate, "tokens to generate")->capture_default_str();
  app.add_option("--chunk", options.chunk, "prompt rows per micro-batch")->capture_default_str();
  app.add_option("--streams", options.streams, "sequences decoded together")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = spillway::Measure(options);
  if (status.ok()) return 0;
  std::fprintf(stderr, "spillway-bench-host: %s\n", spillway::MessageOf(status).c_str());
  return 1;
}
