// A chat template of arbitrary bytes, parsed and rendered over a small conversation.
#pragma once

#include <string>
#include <string_view>

namespace spillway::test {

// The promise that was broken (an error names the template, a rendering is bounded and the same twice); empty
// when all were kept. What takes long or much memory is found by the fuzzer's own limits.
std::string ProbeTemplate(std::string_view source);

}  // namespace spillway::test
