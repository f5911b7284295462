// The text of tool calls, from after the marker that begins them: names and arguments come out as they
// arrive. Knows one style at a time and nothing of content.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/text/json_call.h"
#include "gateway/text/output_format.h"

namespace spillway {

struct OutputDelta {
  enum class Kind : uint8_t {
    kContent,
    kReasoning,
    kCall,       // the next call begins; text is the function's name
    kArguments,  // a piece of its arguments: JSON text
  } kind = Kind::kContent;
  std::string text;
};

// The functions a request offers, by name. Immutable.
class ToolSet {
 public:
  ToolSet() = default;
  explicit ToolSet(const nlohmann::ordered_json& tools);  // of a request, already checked

  bool empty() const { return parameters_.empty(); }
  bool Has(std::string_view name) const { return parameters_.find(name) != parameters_.end(); }
  // A parameter's value that was written without quotes, as JSON: text where the schema says or allows it.
  std::string ValueJson(std::string_view function, std::string_view parameter, std::string_view text) const;

 private:
  std::map<std::string, nlohmann::ordered_json, std::less<>> parameters_;
};

// Thread-compatible. Borrows style and tools.
class CallParser {
 public:
  enum class Result : uint8_t { kMore, kDone, kNotACall };

  // `opener`: the text that began it, given back when it is no call; `bare`: there was none.
  CallParser(const CallStyle& style, const ToolSet& tools, std::string opener, bool bare);

  // Takes what it can from the front of `pending`. `end`: nothing follows; `cut`: not by the model's will.
  Result Consume(std::string& pending, bool end, bool cut, std::vector<OutputDelta>& out);
  // After kNotACall: all that was taken.
  const std::string& raw() const { return raw_; }

 private:
  enum class Step : uint8_t { kItem, kJson, kName, kKey, kValue, kClose };

  Result ConsumeItem(std::string& pending, bool end);
  Result ConsumeJson(std::string& pending, bool end, std::vector<OutputDelta>& out);
  Result ConsumeName(std::string& pending, bool end, std::vector<OutputDelta>& out);
  Result ConsumePlainName(std::string& pending, bool end, std::vector<OutputDelta>& out);
  Result ConsumeKey(std::string& pending, bool end, std::vector<OutputDelta>& out);
  Result ConsumeValue(std::string& pending, bool end, std::vector<OutputDelta>& out);
  Result ConsumeClose(std::string& pending, bool end);
  Result BeginCall(std::string name, Step next, std::vector<OutputDelta>& out);
  void EndTagged(std::vector<OutputDelta>& out);
  Result Cut(std::string& pending);  // the text ended in the middle

  const CallStyle& style_;
  const ToolSet& tools_;
  const bool bare_;
  Step step_ = Step::kItem;
  std::string raw_;  // taken while it may still be no call
  bool begun_ = false;
  bool cut_ = false;
  bool in_list_ = false;
  JsonCall call_;
  std::string name_, key_;
  bool first_value_ = true;
};

}  // namespace spillway
