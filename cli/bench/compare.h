// Two files of one model against each other: what the smaller quantization costs in quality and what it
// brings in speed. Runs both on the host backend in this process. Prints nothing.
#pragma once

#include <absl/status/statusor.h>

#include <array>
#include <cstdint>
#include <string>

#include "device/files.h"

namespace spillway::cli {

struct CompareOptions {
  std::string models[2];  // GGUF files; the first is the measure of the second
  std::string text;       // what both read, as it is
  uint32_t n_ctx = 512;   // the text is read in windows of this many tokens
  uint32_t max_tokens = 2048;
  uint32_t generate = 32;  // tokens for the decode rate
  uint32_t threads = 1;
};

struct ComparedModel {
  std::string name;
  uint64_t file_bytes = 0;
  uint64_t weight_bytes = 0;  // as held in memory
  double perplexity = 0;      // of the text
  double prefill_tokens_per_second = 0;
  double ttft_seconds = 0;  // of the prefill's prompt
  double decode_tokens_per_second = 0;
  double joules_per_token = 0;  // of decoding, the processor packages' energy; 0 = not readable here
};

// Over all positions whose next token is known.
struct Comparison {
  std::array<ComparedModel, 2> models;
  uint32_t positions = 0;
  uint32_t prompt_tokens = 0;                                 // of the prefill that was timed
  double kl_mean = 0, kl_median = 0, kl_p99 = 0, kl_max = 0;  // of the second from the first, nats
  double same_top = 0;                                        // share with the same most likely token
};

// InvalidArgument: the vocabularies differ, or the text has fewer than two tokens.
absl::StatusOr<Comparison> Compare(const CompareOptions& options, const device::Root& root);

}  // namespace spillway::cli
