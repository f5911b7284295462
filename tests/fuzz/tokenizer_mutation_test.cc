// The fuzzer's probe on seeded random bytes, as an ordinary test (run it under ASan too): no vocabulary and
// no text crashes the tokenizer, and what it streams is UTF-8.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/fuzz/tokenizer_probe.h"

namespace spillway::test {
namespace {

TEST(TokenizerMutation, NoVocabularyAndNoTextBreaksAPromise) {
  constexpr std::string_view kParts[] = {"a", "b",    " ",    "\n", "▁",      "é",   "語",
                                         "7", "\xFF", "\xE2", "A",  "<0x41>", "Bab", "3</s"};
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    std::string bytes;
    bytes += static_cast<char>(random() % 256);
    bytes += static_cast<char>(random() % 8);
    for (size_t i = random() % 60; i > 0; --i) bytes += kParts[random() % std::size(kParts)];
    SCOPED_TRACE(seed);
    EXPECT_EQ(ProbeTokenizer(bytes), "");
  }
}

}  // namespace
}  // namespace spillway::test
