// StreamDecoder: tokens may end in the middle of a character; the text that leaves here never does.
#include <utility>

#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/utf8.h"

namespace spillway {
namespace {

// Moves what is decided from the front of `pending` into the result: characters as they are, U+FFFD for each
// maximal run of bytes that cannot become one. What remains is the beginning of a character, at most 3 bytes.
std::string TakeComplete(std::string& pending) {
  std::string out;
  std::string_view rest = pending;
  while (!rest.empty()) {
    const Utf8Step step = NextUtf8(rest);
    if (step.kind == Utf8Kind::kIncomplete) break;
    out += step.kind == Utf8Kind::kCharacter ? rest.substr(0, step.length) : kReplacementCharacter;
    rest.remove_prefix(step.length);
  }
  pending.erase(0, pending.size() - rest.size());
  return out;
}

}  // namespace

std::string StreamDecoder::Add(int32_t token, bool special) {
  pending_ += tokenizer_.TokenBytesAfter(previous_, token, special);
  previous_ = token;
  return TakeComplete(pending_);
}

std::string StreamDecoder::Finish() {
  std::string out = TakeComplete(pending_);
  if (!pending_.empty()) out += kReplacementCharacter;
  pending_.clear();
  return out;
}

}  // namespace spillway
