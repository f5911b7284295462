// Strings as Python sees them: sequences of code points, not of bytes. Bytes that are not UTF-8 count as one
// each.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::jinja {

size_t CountCharacters(std::string_view text);
std::vector<std::string_view> Characters(std::string_view text);

bool IsSpaceCharacter(uint32_t code_point);  // str.isspace()
bool IsLetter(
    uint32_t code_point);  // ASCII exactly; beyond it everything but spaces and marks of punctuation
bool IsDigitCharacter(uint32_t code_point);

// Case of ASCII, Latin-1, Greek and Cyrillic; other scripts stay as they are.
std::string Upper(std::string_view text);
std::string Lower(std::string_view text);
std::string Capitalize(std::string_view text);
std::string Title(std::string_view text);       // str.title(): after anything but a letter
std::string TitleWords(std::string_view text);  // Jinja's filter: after white space and - ( { [ <

bool IsUpperText(std::string_view text);  // str.isupper(): has a letter with case, and none is lower
bool IsLowerText(std::string_view text);

// str.strip(characters); white space for nullptr.
std::string_view Strip(std::string_view text, const std::string* characters, bool left, bool right);

// str.replace; `count` < 0: all.
std::string Replace(std::string_view text, std::string_view from, std::string_view to, int64_t count);

}  // namespace spillway::jinja
