// How a model writes what is not plain content: tool calls and reasoning. One row of a table per published
// style, chosen once from the chat template's text; never guessed from what a model happens to say.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {

enum class CallSyntax : uint8_t {
  kJsonInTags,    // <tool_call>{"name":…,"arguments":…}</tool_call>
  kJsonBare,      // {"name":…,"parameters":…}; {…} as the whole answer, with or without a marker
  kJsonList,      // [TOOL_CALLS][{"name":…,"arguments":…}, …]
  kNameThenJson,  // [TOOL_CALLS]name[ARGS]{…}
  kTagged,        // <function=name><parameter=key>value</parameter></function>
};

struct CallStyle {
  std::string_view name;
  CallSyntax syntax = CallSyntax::kJsonInTags;
  std::string_view open = {};   // begins a call, or a list of them
  std::string_view close = {};  // "" = none
  // Written for the model when it must call some tool, and a certain one ({} is its name).
  std::string_view force_any = {}, force_name_begin = {}, force_name_end = {};
  size_t id_length = 24;  // of a call's id; Mistral's templates accept 9 only
  // kTagged: around the function's name, a parameter's key and its value; the end of the function.
  std::string_view name_open = {}, key_open = {}, key_end = {}, value_open = {}, value_close = {}, end = {};
  std::vector<std::string_view> needles = {};  // a template with all of these uses the style
};

struct ReasoningStyle {
  std::string_view open, close;
};

struct OutputFormat {
  const CallStyle* calls = nullptr;           // nullptr: the template knows no tool calls that we do
  const ReasoningStyle* reasoning = nullptr;  // nullptr: none
  bool harmony = false;                       // gpt-oss: channels hold both

  bool MayReason() const { return reasoning != nullptr || harmony; }
  // Texts of control tokens that the format needs to see.
  std::vector<std::string_view> Markers() const;
};

OutputFormat ChooseOutputFormat(std::string_view chat_template);

// For messages: "Hermes and Qwen, …".
std::string KnownCallStyles();

// What is written for the model after the prompt so that it calls a tool: `tool`, or any when it is "". Empty
// when the format has no calls.
std::string ForcedCall(const OutputFormat& format, std::string_view tool);

}  // namespace spillway
