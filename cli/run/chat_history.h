// The turns of a conversation, as many of them as the context holds. Knows no HTTP and no terminal.
#pragma once

#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <string>

namespace spillway::cli {

class ChatHistory {
 public:
  // system: the system message, kept whatever is forgotten; empty for none. n_ctx: tokens of a sequence.
  ChatHistory(std::string system, uint32_t n_ctx) : system_(std::move(system)), n_ctx_(n_ctx) {}

  // `messages` of a request that asks `question` next.
  nlohmann::ordered_json Messages(const std::string& question) const;
  // tokens: of the whole sequence at the end of this answer.
  void Add(std::string question, std::string answer, uint64_t tokens);
  // Past three quarters of the context the oldest turns go until half of it is free: one long forgetting now
  // and then, rather than a short one every turn, which would have the whole prompt computed anew each time.
  // Returns how many went.
  size_t MakeRoom();
  bool ForgetOldest();  // false when there is none
  void Clear() { turns_.clear(); }

  size_t turns() const { return turns_.size(); }

 private:
  struct Turn {
    std::string question, answer;
    uint64_t tokens = 0;  // that it added to the sequence
  };
  uint64_t Used() const;

  const std::string system_;
  const uint32_t n_ctx_;
  std::deque<Turn> turns_;
};

}  // namespace spillway::cli
