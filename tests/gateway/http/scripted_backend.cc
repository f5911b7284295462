#include "tests/gateway/http/scripted_backend.h"

#include <chrono>
#include <utility>

#include "tests/gateway/http/tiny_vocabulary.h"

namespace spillway::gateway::test {
namespace {
constexpr std::chrono::seconds kDeadline{20};
}  // namespace

ScriptedBackend::ScriptedBackend() : thread_([this] { Run(); }) {}

ScriptedBackend::~ScriptedBackend() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

absl::StatusOr<RequestId> ScriptedBackend::Submit(GenerationRequest request, EventSink sink) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!refusal_.ok()) return refusal_;
  const RequestId id = requests_.size() + 1;
  running_[id].sink = std::move(sink);
  running_[id].prompt_tokens = static_cast<uint32_t>(request.prompt.size());
  requests_.push_back(std::move(request));
  if (script_.has_value()) {
    tasks_.push_back([this, id, script = *script_] {
      for (const int32_t token : script.tokens) EmitToken(id, token, false);
      if (script.finish == FinishReason::kStop) EmitToken(id, kImEnd, true);
      EmitDone(id, script.finish, script.error);
    });
  }
  changed_.notify_all();
  return id;
}

void ScriptedBackend::Cancel(RequestId id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  running_[id].is_cancelled = true;
  tasks_.push_back([this, id] { EmitDone(id, FinishReason::kCancelled, absl::OkStatus()); });
  changed_.notify_all();
}

bool ScriptedBackend::Ready(std::string* why_not) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  *why_not = not_ready_;
  return not_ready_.empty();
}

void ScriptedBackend::SetScript(std::optional<Script> script) {
  const std::lock_guard<std::mutex> lock(mutex_);
  script_ = std::move(script);
}

void ScriptedBackend::SetRefusal(absl::Status refusal) {
  const std::lock_guard<std::mutex> lock(mutex_);
  refusal_ = std::move(refusal);
}

void ScriptedBackend::SetNotReady(std::string why_not) {
  const std::lock_guard<std::mutex> lock(mutex_);
  not_ready_ = std::move(why_not);
}

void ScriptedBackend::Token(RequestId id, int32_t token) {
  Post([this, id, token] { EmitToken(id, token, token == kImEnd); });
}

void ScriptedBackend::Finish(RequestId id, FinishReason finish, absl::Status error) {
  Post([this, id, finish, error = std::move(error)] { EmitDone(id, finish, error); });
}

bool ScriptedBackend::WaitForRequests(size_t count) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, kDeadline, [&] { return requests_.size() >= count; });
}

bool ScriptedBackend::WaitForCancel(RequestId id) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, kDeadline, [&] { return running_[id].is_cancelled; });
}

bool ScriptedBackend::IsCancelled(RequestId id) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = running_.find(id);
  return it != running_.end() && it->second.is_cancelled;
}

size_t ScriptedBackend::requests() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return requests_.size();
}

size_t ScriptedBackend::running() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  size_t count = 0;
  for (const auto& [id, entry] : running_) count += entry.is_done ? 0 : 1;
  return count;
}

GenerationRequest ScriptedBackend::request(RequestId id) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return requests_.at(id - 1);
}

void ScriptedBackend::Post(std::function<void()> task) {
  const std::lock_guard<std::mutex> lock(mutex_);
  tasks_.push_back(std::move(task));
  changed_.notify_all();
}

void ScriptedBackend::Run() {
  for (;;) {
    std::function<void()> task;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

void ScriptedBackend::EmitToken(RequestId id, int32_t token, bool is_stop) {
  GenerationEvent event;
  event.kind = GenerationEvent::Kind::kToken;
  event.token = {token, -0.5f};
  event.is_stop = is_stop;
  EventSink sink;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Running& entry = running_[id];
    if (entry.is_done || entry.is_cancelled) return;
    ++entry.generated;
    for (uint32_t i = 0; i < requests_[id - 1].sampling.n_logprobs; ++i) {
      event.top.push_back({token + static_cast<int32_t>(i), -0.5f - static_cast<float>(i)});
    }
    sink = entry.sink;
  }
  sink(event);
}

void ScriptedBackend::EmitDone(RequestId id, FinishReason finish, const absl::Status& error) {
  GenerationEvent event;
  event.kind = GenerationEvent::Kind::kDone;
  event.finish = finish;
  event.error = error;
  event.timings = {0.5, 0.25, 2.0};
  EventSink sink;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Running& entry = running_[id];
    if (entry.is_done) return;
    entry.is_done = true;
    event.prompt_tokens = entry.prompt_tokens;
    event.generated_tokens = entry.generated;
    sink.swap(entry.sink);
  }
  sink(event);
  changed_.notify_all();
}

}  // namespace spillway::gateway::test
