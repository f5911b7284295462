// The verdict on a worker: a pure function of what was planned, allocated, executed and observed. Any two
// that disagree are a fallback, with a cause and a remedy. Used by workers for readiness and by the monitor;
// knows no wire.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/ledger.h"

namespace spillway::truth {

// Values are the label values of every metric, log line and status.
struct CauseInfo {
  std::string_view id;       // "F12"
  std::string_view name;     // "vram_short_model"
  std::string_view meaning;  // one sentence
  std::string_view remedy;   // what to do
  bool alerts;               // false for states that are no fallback (requested_cpu, slow_gpu)
};

// F0..F21, in order. The one table: docs, metrics and messages read it.
std::span<const CauseInfo> Causes();
const CauseInfo* FindCause(std::string_view name);

enum class Extent : uint8_t { kNone, kPartial, kFull };
std::string_view ExtentName(Extent extent);

struct WorkerFacts {
  bool reachable = true;
  bool planned = false;  // LoadStage has been called
  bool loaded = false;
  std::string expected_device;  // "host" | "cuda"
  std::string executed_device;
  uint32_t expected_layers = 0;
  uint32_t loaded_layers = 0;
  PurposeBytes expected_bytes;
  PurposeBytes allocated_bytes;
  uint64_t rows = 0;         // forwarded since load
  uint64_t layer_steps = 0;  // executed on executed_device since load
  uint64_t allocation_failures = 0;
  uint64_t observed_bytes = 0;  // what the system says, 0 = unknown
};

struct Verdict {
  Extent extent = Extent::kNone;
  std::string cause;   // name of a row of Causes(); empty when kNone
  std::string detail;  // the two figures that disagree
  std::string remedy;
  bool fallback() const { return extent != Extent::kNone; }
};

Verdict Judge(const WorkerFacts& facts);

}  // namespace spillway::truth
