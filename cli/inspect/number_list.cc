// A strict parser: nothing is skipped, nothing wraps around.
#include "cli/inspect/number_list.h"

#include <charconv>

#include "engine/base/status.h"

namespace spillway::cli {
namespace {

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t' || text.front() == '\n'))
    text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\n'))
    text.remove_suffix(1);
  return text;
}

}  // namespace

absl::StatusOr<std::vector<uint32_t>> ParseNumberList(std::string_view what, std::string_view text,
                                                      uint32_t limit) {
  std::vector<uint32_t> values;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    const std::string_view element = Trim(text.substr(begin, comma - begin));
    uint32_t value = 0;
    const auto [end, error] = std::from_chars(element.data(), element.data() + element.size(), value);
    if (error == std::errc::invalid_argument || end != element.data() + element.size()) {
      return InvalidArgument("{}: element {} is \"{}\", not a whole number", what, values.size() + 1,
                             element);
    }
    if (error == std::errc::result_out_of_range || value > limit) {
      return InvalidArgument("{}: element {} is {}, above {}", what, values.size() + 1, element, limit);
    }
    values.push_back(value);
    begin = comma + 1;
  }
  return values;
}

}  // namespace spillway::cli
