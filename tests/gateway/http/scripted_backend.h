// A GenerationBackend whose tokens a test dictates: a script that every request plays at once, or token by
// token by hand. Events come from a thread of its own, as the scheduler's do.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gateway/scheduler/scheduler.h"

namespace spillway::gateway::test {

// Thread-safe. Every wait has a deadline of 20 s and then answers false.
class ScriptedBackend : public GenerationBackend {
 public:
  struct Script {
    std::vector<int32_t> tokens;
    FinishReason finish = FinishReason::kStop;  // kStop draws a stop id at the end
    absl::Status error;
  };

  ScriptedBackend();
  ~ScriptedBackend() override;

  // GenerationBackend
  absl::StatusOr<RequestId> Submit(GenerationRequest request, EventSink sink) override;
  void Cancel(RequestId id) override;
  bool Ready(std::string* why_not) const override;

  // Requests submitted from now on play it; without one they wait for Token and Finish.
  void SetScript(std::optional<Script> script);
  void SetRefusal(absl::Status refusal);  // of Submit; OK = none
  void SetNotReady(std::string why_not);  // "" = ready

  void Token(RequestId id, int32_t token);
  void Finish(RequestId id, FinishReason finish, absl::Status error = absl::OkStatus());

  bool WaitForRequests(size_t count);  // submitted so far
  bool WaitForCancel(RequestId id);
  bool IsCancelled(RequestId id) const;
  size_t requests() const;
  size_t running() const;
  GenerationRequest request(RequestId id) const;  // ids count from 1

 private:
  struct Running {
    EventSink sink;
    uint32_t prompt_tokens = 0;
    uint32_t generated = 0;
    bool is_done = false;
    bool is_cancelled = false;
  };
  void Post(std::function<void()> task);
  void Run();
  void EmitToken(RequestId id, int32_t token, bool is_stop);
  void EmitDone(RequestId id, FinishReason finish, const absl::Status& error);

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::optional<Script> script_;
  absl::Status refusal_;
  std::string not_ready_;
  std::vector<GenerationRequest> requests_;
  std::map<RequestId, Running> running_;
  std::deque<std::function<void()>> tasks_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace spillway::gateway::test
