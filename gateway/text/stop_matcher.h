// Stop strings in a stream of text: releases what can no longer be part of one, holds back the rest, and cuts
// the text where the first one completes. Knows nothing of tokens, requests or transport.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {

// The first stop string to complete wins; of several that end at the same byte, the longest. So the result
// does not depend on how the text is cut into pieces. Linear in the text. Pieces and stop strings are valid
// UTF-8, and then so is everything released: a stop string begins with a character. Thread-compatible.
class StopMatcher {
 public:
  static constexpr size_t kMaxStops = 16;
  static constexpr size_t kMaxStopBytes = 4096;

  // InvalidArgument when there are too many stop strings, or one is empty or too long. None at all is fine.
  static absl::StatusOr<StopMatcher> Create(std::span<const std::string> stops);
  // Releases everything at once.
  StopMatcher() = default;

  // The text that may be released now. After a stop string matched: nothing.
  std::string Add(std::string_view text);
  // The stream has ended: the text held back. Nothing after a stop string matched.
  std::string Finish();

  bool stopped() const { return stopped_; }
  // The stop string that matched, empty while none has.
  const std::string& stop() const { return stop_; }
  size_t held_bytes() const { return held_.size(); }

 private:
  // Knuth, Morris, Pratt: border[i] is the length of the longest proper prefix of text[0, i] that also ends
  // it.
  struct Pattern {
    std::string text;
    std::vector<uint32_t> border;
    uint32_t matched = 0;
  };
  static void Advance(Pattern& pattern, char byte);

  std::vector<Pattern> patterns_;
  std::string held_;
  std::string stop_;
  bool stopped_ = false;
};

}  // namespace spillway
