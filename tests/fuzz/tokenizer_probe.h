// A vocabulary and a text made of arbitrary bytes, tokenized and put together again.
#pragma once

#include <string>
#include <string_view>

namespace spillway::test {

// The first byte chooses the kind of vocabulary, the second how many tokens follow, each a byte of length and
// type before its text; the rest is the text. The promise that was broken; empty when all were kept.
std::string ProbeTokenizer(std::string_view bytes);

}  // namespace spillway::test
