#include "gateway/text/call_parser.h"

#include <utility>

#include "gateway/text/marker.h"

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;
using Kind = OutputDelta::Kind;

constexpr size_t kMaxNameBytes = 256;
constexpr std::string_view kArgumentsMarker = "[ARGS]";
constexpr std::string_view kCallIdMarker = "[CALL_ID]";

bool IsName(std::string_view name) {
  if (name.empty() || name.size() > kMaxNameBytes) return false;
  return name.find_first_of(" \n\r\t<>{}[]\"") == std::string_view::npos;
}

std::string_view Trimmed(std::string_view text) {
  return WithoutTrailingBlanks(text.substr(LeadingBlanks(text)));
}

// A schema's types; all of them where it names none.
bool Allows(const Json& schema, std::string_view type) {
  if (!schema.is_object()) return true;
  const auto it = schema.find("type");
  if (it == schema.end()) return type != "string";
  if (it->is_string()) return it->get_ref<const std::string&>() == type;
  if (!it->is_array()) return true;
  for (const Json& entry : *it) {
    if (entry.is_string() && entry.get_ref<const std::string&>() == type) return true;
  }
  return false;
}

}  // namespace

ToolSet::ToolSet(const Json& tools) {
  if (!tools.is_array()) return;
  for (const Json& tool : tools) {
    const Json& function = tool.at("function");
    const auto parameters = function.find("parameters");
    Json properties = Json::object();
    if (parameters != function.end() && parameters->is_object()) {
      const auto it = parameters->find("properties");
      if (it != parameters->end() && it->is_object()) properties = *it;
    }
    parameters_[function.at("name").get<std::string>()] = std::move(properties);
  }
}

