// See conversation.h.
#include "cli/run/conversation.h"

#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>

#include "engine/base/status.h"

namespace spillway::cli {
namespace {

constexpr int kPollMs = 100;
constexpr char kHelp[] =
    "/clear  forget the conversation\n/bye    leave (also Ctrl-D)\n/help   this list\nAnything else is "
    "asked.\n";

void Print(std::string_view text) {
  fmt::print("{}", text);
  std::fflush(stdout);
}

void Note(const std::string& text) {
  std::fflush(stdout);
  fmt::print(stderr, "spillway: {}\n", text);
}

std::string Turns(size_t count) {
  return count == 1 ? "the oldest turn is" : fmt::format("the {} oldest turns are", count);
}

}  // namespace

absl::StatusOr<Answer> Conversation::Say(const std::string& question) {
  size_t forgotten = history_.MakeRoom();
  while (true) {
    if (forgotten > 0) {
      Note(fmt::format("the context of {} tokens is full: {} forgotten", options_.n_ctx, Turns(forgotten)));
    }
    absl::StatusOr<Answer> answer =
        Ask(options_.api_address, history_.Messages(question), options_.ask, [this](std::string_view piece) {
          Print(piece);
          return !stopping_();  // leaving frees the gateway at once
        });
    if (absl::IsOutOfRange(answer.status()) && history_.ForgetOldest()) {
      forgotten = 1;
      continue;
    }
    if (!answer.ok()) return answer;
    Print("\n");
    SayWhatWasCut(*answer);
    history_.Add(question, answer->text, answer->prompt_tokens + answer->generated_tokens);
    return answer;
  }
}

void Conversation::SayWhatWasCut(const Answer& answer) const {
  if (answer.finish_reason != "length") return;
  if (answer.prompt_tokens + answer.generated_tokens >= options_.n_ctx) {
    Note(fmt::format("the answer ends here because the context of {} tokens is full; --ctx-size sets it",
                     options_.n_ctx));
  } else {
    Note(fmt::format("the answer ends here after the {} tokens that --predict allows",
                     answer.generated_tokens));
  }
}

void Conversation::Chat(const std::function<void(const Answer&)>& on_answer) {
  Print("Chat: /help lists the commands, /bye or Ctrl-D leaves.\n");
  while (true) {
    Print("> ");
    const auto line = ReadLine();
    if (!line.has_value() || *line == "/bye") break;
    if (line->empty() || RunCommand(*line)) continue;
    const auto answer = Say(*line);
    if (answer.ok()) {
      on_answer(*answer);
    } else if (stopping_()) {
      break;
    } else {
      Note(MessageOf(answer.status()));
    }
  }
  Print("\n");
}

bool Conversation::RunCommand(const std::string& line) {
  // A path or a sentence that begins with a slash is a question.
  if (line[0] != '/' || line.find_first_of(" /", 1) != std::string::npos) return false;
  if (line == "/clear") {
    history_.Clear();
    Print("Forgotten.\n");
  } else if (line == "/help" || line == "/?") {
    Print(kHelp);
  } else {
    Print(fmt::format("{} is no command.\n{}", line, kHelp));
  }
  return true;
}

std::optional<std::string> Conversation::ReadLine() const {
  std::string line;
  while (!stopping_()) {
    pollfd input = {STDIN_FILENO, POLLIN, 0};
    if (poll(&input, 1, kPollMs) <= 0) continue;
    char c = 0;
    if (read(STDIN_FILENO, &c, 1) <= 0) return std::nullopt;
    if (c == '\n') return line;
    line += c;
  }
  return std::nullopt;
}

}  // namespace spillway::cli
