// Rules of the verdict, strongest first: who does not answer cannot be asked for more, and layers that are
// missing or on another device explain a difference in bytes.
#include <fmt/format.h>

#include <algorithm>

#include "truth/verdict.h"

namespace spillway::truth {
namespace {

// Observed may exceed allocated by max(2 %, 64 MiB); on the host also by what any process of ours occupies.
constexpr uint64_t kObservedSlackBytes = uint64_t{64} << 20;
constexpr uint64_t kHostProcessBytes = uint64_t{256} << 20;

Verdict Fallback(Extent extent, std::string_view cause, std::string detail) {
  return {extent, std::string(cause), std::move(detail), std::string(FindCause(cause)->remedy)};
}

std::string DifferentBytes(const WorkerFacts& facts) {
  std::string detail;
  for (size_t i = 0; i < kPurposes; ++i) {
    const uint64_t expected = facts.expected_bytes.bytes[i], allocated = facts.allocated_bytes.bytes[i];
    if (expected == allocated) continue;
    detail += fmt::format("{}{}: {} bytes planned, {} allocated", detail.empty() ? "" : "; ",
                          kPurposeNames[i], expected, allocated);
  }
  return detail;
}

// Only told, not yet a verdict: the host's resident pages hold more than the ledger's.
std::string ObservedNote(const WorkerFacts& facts) {
  if (facts.observed_bytes == 0) return "";
  const uint64_t allocated = facts.allocated_bytes.Total();
  const uint64_t base = facts.executed_device == "host" ? kHostProcessBytes : 0;
  const uint64_t allowed = allocated + base + std::max(allocated / 50, kObservedSlackBytes);
  if (facts.observed_bytes <= allowed) return "";
  return fmt::format("observed: the system counts {} bytes, the ledger {}", facts.observed_bytes, allocated);
}

Verdict JudgeLayers(const WorkerFacts& facts) {
  const Extent extent = facts.loaded_layers == 0 ? Extent::kFull : Extent::kPartial;
  const std::string detail =
      fmt::format("layers: {} planned, {} loaded", facts.expected_layers, facts.loaded_layers);
  if (facts.allocation_failures == 0) return Fallback(extent, "unknown", detail);
  return Fallback(extent, "alloc_failed",
                  fmt::format("{}; {} allocations failed", detail, facts.allocation_failures));
}

}  // namespace

std::string_view ExtentName(Extent extent) {
  switch (extent) {
    case Extent::kNone:
      return "none";
    case Extent::kPartial:
      return "partial";
    case Extent::kFull:
      return "full";
  }
  return "";
}

Verdict Judge(const WorkerFacts& facts) {
  if (!facts.reachable) return Fallback(Extent::kFull, "worker_unreachable", "the worker did not answer");
  if (!facts.planned) return {};
  // While it loads nothing is there yet to compare; a refused allocation is the one thing that can already be
  // told.
  if (!facts.loaded && facts.allocation_failures == 0) return {};
  if (facts.loaded_layers < facts.expected_layers) return JudgeLayers(facts);
  if (!facts.loaded) {
    return Fallback(Extent::kFull, "alloc_failed",
                    fmt::format("the stage is not loaded; {} allocations failed", facts.allocation_failures));
  }
  if (facts.loaded_layers > facts.expected_layers) {
    return Fallback(Extent::kPartial, "unknown",
                    fmt::format("layers: {} planned, {} loaded", facts.expected_layers, facts.loaded_layers));
  }
  if (facts.executed_device != facts.expected_device) {
    return Fallback(
        Extent::kFull, "op_unsupported",
        fmt::format("device: \"{}\" planned, \"{}\" executes", facts.expected_device, facts.executed_device));
  }
  if (facts.allocated_bytes != facts.expected_bytes) {
    return Fallback(Extent::kPartial, facts.allocation_failures > 0 ? "alloc_failed" : "unknown",
                    DifferentBytes(facts));
  }
  if (const uint64_t planned_steps = facts.rows * facts.expected_layers; facts.layer_steps != planned_steps) {
    const Extent extent = facts.layer_steps == 0 ? Extent::kFull : Extent::kPartial;
    return Fallback(extent, "unknown",
                    fmt::format("layer-steps: {} rows x {} layers = {} planned, {} executed", facts.rows,
                                facts.expected_layers, planned_steps, facts.layer_steps));
  }
  Verdict verdict;
  verdict.detail = ObservedNote(facts);
  return verdict;
}

}  // namespace spillway::truth
