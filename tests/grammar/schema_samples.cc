// Reads one JSON schema a line and writes one JSON array a line: random complete answers under it, or one
// object with the error. Arguments: how many answers a schema, and the seed.
#include <cstdlib>
#include <iostream>
#include <string>

#include "engine/base/status.h"
#include "tests/grammar/sampling.h"

int main(int argc, char** argv) {
  using Json = nlohmann::ordered_json;
  const int count = argc > 1 ? std::atoi(argv[1]) : 10;
  const int seed = argc > 2 ? std::atoi(argv[2]) : 1;
  const auto vocabulary = spillway::test::SmallVocabulary();
  for (std::string line; std::getline(std::cin, line);) {
    Json answer = Json::array();
    const auto constraint =
        spillway::grammar::Constraint::FromSchema(Json::parse(line, nullptr, false), vocabulary);
    if (!constraint.ok()) answer = Json{{"refused", spillway::MessageOf(constraint.status())}};
    for (int i = 0; constraint.ok() && i < count; ++i) {
      const auto sample =
          spillway::test::DrawSample(*constraint, *vocabulary, static_cast<uint32_t>(seed * 1000 + i), 400);
      if (!sample.error.empty()) {
        answer = Json{{"error", sample.error}};
        break;
      }
      if (sample.ended) answer.push_back(sample.text);
    }
    std::cout << answer.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
  }
  return 0;
}
