// A conversation with the cluster on the terminal: questions, answers as they come, the few commands of a
// chat. Knows the API's address only.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <optional>
#include <string>

#include "cli/run/chat_client.h"
#include "cli/run/chat_history.h"

namespace spillway::cli {

struct ConversationOptions {
  std::string api_address;  // host:port
  std::string system;       // message; may be empty
  AskOptions ask;
  uint32_t n_ctx = 0;
};

// Confined to one thread.
class Conversation {
 public:
  // stopping: asked at every piece of an answer and while a line is awaited; true breaks off.
  Conversation(ConversationOptions options, std::function<bool()> stopping)
      : options_(std::move(options)),
        stopping_(std::move(stopping)),
        history_(options_.system, options_.n_ctx) {}

  // Asks and prints the answer as it comes. A full context costs the oldest turns, which is said.
  absl::StatusOr<Answer> Say(const std::string& question);
  // Questions from standard input until /bye or its end. `on_answer` is called after each answer.
  void Chat(const std::function<void(const Answer&)>& on_answer);

 private:
  std::optional<std::string> ReadLine() const;
  bool RunCommand(const std::string& line);  // false: it is no command
  void SayWhatWasCut(const Answer& answer) const;

  const ConversationOptions options_;
  const std::function<bool()> stopping_;
  ChatHistory history_;
};

}  // namespace spillway::cli
