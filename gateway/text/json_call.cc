#include "gateway/text/json_call.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace spillway {
namespace {

using nlohmann::json;

bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
bool IsArguments(std::string_view key) { return key == "arguments" || key == "parameters"; }
bool BelongsToCalls(std::string_view key) {
  return key == "name" || key == "type" || key == "id" || key == "function" || IsArguments(key);
}

}  // namespace

JsonCall JsonCall::ArgumentsOf(std::string name) {
  JsonCall call;
  call.only_arguments_ = true;
  call.name_ = std::move(name);
  call.key_ = "arguments";
  call.phase_ = Phase::kValueStart;
  return call;
}

JsonCall::State JsonCall::Add(char c) {
  if (state_ != State::kOpen) return state_;
  switch (phase_) {
    case Phase::kObject:
      if (c == '{') {
        phase_ = Phase::kKeyOrEnd;
      } else if (!IsSpace(c)) {
        state_ = State::kBad;
      }
      break;
    case Phase::kKeyOrEnd:
      if (c == '"') {
        phase_ = Phase::kKey;
        key_.clear();
      } else if (c == '}') {
        state_ = State::kDone;
      } else if (!IsSpace(c) && c != ',') {
        state_ = State::kBad;
      }
      break;
    case Phase::kKey:
      if (c == '"') {
        phase_ = Phase::kColon;
        if (!name_.has_value() && !has_arguments_ && !BelongsToCalls(key_)) foreign_ = true;
      } else {
        key_ += c;
      }
      break;
    case Phase::kColon:
      if (c == ':') {
        phase_ = Phase::kValueStart;
      } else if (!IsSpace(c)) {
        state_ = State::kBad;
      }
      break;
    case Phase::kValueStart:
      if (IsSpace(c)) break;
      if (c == ',' || c == '}' || c == ']' || c == ':') {
        state_ = State::kBad;
        break;
      }
      phase_ = Phase::kValue;
      value_.clear();
      depth_ = 0;
      in_string_ = escaped_ = false;
      scalar_ = c != '{' && c != '[';
      arguments_open_ = IsArguments(key_) && !scalar_ && !has_arguments_;
      has_arguments_ = has_arguments_ || arguments_open_;
      ValueChar(c);
      break;
    case Phase::kValue:
      ValueChar(c);
      break;
  }
  return state_;
}

void JsonCall::ValueChar(char c) {
  const bool ends_scalar =
      scalar_ && !in_string_ && !value_.empty() && (IsSpace(c) || c == ',' || c == '}' || c == ']');
  if (ends_scalar) {
    EndValue();
    if (state_ == State::kOpen && c == '}') state_ = State::kDone;
    return;
  }
  (arguments_open_ ? arguments_ : value_) += c;
  if (in_string_) {
    if (escaped_) {
      escaped_ = false;
    } else if (c == '\\') {
      escaped_ = true;
    } else if (c == '"') {
      in_string_ = false;
      if (depth_ == 0) EndValue();
    }
    return;
  }
  if (c == '"') in_string_ = true;
  if (c == '{' || c == '[') ++depth_;
  if ((c == '}' || c == ']') && --depth_ == 0) EndValue();
}

void JsonCall::EndValue() {
  phase_ = Phase::kKeyOrEnd;
  if (arguments_open_) {
    arguments_open_ = false;
  } else if (key_ == "name" || IsArguments(key_)) {
    const json value = json::parse(value_, nullptr, /*allow_exceptions=*/false);
    if (key_ == "name") {
      if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
        state_ = State::kBad;
      } else if (!name_.has_value()) {
        name_ = value.get<std::string>();
      }
    } else if (!value.is_null() && !value.is_discarded() && !has_arguments_) {
      has_arguments_ = true;
      arguments_ = value.is_string() ? value.get<std::string>() : value_;
    }
  }
  if (only_arguments_ && state_ == State::kOpen) state_ = State::kDone;
}

std::string JsonCall::TakeArguments() { return std::exchange(arguments_, {}); }

}  // namespace spillway
