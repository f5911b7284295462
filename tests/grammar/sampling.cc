#include "tests/grammar/sampling.h"

#include <fmt/format.h>

#include <random>
#include <vector>

#include "engine/base/status.h"

namespace spillway::test {

std::shared_ptr<const grammar::TokenTrie> SmallVocabulary() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (const char* piece :
       {"{\"",   "\":",   "\",",   "\"}",   "\": \"", "\", \"", "\"]",      "}}",   "]}",  ", ",  ": ",
        "{}",    "[]",    "true",  "false", "null",   "\n",     "\n  ",     "    ", "12",  "100", "0.",
        "-1",    "e5",    "abc",   "name",  "é",      "日本",   "\xF0\x9F", "\\\"", "\\u", "\\n", "00",
        "2024-", "value", "\"a\"", "[{\"",  "\xC3",   "true}",  "\"}]",     "0}",   "1,"}) {
    tokens.emplace_back(piece);
  }
  tokens.emplace_back("<end>");
  const auto end = static_cast<int32_t>(tokens.size() - 1);
  return std::make_shared<const grammar::TokenTrie>(tokens, std::vector<int32_t>{end});
}

Sample DrawSample(const std::shared_ptr<grammar::Constraint>& constraint,
                  const grammar::TokenTrie& vocabulary, uint32_t seed, int max_tokens) {
  std::mt19937 random(seed);
  grammar::ConstraintState state(constraint);
  Sample sample;
  const int32_t end = vocabulary.stop_ids().front();
  for (int step = 0; step < max_tokens; ++step) {
    const auto mask = state.Mask();
    if (!mask.ok()) {
      sample.error = "limit: " + MessageOf(mask.status());
      return sample;
    }
    std::vector<int32_t> allowed;
    std::vector<int32_t> closing;
    for (uint32_t id = 0; id < vocabulary.n_vocab(); ++id) {
      if (((**mask)[id / 8] >> (id % 8) & 1) == 0) continue;
      allowed.push_back(static_cast<int32_t>(id));
      const std::string_view bytes = vocabulary.Bytes(static_cast<int32_t>(id));
      if (bytes == "\"" || bytes == "}" || bytes == "]" || bytes == "null" || static_cast<int32_t>(id) == end)
        closing.push_back(static_cast<int32_t>(id));
    }
    if (allowed.empty()) {
      sample.error = "a dead end after " + sample.text;
      return sample;
    }
    // The mask and the step must say the same of any token.
    const auto other = static_cast<int32_t>(random() % vocabulary.n_vocab());
    grammar::ConstraintState copy = state;
    if (copy.Advance(other) != ((**mask)[static_cast<size_t>(other) / 8] >> (other % 8) & 1)) {
      sample.error = fmt::format("mask and step differ for token {} after {}", other, sample.text);
      return sample;
    }
    const bool close = !closing.empty() && static_cast<int>(random() % 40) < 4 + step;
    const auto& choices = close ? closing : allowed;
    const int32_t token = choices[random() % choices.size()];
    if (!state.Advance(token)) {
      sample.error = fmt::format("an allowed token {} is refused after {}", token, sample.text);
      return sample;
    }
    if (token == end) {
      sample.ended = true;
      return sample;
    }
    sample.text += vocabulary.Bytes(token);
  }
  return sample;
}

}  // namespace spillway::test
