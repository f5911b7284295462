// Lists of whole numbers as users write them on the command line.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace spillway::cli {

// "1,2, 3" → {1, 2, 3}. InvalidArgument names `what`, the element and its place: empty elements, signs,
// anything but digits, values above `limit`.
absl::StatusOr<std::vector<uint32_t>> ParseNumberList(std::string_view what, std::string_view text,
                                                      uint32_t limit);

}  // namespace spillway::cli
