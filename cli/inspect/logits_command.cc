// `spillway logits`: the logits of every position of a prompt given as token ids, from stages in this
// process. The same tokens through any split, thread count or ISA level give the same file (law 1).
#include <fmt/core.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>

#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/exit_code.h"
#include "cli/inspect/number_list.h"
#include "engine/base/status.h"
#include "engine/cpu/host_stage.h"
#include "engine/ref/ref_stage.h"
#include "engine/stage/local_pipeline.h"
#include "engine/stage/units_text.h"

namespace spillway::cli {
namespace {

struct LogitsOptions {
  std::string model;
  std::string tokens;
  std::string backend = "host";
  std::string split;
  std::string isa;
  std::string cache_type_k = "f16";
  std::string cache_type_v = "f16";
  std::string out;
  uint32_t threads = 1;
  uint32_t ctx_size = 0;
  uint32_t chunk = kMaxLogitRows;
};

// What the arguments mean for this model.
struct Request {
  std::vector<int32_t> tokens;
  std::vector<StageUnits> units;
  StageOptions options;
};

absl::StatusOr<std::vector<StageUnits>> UnitsOf(const std::string& split, const Model& model) {
  const uint32_t n_layer = model.config.n_layer;
  std::vector<uint32_t> begins = {0};
  if (!split.empty()) {
    SPILLWAY_ASSIGN_OR_RETURN(const auto points,
                              ParseNumberList("--split", split, std::numeric_limits<uint32_t>::max()));
    for (size_t i = 0; i < points.size(); ++i) {
      if (points[i] >= n_layer) {
        return InvalidArgument("--split: no stage can begin at block {}: {} has {} blocks, 0 to {}",
                               points[i], model.config.name, n_layer, n_layer - 1);
      }
      if (i > 0 && points[i] <= points[i - 1]) {
        return InvalidArgument("--split: {} after {}; blocks must ascend", points[i], points[i - 1]);
      }
    }
    begins.insert(begins.end(), points.begin(), points.end());
  }
  std::vector<StageUnits> units;
  for (size_t i = 0; i < begins.size(); ++i) {
    const bool last = i + 1 == begins.size();
    units.push_back({begins[i], last ? n_layer : begins[i + 1], i == 0, last});
  }
  return units;
}

absl::StatusOr<std::vector<int32_t>> TokensOf(const std::string& list, const Model& model, uint32_t n_ctx) {
  SPILLWAY_ASSIGN_OR_RETURN(const auto ids,
                            ParseNumberList("--tokens", list, std::numeric_limits<int32_t>::max()));
  if (n_ctx != 0 && ids.size() > n_ctx) {
    return InvalidArgument("--tokens: {} tokens are longer than the context of {}", ids.size(), n_ctx);
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= model.config.n_vocab) {
      return InvalidArgument("--tokens: element {} is {}, but {} has {} tokens, 0 to {}", i + 1, ids[i],
                             model.config.name, model.config.n_vocab, model.config.n_vocab - 1);
    }
  }
  return std::vector<int32_t>(ids.begin(), ids.end());
}

absl::StatusOr<Request> Resolve(const LogitsOptions& options, const Model& model) {
  Request request;
  uint32_t n_ctx = model.config.n_ctx_train;
  if (options.ctx_size != 0) n_ctx = n_ctx == 0 ? options.ctx_size : std::min(n_ctx, options.ctx_size);
  SPILLWAY_ASSIGN_OR_RETURN(request.tokens, TokensOf(options.tokens, model, n_ctx));
  SPILLWAY_ASSIGN_OR_RETURN(request.units, UnitsOf(options.split, model));
  request.options.n_ctx = static_cast<uint32_t>(request.tokens.size());
  request.options.kv_pages = PagesFor(request.options.n_ctx);
  request.options.max_sequences = 1;
  request.options.max_rows = options.chunk;
  request.options.threads = options.threads;
  SPILLWAY_ASSIGN_OR_RETURN(request.options.cache_type_k, ParseCacheType(options.cache_type_k));
  SPILLWAY_ASSIGN_OR_RETURN(request.options.cache_type_v, ParseCacheType(options.cache_type_v));
  return request;
}

absl::StatusOr<std::unique_ptr<Stage>> MakeStage(const LogitsOptions& options, const Model& model,
                                                 const StageUnits& units, const StageOptions& stage,
                                                 Ledger& ledger) {
  if (options.backend == "ref") return ref::CreateRefStage(model, units, stage);
  if (options.isa.empty()) return cpu::CreateHostStage(model, units, stage, ledger);
  for (const cpu::Isa isa : {cpu::Isa::kScalar, cpu::Isa::kAvx2}) {
    if (cpu::IsaName(isa) == options.isa) return cpu::CreateHostStageOn(isa, model, units, stage, ledger);
  }
  return InvalidArgument("--isa {}: not a level of the host backend (scalar, avx2)", options.isa);
}

absl::Status WriteFloats(const std::vector<float>& values, const std::string& path) {
  static_assert(std::endian::native == std::endian::little, "the file is little-endian");
  std::FILE* file = path == "-" ? stdout : std::fopen(path.c_str(), "wb");
  if (file == nullptr) return Unavailable("--out {}: {}", path, std::strerror(errno));
  bool written = std::fwrite(values.data(), sizeof(float), values.size(), file) == values.size();
  written = (file == stdout ? std::fflush(file) : std::fclose(file)) == 0 && written;
  if (!written)
    return Unavailable("--out {}: could not write {} bytes: {}", path, values.size() * sizeof(float),
                       std::strerror(errno));
  return absl::OkStatus();
}

int RunLogits(const LogitsOptions& options) {
  const auto model = LoadModel(options.model);
  if (!model.ok()) return FailWith(model.status());
  const auto request = Resolve(options, *model);
  if (!request.ok()) return FailUsage(request.status());
  Ledger ledger;
  std::vector<std::unique_ptr<Stage>> stages;
  std::vector<Stage*> pointers;
  for (const StageUnits& units : request->units) {
    auto stage = MakeStage(options, *model, units, request->options, ledger);
    if (!stage.ok()) return FailWith(stage.status());
    pointers.push_back(stage->get());
    stages.push_back(std::move(*stage));
  }
  const auto logits = AllLogits(pointers, request->tokens, options.chunk);
  if (!logits.ok()) return FailWith(logits.status());
  const absl::Status written = WriteFloats(*logits, options.out);
  if (!written.ok()) return FailWith(written);
  fmt::print(stderr, "{}: {} positions x {} tokens, {} backend, {} stage(s) -> {}\n", model->config.name,
             request->tokens.size(), model->config.n_vocab, options.backend, stages.size(), options.out);
  return kOk;
}

}  // namespace

