// Both models read the text side by side, sixteen positions at a time, so that no more logits than those of
// one micro-batch are ever held.
#include "cli/bench/compare.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include "device/energy.h"
#include "engine/base/status.h"
#include "engine/cpu/host_stage.h"
#include "engine/model/config.h"
#include "engine/stage/local_pipeline.h"
#include "engine/tokenizer/tokenizer.h"

namespace spillway::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr uint32_t kPrefillRows = 128;
constexpr uint32_t kMaxPrompt = 256;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// One file with its stage and its one sequence.
struct Reader {
  Model model;
  std::unique_ptr<Tokenizer> tokenizer;
  Ledger ledger;
  std::unique_ptr<Stage> stage;
  uint64_t hash = 0;
  uint32_t held = 0;

  absl::Status Load(const std::string& path, const CompareOptions& options) {
    SPILLWAY_ASSIGN_OR_RETURN(model, LoadModel(path));
    SPILLWAY_ASSIGN_OR_RETURN(tokenizer, Tokenizer::Load(*model.file));
    StageOptions stage_options;
    stage_options.n_ctx = std::max(options.n_ctx, kMaxPrompt + options.generate + 1);
    stage_options.kv_pages = PagesFor(stage_options.n_ctx);
    stage_options.max_sequences = 1;
    stage_options.max_rows = kPrefillRows;
    stage_options.threads = options.threads;
    const StageUnits all = {0, model.config.n_layer, true, true};
    SPILLWAY_ASSIGN_OR_RETURN(stage, cpu::CreateHostStage(model, all, stage_options, ledger));
    return absl::OkStatus();
  }

  absl::Status Begin() {
    SequenceOptions greedy;
    greedy.sampling.temperature = 0.0f;
    hash = 0;
    held = 0;
    return stage->Open(1, greedy);
  }

  absl::Status Append(std::span<const int32_t> tokens, Outputs outputs, bool logits, ForwardOutput* output) {
    Segment segment;
    segment.sequence = 1;
    segment.begin = held;
    segment.outputs = outputs;
    segment.return_logits = logits;
    segment.prefix_hash = hash;
    segment.tokens = tokens;
    Stage* const stages[] = {stage.get()};
    SPILLWAY_RETURN_IF_ERROR(RunMicroBatch(stages, {&segment, 1}, output));
    held += segment.count();
    for (const int32_t token : tokens) hash = ExtendPrefixHash(hash, token);
    return absl::OkStatus();
  }
};

absl::Status CheckVocabularies(const Reader& a, const Reader& b) {
  if (a.tokenizer->n_vocab() != b.tokenizer->n_vocab()) {
    return InvalidArgument(
        "the vocabularies differ: {} and {} tokens; only files of one model can be compared",
        a.tokenizer->n_vocab(), b.tokenizer->n_vocab());
  }
  for (uint32_t id = 0; id < a.tokenizer->n_vocab(); ++id) {
    const auto token = static_cast<int32_t>(id);
    if (a.tokenizer->TokenBytes(token, true) == b.tokenizer->TokenBytes(token, true)) continue;
    return InvalidArgument("the vocabularies differ at token {}; only files of one model can be compared",
                           id);
  }
  return absl::OkStatus();
}

void ToLogProbabilities(std::span<const float> logits, std::vector<double>* out) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(x - top);
  const double log_sum = top + std::log(sum);
  out->resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) (*out)[i] = logits[i] - log_sum;
}

// What the positions of the text add up to.
struct Totals {
  std::vector<double> divergences;
  double loss[2] = {0, 0};  // nats
  uint32_t same_top = 0;
  std::vector<double> log_p, log_q;

  void Add(std::span<const float> a, std::span<const float> b, int32_t next) {
    ToLogProbabilities(a, &log_p);
    ToLogProbabilities(b, &log_q);
    double kl = 0;
    for (size_t i = 0; i < log_p.size(); ++i) kl += std::exp(log_p[i]) * (log_p[i] - log_q[i]);
    divergences.push_back(std::max(kl, 0.0));
    loss[0] -= log_p[static_cast<size_t>(next)];
    loss[1] -= log_q[static_cast<size_t>(next)];
    const auto top = [](std::span<const float> x) {
      return std::max_element(x.begin(), x.end()) - x.begin();
    };
    same_top += top(a) == top(b) ? 1 : 0;
  }

  void Finish(Comparison* result) {
    std::sort(divergences.begin(), divergences.end());
    const size_t n = divergences.size();
    const auto count = static_cast<double>(n);
    for (const double kl : divergences) result->kl_mean += kl / count;
    result->kl_median = divergences[n / 2];
    result->kl_p99 = divergences[std::min(n - 1, n * 99 / 100)];
    result->kl_max = divergences.back();
    result->same_top = same_top / count;
    result->positions = static_cast<uint32_t>(n);
    for (int i = 0; i < 2; ++i) result->models[i].perplexity = std::exp(loss[i] / count);
  }
};

