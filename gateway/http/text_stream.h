// Turns the token events of one choice into text: whole characters only, and nothing of a stop string. Keeps
// each token's logprobs with the text they belong to. Used by streamed and whole answers alike. Knows no
// JSON.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/tokenizer.h"
#include "gateway/scheduler/scheduler.h"
#include "gateway/text/stop_matcher.h"

namespace spillway::gateway {

struct TokenRecord {
  TokenLogprob token;
  std::vector<TokenLogprob> top;
  uint64_t text_offset = 0;  // code points of the choice's text before this token
};

struct TextPiece {
  std::string text;
  std::vector<TokenRecord> tokens;  // only when asked for; those whose text begins before the end of `text`
  bool empty() const { return text.empty() && tokens.empty(); }
};

// Confined to one thread. Borrows the tokenizer.
class TextStream {
 public:
  // `prompt`: what the generation continues. `visible`: control tokens that are text all the same, such as
  // the markers of a tool call.
  TextStream(const Tokenizer& tokenizer, StopMatcher matcher, bool keep_tokens,
             std::span<const int32_t> prompt, std::span<const int32_t> visible = {});

  // A kToken event. After stopped() it is ignored.
  TextPiece Add(const GenerationEvent& event);
  // What was held back, once the generation has ended by itself. Empty after stopped().
  TextPiece Finish();
  // A stop string was found: the text is complete.
  bool stopped() const { return matcher_.stopped(); }

 private:
  struct Held {
    TokenRecord record;
    uint64_t begin = 0;  // bytes of decoded text before the token
  };
  void Hold(const GenerationEvent& event);
  TextPiece Release(std::string text, bool all);

  StreamDecoder decoder_;
  StopMatcher matcher_;
  const bool keep_tokens_;
  const std::vector<int32_t> visible_;
  uint64_t decoded_bytes_ = 0;
  uint64_t decoded_code_points_ = 0;
  uint64_t released_bytes_ = 0;
  std::deque<Held> held_;
};

}  // namespace spillway::gateway