void AddLogitsCommand(CommandLine& line) {
  auto options = std::make_shared<LogitsOptions>();
  line.AddCommand(
      "logits", "Write the logits of every position of a prompt of token ids, computed in this process",
      {Required({"-m,--model", &options->model, "GGUF file"}),
       Required({"--tokens", &options->tokens, "Token ids, comma-separated: 1,2,3"}),
       OneOf({"--backend", &options->backend, "ref (double precision) or host (SIMD kernels)"},
             {"ref", "host"}),
       {"--split", &options->split, "Blocks where a further stage begins: 2,5"},
       {"-t,--threads", &options->threads, "Compute threads of a host stage", 1, 1024},
       OneOf({"--isa", &options->isa, "Kernel level of the host backend: scalar or avx2 (default: the best)"},
             {"scalar", "avx2"}),
       OneOf({"--cache-type-k", &options->cache_type_k, "Keys of a host stage: f16 or q8_0 (also -ctk)"},
             {"f16", "q8_0"}),
       OneOf({"--cache-type-v", &options->cache_type_v, "Values of a host stage (also -ctv)"},
             {"f16", "q8_0"}),
       {"-c,--ctx-size", &options->ctx_size, "Refuse longer prompts (default: the model's context)"},
       {"--chunk", &options->chunk, "Rows per micro-batch; never changes the result", 1, kMaxLogitRows},
       Required({"--out", &options->out,
                 "File for raw little-endian float32, row-major [positions, n_vocab]; - = stdout"})},
      [options] { return RunLogits(*options); });
}

}  // namespace spillway::cli
