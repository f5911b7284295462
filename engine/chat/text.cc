// Code-point helpers over UTF-8.
#include "engine/chat/text.h"

#include <algorithm>

#include "engine/tokenizer/utf8.h"

namespace spillway::jinja {
namespace {

uint32_t UpperOf(uint32_t c) {
  if (c >= 'a' && c <= 'z') return c - 0x20;
  if ((c >= 0xE0 && c <= 0xFE && c != 0xF7) || (c >= 0x3B1 && c <= 0x3C9 && c != 0x3C2)) return c - 0x20;
  if (c >= 0x430 && c <= 0x44F) return c - 0x20;
  if (c >= 0x450 && c <= 0x45F) return c - 0x50;
  return c;
}

uint32_t LowerOf(uint32_t c) {
  if (c >= 'A' && c <= 'Z') return c + 0x20;
  if ((c >= 0xC0 && c <= 0xDE && c != 0xD7) || (c >= 0x391 && c <= 0x3A9 && c != 0x3A2)) return c + 0x20;
  if (c >= 0x410 && c <= 0x42F) return c + 0x20;
  if (c >= 0x400 && c <= 0x40F) return c + 0x50;
  return c;
}

// Applies `map(code_point, follows_a_letter, is_first)` to every character.
template <typename Map>
std::string MapCharacters(std::string_view text, Map map) {
  std::string out;
  bool after_letter = false;
  bool first = true;
  while (!text.empty()) {
    const Utf8Step step = NextUtf8(text);
    if (step.kind == Utf8Kind::kCharacter) {
      AppendUtf8(map(step.code_point, after_letter, first), out);
      after_letter = IsLetter(step.code_point);
    } else {
      out += text.substr(0, step.length);
      after_letter = false;
    }
    first = false;
    text.remove_prefix(step.length);
  }
  return out;
}

// Begin of the last character.
size_t LastCharacter(std::string_view text) {
  size_t begin = text.size() - 1;
  while (begin > 0 && text.size() - begin < 4 && (static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
  return NextUtf8(text.substr(begin)).length == text.size() - begin ? begin : text.size() - 1;
}

}  // namespace

std::vector<std::string_view> Characters(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t length = NextUtf8(text).length;
    out.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return out;
}

size_t CountCharacters(std::string_view text) {
  size_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(NextUtf8(text).length);
  return count;
}

bool IsSpaceCharacter(uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool IsDigitCharacter(uint32_t c) { return c >= '0' && c <= '9'; }

bool IsLetter(uint32_t c) {
  if (c < 0x80) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return !IsSpaceCharacter(c) && c >= 0xAA && c != 0xAB && !(c >= 0xAC && c <= 0xB4) &&
         !(c >= 0xB6 && c <= 0xB9) && !(c >= 0xBB && c <= 0xBF) && c != 0xD7 && c != 0xF7 &&
         !(c >= 0x2000 && c <= 0x2BFF) && !(c >= 0x3000 && c <= 0x3004) && !(c >= 0x3008 && c <= 0x3020) &&
         !(c >= 0xFF00 && c <= 0xFF20) && c < 0x1F000;
}

std::string Upper(std::string_view text) {
  return MapCharacters(text, [](uint32_t c, bool, bool) { return UpperOf(c); });
}
std::string Lower(std::string_view text) {
  return MapCharacters(text, [](uint32_t c, bool, bool) { return LowerOf(c); });
}
std::string Capitalize(std::string_view text) {
  return MapCharacters(text, [](uint32_t c, bool, bool first) { return first ? UpperOf(c) : LowerOf(c); });
}
std::string Title(std::string_view text) {
  return MapCharacters(text, [](uint32_t c, bool after, bool) { return after ? LowerOf(c) : UpperOf(c); });
}

bool IsUpperText(std::string_view text) { return Upper(text) == text && Lower(text) != text; }
bool IsLowerText(std::string_view text) { return Lower(text) == text && Upper(text) != text; }

std::string TitleWords(std::string_view text) {
  std::string out;
  bool begins = true;
  while (!text.empty()) {
    const Utf8Step step = NextUtf8(text);
    const bool valid = step.kind == Utf8Kind::kCharacter;
    const uint32_t c = step.code_point;
    if (valid) {
      AppendUtf8(begins ? UpperOf(c) : LowerOf(c), out);
    } else {
      out += text.substr(0, step.length);
    }
    begins = valid && (IsSpaceCharacter(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<');
    text.remove_prefix(step.length);
  }
  return out;
}

std::string_view Strip(std::string_view text, const std::string* characters, bool left, bool right) {
  const std::vector<std::string_view> set =
      characters == nullptr ? std::vector<std::string_view>() : Characters(*characters);
  const auto goes = [&](std::string_view character) {
    if (characters != nullptr) return std::find(set.begin(), set.end(), character) != set.end();
    const Utf8Step step = NextUtf8(character);
    return step.kind == Utf8Kind::kCharacter && IsSpaceCharacter(step.code_point);
  };
  while (left && !text.empty()) {
    const size_t length = NextUtf8(text).length;
    if (!goes(text.substr(0, length))) break;
    text.remove_prefix(length);
  }
  while (right && !text.empty()) {
    const size_t begin = LastCharacter(text);
    if (!goes(text.substr(begin))) break;
    text = text.substr(0, begin);
  }
  return text;
}

std::string Replace(std::string_view text, std::string_view from, std::string_view to, int64_t count) {
  std::string out;
  size_t done = 0;
  if (from.empty()) {  // between all characters, and at both ends
    for (const std::string_view character : Characters(text)) {
      if (count != 0) {
        out += to;
        --count;
      }
      out += character;
    }
    if (count != 0) out += to;
    return out;
  }
  for (size_t at = text.find(from); at != std::string_view::npos && count != 0;
       at = text.find(from, done), --count) {
    out += text.substr(done, at - done);
    out += to;
    done = at + from.size();
  }
  out += text.substr(done);
  return out;
}

}  // namespace spillway::jinja
