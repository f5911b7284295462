#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "engine/base/status.h"
#include "engine/plan/plan.h"

namespace spillway {
namespace {

constexpr std::array<std::pair<std::string_view, double>, 12> kUnits = {{{"", 1},
                                                                         {"b", 1},
                                                                         {"k", 0x1p10},
                                                                         {"kib", 0x1p10},
                                                                         {"kb", 1e3},
                                                                         {"m", 0x1p20},
                                                                         {"mib", 0x1p20},
                                                                         {"mb", 1e6},
                                                                         {"g", 0x1p30},
                                                                         {"gib", 0x1p30},
                                                                         {"gb", 1e9},
                                                                         {"tib", 0x1p40}}};

}  // namespace

absl::StatusOr<uint64_t> ParseBytes(const std::string& text) {
  const char* begin = text.c_str();
  char* end = nullptr;
  const bool starts_with_digit = !text.empty() && std::isdigit(static_cast<unsigned char>(text[0]));
  const double number = starts_with_digit ? std::strtod(begin, &end) : -1.0;
  std::string unit;
  if (starts_with_digit) {
    for (const char* p = end; *p != '\0'; ++p) {
      if (*p != ' ') unit.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(*p))));
    }
  }
  for (const auto& [name, factor] : kUnits) {
    const double bytes = number * factor;
    if (unit == name && starts_with_digit && std::isfinite(bytes) && bytes < 0x1p63) {
      return static_cast<uint64_t>(bytes);
    }
  }
  return InvalidArgument("'{}' is no size: write a number with KiB, MiB, GiB (or KB, MB, GB), as in 64MiB",
                         text);
}

std::string FormatBytesHuman(uint64_t bytes) {
  constexpr std::array<const char*, 5> kNames = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < kNames.size()) {
    value /= 1024.0;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kNames[unit]);
}

}  // namespace spillway
