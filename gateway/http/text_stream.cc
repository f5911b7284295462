#include "gateway/http/text_stream.h"

#include <algorithm>
#include <utility>

namespace spillway::gateway {
namespace {

uint64_t CodePoints(std::string_view text) {
  uint64_t count = 0;
  for (const char c : text) count += (static_cast<uint8_t>(c) & 0xC0u) != 0x80u;
  return count;
}

}  // namespace

TextStream::TextStream(const Tokenizer& tokenizer, StopMatcher matcher, bool keep_tokens,
                       std::span<const int32_t> prompt, std::span<const int32_t> visible)
    : decoder_(tokenizer, prompt.empty() ? std::nullopt : std::optional<int32_t>(prompt.back())),
      matcher_(std::move(matcher)),
      keep_tokens_(keep_tokens),
      visible_(visible.begin(), visible.end()) {}

TextPiece TextStream::Add(const GenerationEvent& event) {
  if (stopped()) return {};
  const int32_t id = event.token.token;
  const bool visible = std::find(visible_.begin(), visible_.end(), id) != visible_.end();
  // A stop id is the model's "I am done" and no part of what it says.
  const std::string text = event.is_stop ? "" : decoder_.Add(id, visible);
  if (keep_tokens_ && !event.is_stop) Hold(event);
  decoded_bytes_ += text.size();
  decoded_code_points_ += CodePoints(text);
  return Release(matcher_.Add(text), /*all=*/false);
}

TextPiece TextStream::Finish() {
  if (stopped()) return {};
  std::string text = matcher_.Add(decoder_.Finish());
  text += matcher_.Finish();
  return Release(std::move(text), /*all=*/!stopped());
}

void TextStream::Hold(const GenerationEvent& event) {
  Held held;
  held.begin = decoded_bytes_;
  held.record.token = event.token;
  held.record.top = event.top;
  held.record.text_offset = decoded_code_points_;
  held_.push_back(std::move(held));
}

// Tokens go out with the text they began; one that began inside a stop string never does.
TextPiece TextStream::Release(std::string text, bool all) {
  released_bytes_ += text.size();
  TextPiece piece;
  piece.text = std::move(text);
  while (!held_.empty() && (all || held_.front().begin < released_bytes_)) {
    piece.tokens.push_back(std::move(held_.front().record));
    held_.pop_front();
  }
  return piece;
}

}  // namespace spillway::gateway
