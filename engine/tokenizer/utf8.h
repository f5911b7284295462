// UTF-8 at the byte level: what a run of bytes is (a character, the beginning of one, or neither) and how a
// code point is written. Header-only and free of everything else, so that the chat templates use it too.
// Source: Unicode 15, table 3-7 (well-formed sequences) and section 3.9 (maximal subparts).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace spillway {

enum class Utf8Kind {
  kCharacter,   // `length` bytes are one well-formed character, `code_point` is its value
  kIncomplete,  // `length` bytes reach the end of the text and may still become a character
  kInvalid,  // `length` bytes can never become one (the maximal subpart: one U+FFFD stands for all of them)
};

struct Utf8Step {
  Utf8Kind kind = Utf8Kind::kInvalid;
  size_t length = 0;
  uint32_t code_point = 0;
};

// Classifies the beginning of `text`, which must not be empty.
inline Utf8Step NextUtf8(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {Utf8Kind::kCharacter, 1, lead};
  if (lead < 0xC2 || lead > 0xF4) return {Utf8Kind::kInvalid, 1, 0};
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  uint8_t low = 0x80;  // the second byte's range excludes overlong forms, surrogates and values past U+10FFFF
  uint8_t high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  uint32_t value = lead & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {Utf8Kind::kIncomplete, i, 0};
    if (byte(i) < low || byte(i) > high) return {Utf8Kind::kInvalid, i, 0};
    value = value << 6 | (byte(i) & 0x3Fu);
    low = 0x80;
    high = 0xBF;
  }
  return {Utf8Kind::kCharacter, length, value};
}

// Appends a code point below 0x110000.
inline void AppendUtf8(uint32_t code_point, std::string& out) {
  if (code_point < 0x80) {
    out += static_cast<char>(code_point);
    return;
  }
  if (code_point < 0x800) {
    out += static_cast<char>(0xC0 | code_point >> 6);
  } else if (code_point < 0x10000) {
    out += static_cast<char>(0xE0 | code_point >> 12);
    out += static_cast<char>(0x80 | (code_point >> 6 & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | code_point >> 18);
    out += static_cast<char>(0x80 | (code_point >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (code_point >> 6 & 0x3F));
  }
  out += static_cast<char>(0x80 | (code_point & 0x3F));
}

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace spillway
