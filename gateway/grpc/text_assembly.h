// Tokens of one generation to text: whole characters only, cut at the first stop string. Confined to one
// thread.
#pragma once

#include <string>
#include <utility>

#include "engine/tokenizer/tokenizer.h"
#include "gateway/text/stop_matcher.h"

namespace spillway::gateway {

class TextAssembly {
 public:
  TextAssembly(const Tokenizer& tokenizer, StopMatcher matcher)
      : decoder_(tokenizer), matcher_(std::move(matcher)) {}
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