std::string ToolSet::ValueJson(std::string_view function, std::string_view parameter,
                               std::string_view text) const {
  const auto dump = [](const Json& value) {
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  const auto tool = parameters_.find(function);
  const Json* schema = nullptr;
  if (tool != parameters_.end()) {
    const auto it = tool->second.find(std::string(parameter));
    if (it != tool->second.end()) schema = &*it;
  }
  if (schema != nullptr && Allows(*schema, "string")) return dump(std::string(text));
  const Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return value.is_discarded() ? dump(std::string(text)) : std::string(Trimmed(text));
}

CallParser::CallParser(const CallStyle& style, const ToolSet& tools, std::string opener, bool bare)
    : style_(style), tools_(tools), bare_(bare), raw_(std::move(opener)) {
  if (style.syntax == CallSyntax::kNameThenJson || style.syntax == CallSyntax::kTagged) step_ = Step::kName;
}

CallParser::Result CallParser::Consume(std::string& pending, bool end, bool cut,
                                       std::vector<OutputDelta>& out) {
  cut_ = cut;
  for (;;) {
    const Step before = step_;
    Result result = Result::kMore;
    switch (step_) {
      case Step::kItem:
        result = ConsumeItem(pending, end);
        break;
      case Step::kJson:
        result = ConsumeJson(pending, end, out);
        break;
      case Step::kName:
        result = style_.syntax == CallSyntax::kTagged ? ConsumeName(pending, end, out)
                                                      : ConsumePlainName(pending, end, out);
        break;
      case Step::kKey:
        result = ConsumeKey(pending, end, out);
        break;
      case Step::kValue:
        result = ConsumeValue(pending, end, out);
        break;
      case Step::kClose:
        result = ConsumeClose(pending, end);
        break;
    }
    if (result != Result::kMore || step_ == before) return result;
  }
}

CallParser::Result CallParser::Cut(std::string& pending) {
  const std::string rest = std::exchange(pending, {});
  if (begun_) return Result::kDone;
  raw_ += rest;
  // The beginning of a call that was marked as one is no content, unless the model meant it to end so.
  return cut_ && !bare_ ? Result::kDone : Result::kNotACall;
}

CallParser::Result CallParser::BeginCall(std::string name, Step next, std::vector<OutputDelta>& out) {
  begun_ = true;
  raw_.clear();
  name_ = name;
  first_value_ = true;
  out.push_back({Kind::kCall, std::move(name)});
  step_ = next;
  return Result::kMore;
}

// Before an object: blanks, and the bracket of a list.
CallParser::Result CallParser::ConsumeItem(std::string& pending, bool end) {
  size_t at = LeadingBlanks(pending);
  if (style_.syntax == CallSyntax::kJsonList && !in_list_ && at < pending.size() && pending[at] == '[') {
    in_list_ = true;
    at = at + 1 + LeadingBlanks(std::string_view(pending).substr(at + 1));
  }
  if (!begun_) raw_ += pending.substr(0, at);
  pending.erase(0, at);
  if (pending.empty()) return end ? Cut(pending) : Result::kMore;
  if (pending[0] == '{') {
    call_ = JsonCall();
    begun_ = false;
    step_ = Step::kJson;
    return Result::kMore;
  }
  if (begun_ || raw_.empty()) return Result::kDone;
  return Result::kNotACall;
}

CallParser::Result CallParser::ConsumeJson(std::string& pending, bool end, std::vector<OutputDelta>& out) {
  size_t used = 0;
  Result result = Result::kMore;
  while (used < pending.size() && call_.state() == JsonCall::State::kOpen && result == Result::kMore) {
    const char c = pending[used++];
    if (!begun_) raw_ += c;
    call_.Add(c);
    if (bare_ && !begun_ && call_.foreign()) result = Result::kNotACall;
    if (begun_ || !call_.name().has_value()) continue;
    if (bare_ && !tools_.Has(*call_.name())) {
      result = Result::kNotACall;
    } else {
      BeginCall(*call_.name(), Step::kJson, out);
    }
  }
  pending.erase(0, used);
  if (result != Result::kMore) return result;
  if (begun_) {
    std::string arguments = call_.TakeArguments();
    if (call_.state() != JsonCall::State::kOpen && !call_.has_arguments()) arguments = "{}";
    if (!arguments.empty()) out.push_back({Kind::kArguments, std::move(arguments)});
  }
  if (call_.state() == JsonCall::State::kOpen) return end ? Cut(pending) : Result::kMore;
  if (!begun_) return Result::kNotACall;
  step_ = Step::kClose;
  return Result::kMore;
}

// [TOOL_CALLS]name[ARGS]{…}, with [CALL_ID]id in between in some versions.
CallParser::Result CallParser::ConsumePlainName(std::string& pending, bool end,
                                                std::vector<OutputDelta>& out) {
  const std::string_view text = pending;
  const size_t marker = text.find(kArgumentsMarker);
  const size_t brace = text.find('{');
  if (marker == std::string_view::npos && brace == std::string_view::npos) {
    if (end) return Cut(pending);
    if (text.size() <= 2 * kMaxNameBytes) return Result::kMore;
    return Result::kNotACall;
  }
  const size_t name_end = std::min(marker, brace);
  std::string_view name = text.substr(0, name_end);
  name = Trimmed(name.substr(0, name.find(kCallIdMarker)));
  if (!IsName(name)) return Result::kNotACall;
  call_ = JsonCall::ArgumentsOf(std::string(name));
  BeginCall(std::string(name), Step::kJson, out);
  pending.erase(0, name_end == marker ? marker + kArgumentsMarker.size() : name_end);
  return Result::kMore;
}

CallParser::Result CallParser::ConsumeName(std::string& pending, bool end, std::vector<OutputDelta>& out) {
  const std::string_view text = std::string_view(pending).substr(LeadingBlanks(pending));
  const std::string_view open = style_.name_open;
  if (!StartsWith(text, open)) {
    if (MayBecome(text, open)) return end ? Cut(pending) : Result::kMore;
    return Result::kNotACall;
  }
  const std::string_view rest = text.substr(open.size());
  const size_t name_end = open.empty() ? rest.find_first_of("\n<") : rest.find(style_.key_end);
  if (name_end == std::string_view::npos) {
    if (end) return Cut(pending);
    if (rest.size() <= kMaxNameBytes) return Result::kMore;
  }
  const std::string name(Trimmed(rest.substr(0, name_end)));
  if (name_end == std::string_view::npos || !IsName(name)) {
    // Taken, so that the same text is not looked at again.
    raw_ += pending.substr(0, pending.size() - rest.size());
    pending.erase(0, pending.size() - rest.size());
    return Result::kNotACall;
  }
  const size_t after = pending.size() - rest.size() + name_end;
  BeginCall(name, Step::kKey, out);
  pending.erase(0, after + (open.empty() ? 0 : style_.key_end.size()));
  return Result::kMore;
}

CallParser::Result CallParser::ConsumeKey(std::string& pending, bool end, std::vector<OutputDelta>& out) {
  pending.erase(0, LeadingBlanks(pending));
  const std::string_view text = pending;
  if (StartsWith(text, style_.key_open)) {
    const size_t key_end = text.find(style_.key_end);
    if (key_end == std::string_view::npos) return end ? Cut(pending) : Result::kMore;
    size_t after = key_end + style_.key_end.size();
    if (!style_.value_open.empty()) {
      const std::string_view rest = text.substr(after);
      const size_t blanks = LeadingBlanks(rest);
      if (!StartsWith(rest.substr(blanks), style_.value_open)) {
        if (!MayBecome(rest.substr(blanks), style_.value_open)) return Result::kDone;
        return end ? Cut(pending) : Result::kMore;
      }
      after += blanks + style_.value_open.size();
    }
    key_ = Trimmed(text.substr(style_.key_open.size(), key_end - style_.key_open.size()));
    pending.erase(0, after);
    step_ = Step::kValue;
    return Result::kMore;
  }
  const bool ended = !style_.end.empty() && StartsWith(text, style_.end);
  if (ended || StartsWith(text, style_.close)) {
    if (ended) pending.erase(0, style_.end.size());
    EndTagged(out);
    step_ = Step::kClose;
    return Result::kMore;
  }
  const bool open = text.empty() || MayBecome(text, style_.key_open) || MayBecome(text, style_.end) ||
                    MayBecome(text, style_.close);
  if (open) return end ? Cut(pending) : Result::kMore;
  EndTagged(out);  // something else: the call is what it is
  return Result::kDone;
}

void CallParser::EndTagged(std::vector<OutputDelta>& out) {
  out.push_back({Kind::kArguments, first_value_ ? "{}" : "}"});
}

CallParser::Result CallParser::ConsumeValue(std::string& pending, bool end, std::vector<OutputDelta>& out) {
  const size_t close = pending.find(style_.value_close);
  if (close == std::string::npos) return end ? Cut(pending) : Result::kMore;
  std::string_view value = std::string_view(pending).substr(0, close);
  // The template puts values on lines of their own.
  if (StartsWith(value, "\n")) value.remove_prefix(1);
  if (!value.empty() && value.back() == '\n') value.remove_suffix(1);
  const std::string key = Json(key_).dump(-1, ' ', false, Json::error_handler_t::replace);
  out.push_back(
      {Kind::kArguments, (first_value_ ? "{" : ", ") + key + ": " + tools_.ValueJson(name_, key_, value)});
  first_value_ = false;
  pending.erase(0, close + style_.value_close.size());
  step_ = Step::kKey;
  return Result::kMore;
}

// After a call: what separates it from the next, or ends them.
CallParser::Result CallParser::ConsumeClose(std::string& pending, bool end) {
  const size_t blanks = LeadingBlanks(pending);
  const std::string_view text = std::string_view(pending).substr(blanks);
  if (text.empty()) return end ? Result::kDone : Result::kMore;
  if (style_.syntax == CallSyntax::kJsonBare || style_.syntax == CallSyntax::kJsonList) {
    const bool more = text[0] == (in_list_ ? ',' : ';') && (in_list_ || style_.close.empty());
    const bool closed = in_list_ && text[0] == ']';
    if (more || closed) pending.erase(0, blanks + 1);
    if (more) step_ = Step::kItem;
    return more ? Result::kMore : Result::kDone;
  }
  if (style_.close.empty()) return Result::kDone;
  if (MayBecome(text, style_.close) && !end) return Result::kMore;
  if (StartsWith(text, style_.close)) pending.erase(0, blanks + style_.close.size());
  return Result::kDone;
}

}  // namespace spillway
