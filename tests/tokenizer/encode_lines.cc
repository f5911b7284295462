// Lines of JSON on standard input, each a string, to lines of their token ids and the text of those: one
// process for many texts, which compare_llama_cpp.py compares. `encode_lines VOCABULARY.gguf [--special]`
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/base/status.h"
#include "engine/tokenizer/tokenizer.h"

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const bool special = argc > 2 && std::string_view(argv[2]) == "--special";
  const auto file = spillway::GgufFile::Open(argv[1]);
  const auto tokenizer = file.ok() ? spillway::Tokenizer::Load(**file)
                                   : absl::StatusOr<std::unique_ptr<spillway::Tokenizer>>(file.status());
  if (!tokenizer.ok()) {
    std::cerr << tokenizer.status() << "\n";
    return 1;
  }
  for (std::string line; std::getline(std::cin, line);) {
    const auto text = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!text.is_string()) return 2;
    const auto ids = (*tokenizer)->Encode(text.get_ref<const std::string&>(), special);
    const nlohmann::json answer = {{"ids", ids}, {"text", (*tokenizer)->Decode(ids, special)}};
    std::cout << answer.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) << "\n";
  }
  return 0;
}
