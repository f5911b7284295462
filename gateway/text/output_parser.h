// Splits what a model writes into content, reasoning and tool calls while it arrives. A marker, or what may
// become one, never leaves as content; what turns out to be none does. Knows no tokens and no API.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/text/call_parser.h"
#include "gateway/text/output_format.h"

namespace spillway {

struct OutputOptions {
  bool calls = false;         // tools were offered; otherwise their markers are content
  bool reasoning = true;      // take reasoning out of the content
  bool in_reasoning = false;  // the prompt opened it
  bool parallel = true;       // more than one call
};

// Thread-compatible. Linear in the text. The default one makes everything content.
class OutputParser {
 public:
  OutputParser() : OutputParser({}, {}, {}) {}
  OutputParser(const OutputFormat& format, const OutputOptions& options, ToolSet tools);

  std::vector<OutputDelta> Add(std::string_view text);
  // The text has ended; `cut`: not by the model, so that half a marker is no content.
  std::vector<OutputDelta> Finish(bool cut);
  // All that was asked for is there; what follows is dropped.
  bool complete() const { return state_ == State::kComplete; }
  size_t calls() const { return n_calls_; }

 private:
  enum class State : uint8_t { kStart, kReasoning, kContent, kCall, kHeader, kBody, kComplete };

  void Run(bool end, bool cut, std::vector<OutputDelta>& out);
  bool Step(bool end, bool cut, std::vector<OutputDelta>& out);  // false: needs more text
  bool StepStart(bool end);
  bool StepReasoning(bool end, bool cut, std::vector<OutputDelta>& out);
  bool StepContent(bool end, bool cut, std::vector<OutputDelta>& out);
  bool StepCall(bool end, bool cut, std::vector<OutputDelta>& out);
  bool StepHeader(bool end);
  bool StepBody(bool end, bool cut, std::vector<OutputDelta>& out);
  void BeginCalls(std::string opener, bool bare);
  bool SkipBlanks();
  void Emit(OutputDelta::Kind kind, std::string_view text, std::vector<OutputDelta>& out);

  OutputFormat format_;
  OutputOptions options_;
  ToolSet tools_;
  std::vector<std::string_view> openers_;

  State state_ = State::kContent;
  std::string pending_;
  bool skip_blanks_ = false;
  bool said_ = false;  // content other than blanks
  bool bare_ = false;
  std::optional<CallParser> call_;
  size_t n_calls_ = 0;
  // Harmony: of the message that is read.
  OutputDelta::Kind body_ = OutputDelta::Kind::kContent;
  std::string recipient_;
  bool call_begun_ = false, arguments_begun_ = false;
};

}  // namespace spillway
