// Sets of code points as sorted, disjoint ranges.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace spillway::grammar {

using CodePointSet = std::vector<std::pair<uint32_t, uint32_t>>;  // [first, last]

inline constexpr uint32_t kMaxCodePoint = 0x10FFFF;

inline CodePointSet Normalized(CodePointSet set) {
  std::sort(set.begin(), set.end());
  CodePointSet out;
  for (const auto& [first, last] : set) {
    if (!out.empty() && first <= out.back().second + 1) {
      out.back().second = std::max(out.back().second, last);
    } else {
      out.emplace_back(first, last);
    }
  }
  return out;
}

inline CodePointSet Complement(const CodePointSet& normalized) {
  CodePointSet out;
  uint32_t next = 0;
  for (const auto& [first, last] : normalized) {
    if (first > next) out.emplace_back(next, first - 1);
    next = last + 1;
  }
  if (next <= kMaxCodePoint) out.emplace_back(next, kMaxCodePoint);
  return out;
}

inline CodePointSet Limited(const CodePointSet& normalized, uint32_t highest) {
  CodePointSet out;
  for (const auto& [first, last] : normalized) {
    if (first <= highest) out.emplace_back(first, std::min(last, highest));
  }
  return out;
}

}  // namespace spillway::grammar
