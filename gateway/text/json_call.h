// One tool call as a JSON object, read as its text arrives: {"name": …, "arguments": …} in any order, or only
// the arguments. Follows the structure of JSON byte by byte; the arguments stay as the model wrote them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace spillway {

// Thread-compatible.
class JsonCall {
 public:
  enum class State : uint8_t { kOpen, kDone, kBad };

  JsonCall() = default;
  // Only the value of the arguments follows.
  static JsonCall ArgumentsOf(std::string name);

  State Add(char c);
  State state() const { return state_; }

  const std::optional<std::string>& name() const { return name_; }
  // Arguments not taken yet. A value that is no container is taken whole, at its end, and decoded when it is
  // a string.
  std::string TakeArguments();
  bool has_arguments() const { return has_arguments_; }
  // The first key is none that calls have.
  bool foreign() const { return foreign_; }

 private:
  enum class Phase : uint8_t { kObject, kKeyOrEnd, kKey, kColon, kValueStart, kValue };
  void ValueChar(char c);
  void EndValue();

  State state_ = State::kOpen;
  Phase phase_ = Phase::kObject;
  bool only_arguments_ = false;
  bool foreign_ = false;
  std::string key_;
  std::string value_;  // of the key; arguments that stream are taken from it
  int depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
  bool scalar_ = false;
  bool has_arguments_ = false;
  bool arguments_open_ = false;
  std::string arguments_;  // complete or streaming, not taken
  std::optional<std::string> name_;
};

}  // namespace spillway
