// The gateway's parts, built in order and taken down in reverse: model and tokenizer, the workers'
// descriptions, the plan, the pipeline, the scheduler, the listeners.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <memory>

#include "gateway/options.h"

namespace spillway::gateway {

// Start, Drain and the destructor are for one owner thread.
class Gateway {
 public:
  // `interrupted` is asked while waiting for workers; Cancelled when it says so. ResourceExhausted: the
  // planner refuses. Unavailable: a worker did not answer in time, or an address is in use.
  static absl::StatusOr<std::unique_ptr<Gateway>> Start(const GatewayOptions& options,
                                                        const std::function<bool()>& interrupted);
  ~Gateway();

  // Refuses new requests, lets running ones end within the drain timeout, stops everything. Idempotent.
  void Drain();

 private:
  struct Parts;
  explicit Gateway(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace spillway::gateway
