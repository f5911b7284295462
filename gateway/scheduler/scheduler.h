// The scheduler: one thread owns every sequence, forms micro-batches and keeps as many in flight as there are
// stages. It speaks tokens; text, HTTP and gRPC live above it.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/grammar/constraint.h"
#include "engine/sampling/sampling_params.h"

namespace spillway::gateway {

using RequestId = uint64_t;

struct GenerationRequest {
  std::vector<int32_t> prompt;    // at least one token
  SamplingParams sampling;        // seed already drawn
  uint32_t max_tokens = 0;        // 0 = to the end of the context
  std::vector<int32_t> stop_ids;  // generation ends with finish "stop" when one is drawn
  bool ignore_eos = false;        // stop_ids do not end it
  // What the answer must look like. It ends where it is complete, whatever ignore_eos and min_tokens say.
  std::shared_ptr<grammar::Constraint> constraint = nullptr;
};

enum class FinishReason : uint8_t { kStop, kLength, kCancelled, kError };

struct GenerationTimings {  // seconds on the steady clock
  double queue = 0;         // submitted until its first prefill row was sent
  double prefill = 0;       // until the first token
  double decode = 0;        // first token until the last
};

// Delivered in the scheduler's turn: sinks must return at once (post elsewhere) and may call Cancel.
struct GenerationEvent {
  enum class Kind : uint8_t { kToken, kDone } kind = Kind::kToken;
  // kToken
  TokenLogprob token;
  std::vector<TokenLogprob> top;
  bool is_stop = false;  // the token is a stop id (it is not part of the text)
  // kDone, exactly once and last
  FinishReason finish = FinishReason::kStop;
  absl::Status error;  // with kError: Unavailable = 503, ResourceExhausted = 429, else 500
  uint32_t prompt_tokens = 0;
  uint32_t generated_tokens = 0;
  GenerationTimings timings;
};
using EventSink = std::function<void(const GenerationEvent&)>;

// Thread-safe façade that the API layers hold. Submit may be called from any thread.
class GenerationBackend {
 public:
  virtual ~GenerationBackend() = default;
  // InvalidArgument: the prompt does not fit the context, bad parameters. ResourceExhausted: the queue is
  // full. Unavailable: no worker is ready, or draining; the message says which and why. On success the sink
  // will be called.
  virtual absl::StatusOr<RequestId> Submit(GenerationRequest request, EventSink sink) = 0;
  virtual void Cancel(RequestId id) = 0;  // unknown ids are ignored
  virtual bool Ready(std::string* why_not) const = 0;
};

}  // namespace spillway::gateway
