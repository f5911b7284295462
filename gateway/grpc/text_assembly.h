// Tokens of one generation to text: whole characters only, cut at the first stop string. Confined to one
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "engine/tokenizer/tokenizer.h"
#include "gateway/text/stop_matcher.h"

namespace spillway::gateway {

class TextAssembly {
 public:
  // `previous`: the prompt's last token.
  TextAssembly(const Tokenizer& tokenizer, StopMatcher matcher, std::optional<int32_t> previous)
      : decoder_(tokenizer, previous), matcher_(std::move(matcher)) {}
  std::string Add(int32_t token) { return matcher_.Add(decoder_.Add(token)); }
  std::string Finish() {
    std::string text = matcher_.Add(decoder_.Finish());
    return text + matcher_.Finish();
  }
  bool stopped() const { return matcher_.stopped(); }

 private:
  StreamDecoder decoder_;
  StopMatcher matcher_;
};

}  // namespace spillway::gateway
