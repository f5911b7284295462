// Facts in the order in which they explain: no driver, then a context that is too long, then a model that is
// too large.
#include "truth/engine.h"

#include <fmt/core.h>

#include <algorithm>

namespace spillway::truth {
namespace {

constexpr double kTolerance = 0.005;     // shares are shown in whole percents
constexpr uint64_t kContextStep = 256;   // engines round contexts to it
constexpr uint64_t kLeastContext = 512;  // a shorter one helps nobody

std::string Percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

Verdict Make(Extent extent, std::string_view cause, std::string detail, std::string remedy = {}) {
  const CauseInfo* info = FindCause(cause);
  return {extent, std::string(cause), std::move(detail),
          remedy.empty() ? std::string(info->remedy) : std::move(remedy)};
}

// The longest context with which everything would lie in the VRAM that the model has now; 0 when none would.
uint64_t FittingContext(const EngineModel& model, uint64_t vram_bytes) {
  const uint64_t state = model.context * model.state_bytes_per_token;
  if (state == 0 || state > model.total_bytes) return 0;
  const uint64_t rest = model.total_bytes - state;
  if (rest >= vram_bytes) return 0;
  const uint64_t tokens = (vram_bytes - rest) / model.state_bytes_per_token / kContextStep * kContextStep;
  return tokens >= kLeastContext && tokens < model.context ? tokens : 0;
}

Verdict JudgeModel(const EngineFacts& facts, const EngineModel& model, double share) {
  const Extent extent = share < kTolerance ? Extent::kFull : Extent::kPartial;
  std::string detail = fmt::format("{}: {} of its memory is in VRAM, {} expected", model.name, Percent(share),
                                   Percent(facts.expected_share));
  if (facts.this_host && !facts.driver_loaded) {
    return Make(
        extent, "driver_absent",
        detail + (facts.nvidia_present ? "; the machine has an NVIDIA device, its driver is not loaded"
                                       : "; the machine has no NVIDIA device"));
  }
  const bool says_more = model.vram_bytes.has_value() && facts.process_vram_bytes.has_value() &&
                         *facts.process_vram_bytes == 0 && *model.vram_bytes > 0;
  if (says_more) {
    return Make(extent, "backend_missing",
                detail + "; the engine says it uses VRAM, the driver sees none of it in use by the engine",
                "Read the engine's log for the backend it loaded, and restart it.");
  }
  const auto vram = static_cast<uint64_t>(share * static_cast<double>(model.total_bytes));
  if (const uint64_t context = FittingContext(model, vram); context > 0) {
    return Make(extent, "vram_short_context",
                fmt::format("{}; the KV cache of {} tokens does not fit", detail, model.context),
                fmt::format("Set {} to {}: that would fit into the VRAM the model has now.",
                            facts.context_option, context));
  }
  return Make(extent, "vram_short_model", std::move(detail));
}

}  // namespace

std::optional<double> VramShare(const EngineFacts& facts, const EngineModel& model) {
  if (model.total_bytes == 0) return std::nullopt;
  std::optional<uint64_t> bytes = model.vram_bytes;
  if (facts.process_vram_bytes.has_value()) {
    bytes = std::min(bytes.value_or(model.total_bytes), *facts.process_vram_bytes);
  } else if (!bytes.has_value() && facts.this_host && !facts.driver_loaded) {
    bytes = 0;  // without a driver there is nothing else
  }
  if (!bytes.has_value()) return std::nullopt;
  return std::min(1.0, static_cast<double>(*bytes) / static_cast<double>(model.total_bytes));
}

Verdict JudgeEngine(const EngineFacts& facts) {
  if (!facts.reachable) {
    return Make(Extent::kFull, "worker_unreachable", "the engine does not answer: " + facts.error,
                "Check that it runs and that its URL is right.");
  }
  Verdict worst;
  double least = 2;
  for (const EngineModel& model : facts.models) {
    const std::optional<double> share = VramShare(facts, model);
    if (!share.has_value() || *share >= facts.expected_share - kTolerance || *share >= least) continue;
    least = *share;
    worst = JudgeModel(facts, model, *share);
  }
  return worst;
}

}  // namespace spillway::truth
