// See chat_history.h.
#include "cli/run/chat_history.h"

namespace spillway::cli {

using Json = nlohmann::ordered_json;

Json ChatHistory::Messages(const std::string& question) const {
  Json messages = Json::array();
  const auto add = [&messages](const char* role, const std::string& content) {
    messages.push_back({{"role", role}, {"content", content}});
  };
  if (!system_.empty()) add("system", system_);
  for (const Turn& turn : turns_) {
    add("user", turn.question);
    add("assistant", turn.answer);
  }
  add("user", question);
  return messages;
}

void ChatHistory::Add(std::string question, std::string answer, uint64_t tokens) {
  const uint64_t before = Used();
  turns_.push_back({std::move(question), std::move(answer), tokens > before ? tokens - before : 0});
}

uint64_t ChatHistory::Used() const {
  uint64_t used = 0;
  for (const Turn& turn : turns_) used += turn.tokens;
  return used;
}

size_t ChatHistory::MakeRoom() {
  size_t forgotten = 0;
  if (Used() <= uint64_t{n_ctx_} * 3 / 4) return forgotten;
  while (Used() > n_ctx_ / 2 && ForgetOldest()) ++forgotten;
  return forgotten;
}

bool ChatHistory::ForgetOldest() {
  if (turns_.empty()) return false;
  turns_.pop_front();
  return true;
}

}  // namespace spillway::cli
