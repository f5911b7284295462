#include "engine/grammar/nfa.h"

#include <algorithm>
#include <string>

#include "engine/tokenizer/utf8.h"

namespace spillway::grammar {

// `low` and `high` encode to `count` bytes each.
void Nfa::AddUtf8(uint32_t from, const uint8_t* low, const uint8_t* high, int count, uint32_t to) {
  if (count == 1) return AddEdge(from, low[0], high[0], to);
  if (low[0] == high[0]) {
    const uint32_t middle = AddState();
    AddEdge(from, low[0], low[0], middle);
    return AddUtf8(middle, low + 1, high + 1, count - 1, to);
  }
  static constexpr uint8_t kLowest[3] = {0x80, 0x80, 0x80};
  static constexpr uint8_t kHighest[3] = {0xBF, 0xBF, 0xBF};
  uint8_t first = low[0];
  uint8_t last = high[0];
  if (!std::equal(low + 1, low + count, kLowest)) {
    const uint32_t middle = AddState();
    AddEdge(from, first, first, middle);
    AddUtf8(middle, low + 1, kHighest, count - 1, to);
    ++first;
  }
  if (!std::equal(high + 1, high + count, kHighest)) {
    const uint32_t middle = AddState();
    AddEdge(from, last, last, middle);
    AddUtf8(middle, kLowest, high + 1, count - 1, to);
    --last;
  }
  if (first > last) return;
  const uint32_t middle = AddState();
  AddEdge(from, first, last, middle);
  AddUtf8(middle, kLowest, kHighest, count - 1, to);
}

void Nfa::AddCodePoints(uint32_t from, uint32_t low, uint32_t high, uint32_t to) {
  // Ranges whose members have encodings of one length; the gap is that of the surrogates.
  static constexpr uint32_t kRanges[][2] = {
      {0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, 0x10FFFF}};
  for (const auto& range : kRanges) {
    const uint32_t first = std::max(low, range[0]);
    const uint32_t last = std::min(high, range[1]);
    if (first > last) continue;
    std::string a;
    std::string b;
    AppendUtf8(first, a);
    AppendUtf8(last, b);
    AddUtf8(from, reinterpret_cast<const uint8_t*>(a.data()), reinterpret_cast<const uint8_t*>(b.data()),
            static_cast<int>(a.size()), to);
  }
}

}  // namespace spillway::grammar
