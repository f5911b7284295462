// A JSON schema of arbitrary bytes, compiled; then random answers are drawn under it.
#pragma once

#include <string>
#include <string_view>

namespace spillway::test {

// The first two bytes choose the draws, the rest is the schema. The promise that was broken: an answer that
// ended and is no valid JSON of the schema, a dead end, a mask and a step that disagree; empty when all were
// kept.
std::string ProbeSchema(std::string_view bytes);

}  // namespace spillway::test
