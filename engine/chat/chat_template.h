// Renders a model's chat template: the subset of Jinja that published templates use, with bounded time and
// memory. Pure: no files, no clock but the `now` it is given.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace spillway {

struct ChatTemplateInput {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  nlohmann::ordered_json tools;  // null when none
  nlohmann::ordered_json extra;  // further variables (object or null)
  bool add_generation_prompt = true;
  std::string bos_token;
  std::string eos_token;
  int64_t now_unix_seconds = 0;  // for strftime_now, taken as UTC
};

// Immutable; thread-safe.
class ChatTemplate {
 public:
  // InvalidArgument with line and reason for a template that does not parse.
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> Parse(std::string_view source);
  ~ChatTemplate();

  // InvalidArgument with line and reason: raise_exception, undefined operations, limits exceeded.
  absl::StatusOr<std::string> Render(const ChatTemplateInput& input) const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace spillway