absl::Status ReadWindow(std::array<Reader, 2>& readers, std::span<const int32_t> tokens, Totals* totals) {
  for (Reader& reader : readers) SPILLWAY_RETURN_IF_ERROR(reader.Begin());
  // The last token is only what the one before should have said.
  for (size_t begin = 0; begin + 1 < tokens.size();) {
    const size_t rows = std::min<size_t>(kMaxLogitRows, tokens.size() - 1 - begin);
    ForwardOutput output[2];
    for (int i = 0; i < 2; ++i) {
      SPILLWAY_RETURN_IF_ERROR(
          readers[i].Append(tokens.subspan(begin, rows), Outputs::kAll, true, &output[i]));
    }
    for (size_t row = 0; row < rows; ++row) {
      totals->Add(output[0].sampled[row].logits, output[1].sampled[row].logits, tokens[begin + row + 1]);
    }
    begin += rows;
  }
  for (Reader& reader : readers) reader.stage->Close(1);
  return absl::OkStatus();
}

absl::Status MeasureSpeed(Reader& reader, std::span<const int32_t> prompt, uint32_t generate,
                          const device::Root& root, ComparedModel* result) {
  SPILLWAY_RETURN_IF_ERROR(reader.Begin());
  ForwardOutput output;
  const Clock::time_point start = Clock::now();
  for (size_t begin = 0; begin < prompt.size(); begin += kPrefillRows) {
    const size_t rows = std::min<size_t>(kPrefillRows, prompt.size() - begin);
    const Outputs outputs = begin + rows == prompt.size() ? Outputs::kLast : Outputs::kNone;
    SPILLWAY_RETURN_IF_ERROR(reader.Append(prompt.subspan(begin, rows), outputs, false, &output));
  }
  result->ttft_seconds = SecondsSince(start);
  result->prefill_tokens_per_second = static_cast<double>(prompt.size()) / result->ttft_seconds;
  device::EnergyMeter energy(root);
  const Clock::time_point decoding = Clock::now();
  for (uint32_t i = 0; i < generate; ++i) {
    const int32_t token = output.sampled[0].chosen.token;
    SPILLWAY_RETURN_IF_ERROR(reader.Append({&token, 1}, Outputs::kLast, false, &output));
  }
  result->decode_tokens_per_second = generate / SecondsSince(decoding);
  result->joules_per_token = energy.Joules().value_or(0) / generate;
  reader.stage->Close(1);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Comparison> Compare(const CompareOptions& options, const device::Root& root) {
  std::array<Reader, 2> readers;
  Comparison result;
  for (int i = 0; i < 2; ++i) {
    SPILLWAY_RETURN_IF_ERROR(readers[i].Load(options.models[i], options));
    ComparedModel& model = result.models[i];
    model.name = readers[i].model.config.name;
    model.file_bytes = readers[i].model.file->file_bytes();
    model.weight_bytes = readers[i].stage->Allocated()[Purpose::kWeights];
  }
  SPILLWAY_RETURN_IF_ERROR(CheckVocabularies(readers[0], readers[1]));
  const Tokenizer& tokenizer = *readers[0].tokenizer;
  std::vector<int32_t> tokens = tokenizer.Encode(options.text, /*parse_special=*/false);
  if (tokens.size() > options.max_tokens) tokens.resize(options.max_tokens);
  if (tokens.size() < 2)
    return InvalidArgument("the text has {} tokens; at least 2 are needed", tokens.size());
  Totals totals;
  const bool bos = tokenizer.add_bos() && tokenizer.bos().has_value();
  const size_t step = options.n_ctx - (bos ? 1 : 0);
  std::vector<int32_t> window;
  for (size_t begin = 0; begin + 1 < tokens.size(); begin += step) {
    window.clear();
    if (bos) window.push_back(*tokenizer.bos());
    const size_t end = std::min(tokens.size(), begin + step);
    window.insert(window.end(), tokens.begin() + static_cast<ptrdiff_t>(begin),
                  tokens.begin() + static_cast<ptrdiff_t>(end));
    SPILLWAY_RETURN_IF_ERROR(ReadWindow(readers, window, &totals));
  }
  totals.Finish(&result);
  result.prompt_tokens = static_cast<uint32_t>(std::min<size_t>(tokens.size(), kMaxPrompt));
  for (int i = 0; i < 2; ++i) {
    SPILLWAY_RETURN_IF_ERROR(MeasureSpeed(readers[i], std::span(tokens).first(result.prompt_tokens),
                                          options.generate, root, &result.models[i]));
  }
  return result;
}

}  // namespace spillway::cli
