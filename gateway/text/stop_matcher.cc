#include "gateway/text/stop_matcher.h"

#include <algorithm>
#include <utility>

#include "engine/base/status.h"

namespace spillway {

absl::StatusOr<StopMatcher> StopMatcher::Create(std::span<const std::string> stops) {
  if (stops.size() > kMaxStops) {
    return InvalidArgument("stop has {} strings, allowed are {}", stops.size(), kMaxStops);
  }
  StopMatcher matcher;
  for (const std::string& stop : stops) {
    if (stop.empty()) return InvalidArgument("stop holds an empty string: remove it");
    if (stop.size() > kMaxStopBytes) {
      return InvalidArgument("stop holds a string of {} bytes, allowed are {}", stop.size(), kMaxStopBytes);
    }
    Pattern pattern{.text = stop, .border = std::vector<uint32_t>(stop.size(), 0)};
    uint32_t length = 0;
    for (size_t i = 1; i < stop.size(); ++i) {
      while (length > 0 && stop[i] != stop[length]) length = pattern.border[length - 1];
      if (stop[i] == stop[length]) ++length;
      pattern.border[i] = length;
    }
    matcher.patterns_.push_back(std::move(pattern));
  }
  return matcher;
}

// matched < text.size() on entry: the stream ends at the first full match.
void StopMatcher::Advance(Pattern& pattern, char byte) {
  while (pattern.matched > 0 && byte != pattern.text[pattern.matched]) {
    pattern.matched = pattern.border[pattern.matched - 1];
  }
  if (byte == pattern.text[pattern.matched]) ++pattern.matched;
}

std::string StopMatcher::Add(std::string_view text) {
  if (stopped_) return {};
  std::string released = std::move(held_);
  held_.clear();
  size_t end = released.size();
  released.append(text);
  for (const char byte : text) {
    ++end;
    const Pattern* complete = nullptr;
    for (Pattern& pattern : patterns_) {
      Advance(pattern, byte);
      if (pattern.matched < pattern.text.size()) continue;
      if (complete == nullptr || pattern.text.size() > complete->text.size()) complete = &pattern;
    }
    if (complete == nullptr) continue;
    stopped_ = true;
    stop_ = complete->text;
    released.resize(end - stop_.size());
    return released;
  }
  size_t held = 0;
  for (const Pattern& pattern : patterns_) held = std::max<size_t>(held, pattern.matched);
  held_ = released.substr(released.size() - held);
  released.resize(released.size() - held);
  return released;
}

std::string StopMatcher::Finish() {
  for (Pattern& pattern : patterns_) pattern.matched = 0;
  return std::exchange(held_, {});
}

}  // namespace spillway
