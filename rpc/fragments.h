// Cuts micro-batches and replies into messages of at most 1 MiB of payload and joins them again, each
// fragment checked against the bound its first one set. Knows no streams; confined to the thread that reads
// one stream.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "spillway/v1/worker.pb.h"

namespace spillway::rpc {

inline constexpr uint64_t kMaxFragmentBytes = uint64_t{1} << 20;  // of payload in one message
inline constexpr uint64_t kMaxForwardBytes = uint64_t{64} << 20;  // of a joined micro-batch

// What a loaded stage takes.
struct ForwardLimits {
  uint32_t max_rows = 0;
  uint32_t n_embd = 0;
  bool takes_activations = false;  // false on the stage that holds the embedding
};

std::vector<v1::ClientFrame> SplitForward(v1::Forward forward);
// `timings` and the other scalars stand in every fragment.
std::vector<v1::WorkerFrame> SplitReply(v1::ForwardReply reply);

// Server side. A refused step is reported once; its remaining fragments are swallowed.
class ForwardJoiner {
 public:
  struct Refusal {
    uint64_t step = 0;
    absl::Status status;
  };
  explicit ForwardJoiner(const ForwardLimits& limits) : limits_(limits) {}

  // Returns the micro-batch when `fragment` completes it, well-formed in segments and bytes. `refusals` gets
  // the steps that failed (two when a new step cut an incomplete one off).
  std::unique_ptr<v1::Forward> Add(v1::Forward fragment, std::vector<Refusal>* refusals);

 private:
  std::unique_ptr<v1::Forward> Begin(v1::Forward fragment, std::vector<Refusal>* refusals);
  std::unique_ptr<v1::Forward> Continue(v1::Forward fragment, std::vector<Refusal>* refusals);
  void Refuse(const v1::Forward& fragment, absl::Status status, std::vector<Refusal>* refusals);

  const ForwardLimits limits_;
  std::unique_ptr<v1::Forward> pending_;
  uint64_t expected_bytes_ = 0;
  std::optional<uint64_t> discarded_step_;
};

// Client side: joins the fragments of one step after another.
class ReplyJoiner {
 public:
  // max_bytes bounds activations and logits of the step. On completion `whole` holds the reply and `complete`
  // is true.
  absl::Status Add(v1::ForwardReply fragment, uint64_t max_bytes, v1::ForwardReply* whole, bool* complete);

 private:
  std::unique_ptr<v1::ForwardReply> pending_;
  uint64_t bytes_ = 0;
};

}  // namespace spillway::rpc
