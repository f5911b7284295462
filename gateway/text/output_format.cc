#include "gateway/text/output_format.h"

#include <algorithm>

namespace spillway {
namespace {

// In order: the first row whose needles are all there.
const std::vector<CallStyle>& CallStyles() {
  static const auto* const styles = new std::vector<CallStyle>{
      {.name = "Qwen3-Coder",
       .syntax = CallSyntax::kTagged,
       .open = "<tool_call>",
       .close = "</tool_call>",
       .force_any = "<tool_call>\n<function=",
       .force_name_begin = "<tool_call>\n<function=",
       .force_name_end = ">\n",
       .name_open = "<function=",
       .key_open = "<parameter=",
       .key_end = ">",
       .value_close = "</parameter>",
       .end = "</function>",
       .needles = {"<function=", "<parameter="}},
      {.name = "GLM-4.5",
       .syntax = CallSyntax::kTagged,
       .open = "<tool_call>",
       .close = "</tool_call>",
       .force_any = "<tool_call>",
       .force_name_begin = "<tool_call>",
       .force_name_end = "\n",
       .key_open = "<arg_key>",
       .key_end = "</arg_key>",
       .value_open = "<arg_value>",
       .value_close = "</arg_value>",
       .needles = {"<tool_call>", "<arg_key>"}},
      {.name = "Hermes and Qwen",
       .open = "<tool_call>",
       .close = "</tool_call>",
       .force_any = "<tool_call>\n{\"name\": \"",
       .force_name_begin = "<tool_call>\n{\"name\": \"",
       .force_name_end = "\", \"arguments\": ",
       .needles = {"<tool_call>"}},
      {.name = "Mistral with [ARGS]",
       .syntax = CallSyntax::kNameThenJson,
       .open = "[TOOL_CALLS]",
       .force_any = "[TOOL_CALLS]",
       .force_name_begin = "[TOOL_CALLS]",
       .force_name_end = "[ARGS]",
       .id_length = 9,
       .needles = {"[TOOL_CALLS]", "[ARGS]"}},
      {.name = "Mistral",
       .syntax = CallSyntax::kJsonList,
       .open = "[TOOL_CALLS]",
       .force_any = "[TOOL_CALLS][{\"name\": \"",
       .force_name_begin = "[TOOL_CALLS][{\"name\": \"",
       .force_name_end = "\", \"arguments\": ",
       .id_length = 9,
       .needles = {"[TOOL_CALLS]"}},
      {.name = "Granite",
       .syntax = CallSyntax::kJsonList,
       .open = "<|tool_call|>",
       .force_any = "<|tool_call|>[{\"name\": \"",
       .force_name_begin = "<|tool_call|>[{\"name\": \"",
       .force_name_end = "\", \"arguments\": ",
       .needles = {"<|tool_call|>"}},
      {.name = "Llama 3",
       .syntax = CallSyntax::kJsonBare,
       .open = "<|python_tag|>",
       .force_any = "{\"name\": \"",
       .force_name_begin = "{\"name\": \"",
       .force_name_end = "\", \"parameters\": ",
       .needles = {"<|start_header_id|>", "\"parameters\": "}},
  };
  return *styles;
}

constexpr ReasoningStyle kReasoningStyles[] = {
    {"<think>", "</think>"}, {"[THINK]", "[/THINK]"}, {"<seed:think>", "</seed:think>"}};

constexpr std::string_view kHarmonyMarkers[] = {"<|channel|>", "<|message|>", "<|start|>",    "<|end|>",
                                                "<|call|>",    "<|return|>",  "<|constrain|>"};

// Parts of calls that some vocabularies make control tokens of.
constexpr std::string_view kInnerMarkers[] = {"[ARGS]", "[CALL_ID]"};

bool Has(std::string_view text, std::string_view needle) {
  return text.find(needle) != std::string_view::npos;
}

}  // namespace

OutputFormat ChooseOutputFormat(std::string_view chat_template) {
  OutputFormat format;
  if (Has(chat_template, "<|channel|>") && Has(chat_template, "<|message|>")) {
    format.harmony = true;
    return format;
  }
  for (const CallStyle& style : CallStyles()) {
    const auto there = [&](std::string_view needle) { return Has(chat_template, needle); };
    if (!std::all_of(style.needles.begin(), style.needles.end(), there)) continue;
    format.calls = &style;
    break;
  }
  for (const ReasoningStyle& style : kReasoningStyles) {
    if (!Has(chat_template, style.close)) continue;
    format.reasoning = &style;
    break;
  }
  return format;
}

std::vector<std::string_view> OutputFormat::Markers() const {
  std::vector<std::string_view> markers;
  if (harmony) markers.assign(std::begin(kHarmonyMarkers), std::end(kHarmonyMarkers));
  if (calls != nullptr) {
    for (const std::string_view marker : {calls->open, calls->close}) {
      if (!marker.empty()) markers.push_back(marker);
    }
    if (calls->syntax == CallSyntax::kNameThenJson) {
      markers.insert(markers.end(), std::begin(kInnerMarkers), std::end(kInnerMarkers));
    }
  }
  if (reasoning != nullptr) markers.insert(markers.end(), {reasoning->open, reasoning->close});
  return markers;
}

std::string KnownCallStyles() {
  std::string names;
  for (const CallStyle& style : CallStyles()) names += std::string(style.name) + ", ";
  return names + "gpt-oss";
}

std::string ForcedCall(const OutputFormat& format, std::string_view tool) {
  if (format.harmony) {
    std::string text = "<|channel|>commentary to=functions.";
    if (!tool.empty()) text += std::string(tool) + " <|constrain|>json<|message|>";
    return text;
  }
  if (format.calls == nullptr) return "";
  if (tool.empty()) return std::string(format.calls->force_any);
  return std::string(format.calls->force_name_begin) + std::string(tool) +
         std::string(format.calls->force_name_end);
}

}  // namespace spillway
