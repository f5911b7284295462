// The verdict on an engine that is not ours (Ollama, llama-server), from what it says of itself and what the
// system says of its process. Pure; the same causes as for our workers, remedies in the engine's own words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "truth/verdict.h"

namespace spillway::truth {

struct EngineModel {
  std::string name;
  uint64_t total_bytes = 0;            // weights, state and buffers; 0 = unknown
  std::optional<uint64_t> vram_bytes;  // as the engine says; unset where it does not
  uint64_t context = 0;                // tokens; 0 = unknown
  uint64_t state_bytes_per_token = 0;  // of the KV cache; 0 = unknown
};

struct EngineFacts {
  bool reachable = true;
  std::string error;
  std::string context_option;       // what its users call the context: "num_ctx", "--ctx-size"
  std::vector<EngineModel> models;  // loaded ones
  double expected_share = 1;        // of a model's bytes in VRAM
  bool this_host = false;           // the facts below are of its machine
  bool nvidia_present = false;
  bool driver_loaded = false;
  std::optional<uint64_t> process_vram_bytes;  // what the driver says; unset = unknown
};

// The share of the model's bytes in VRAM, 0 to 1: the lower of what the engine says and what the driver says.
// Unset when nobody says anything.
std::optional<double> VramShare(const EngineFacts& facts, const EngineModel& model);

// Of the worst of its models; kNone when none is loaded.
Verdict JudgeEngine(const EngineFacts& facts);

}  // namespace spillway::truth
