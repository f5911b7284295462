// Markers in text that arrives in pieces: where one stands, and how much of the end may still become one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace spillway {

inline bool StartsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

// `text` is the beginning of `marker`, and not all of it.
inline bool MayBecome(std::string_view text, std::string_view marker) {
  return text.size() < marker.size() && StartsWith(marker, text);
}

inline bool IsBlank(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

inline size_t LeadingBlanks(std::string_view text) {
  size_t n = 0;
  while (n < text.size() && IsBlank(text[n])) ++n;
  return n;
}

inline std::string_view WithoutTrailingBlanks(std::string_view text) {
  while (!text.empty() && IsBlank(text.back())) text.remove_suffix(1);
  return text;
}

struct FoundMarker {
  size_t at = std::string_view::npos;
  std::string_view marker;  // the longest of those at the first place
};

inline FoundMarker FindMarker(std::string_view text, std::span<const std::string_view> markers) {
  FoundMarker found;
  for (const std::string_view marker : markers) {
    const size_t at = text.find(marker);
    const bool better = at < found.at || (at == found.at && marker.size() > found.marker.size());
    if (at != std::string_view::npos && better) found = {at, marker};
  }
  return found;
}

// Bytes at the end of `text` that may become one of the markers.
inline size_t HeldBytes(std::string_view text, std::span<const std::string_view> markers) {
  size_t held = 0;
  for (const std::string_view marker : markers) {
    for (size_t n = std::min(text.size(), marker.size() - 1); n > held; --n) {
      if (StartsWith(marker, text.substr(text.size() - n))) held = n;
    }
  }
  return held;
}

}  // namespace spillway
