// `spillway tokenize`: text on standard input, byte for byte, to a JSON array of token ids, and back with
// --detokenize. Needs only the vocabulary of a GGUF file.
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/exit_code.h"
#include "cli/inspect/standard_input.h"
#include "engine/base/status.h"
#include "engine/tokenizer/tokenizer.h"

namespace spillway::cli {
namespace {

struct TokenizeOptions {
  std::string model;
  bool special = false;
  bool detokenize = false;
};

absl::StatusOr<std::vector<int32_t>> ParseIds(const std::string& text, uint32_t n_vocab) {
  const nlohmann::json array = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!array.is_array()) {
    return InvalidArgument("--detokenize expects one JSON array of token ids on standard input");
  }
  std::vector<int32_t> ids;
  ids.reserve(array.size());
  for (const nlohmann::json& id : array) {
    const bool fits = id.is_number_integer() && (id.is_number_unsigned() || id.get<int64_t>() >= 0) &&
                      id.get<uint64_t>() < n_vocab;
    if (!fits) {
      return InvalidArgument("--detokenize: element {} is {}, not a token id from 0 to {}", ids.size() + 1,
                             id.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), n_vocab - 1);
    }
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

std::string JsonArray(const std::vector<int32_t>& ids) {
  std::string text = "[";
  for (size_t i = 0; i < ids.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(ids[i]);
  return text + "]\n";
}

int RunTokenize(const TokenizeOptions& options) {
  const auto file = GgufFile::Open(options.model);
  if (!file.ok()) return FailWith(file.status());
  const auto tokenizer = Tokenizer::Load(**file);
  if (!tokenizer.ok()) return Fail(kFailed, options.model + ": " + MessageOf(tokenizer.status()));
  const auto input = ReadStandardInput();
  if (!input.ok()) return FailWith(input.status());
  std::string output;
  if (options.detokenize) {
    const auto ids = ParseIds(*input, (*tokenizer)->n_vocab());
    if (!ids.ok()) return FailUsage(ids.status());
    output = (*tokenizer)->Decode(*ids, options.special);
  } else {
    output = JsonArray((*tokenizer)->Encode(*input, options.special));
  }
  const absl::Status written = WriteStandardOutput(output);
  return written.ok() ? kOk : FailWith(written);
}

}  // namespace

void AddTokenizeCommand(CommandLine& line) {
  auto options = std::make_shared<TokenizeOptions>();
  line.AddCommand(
      "tokenize", "Text on standard input (a final newline counts) to a JSON array of token ids, and back",
      {Required({"-m,--model", &options->model, "GGUF file; a vocabulary-only one will do"}),
       {"--special", &options->special,
        "Parse control tokens written in the text; with --detokenize, write them"},
       {"--detokenize", &options->detokenize, "Read a JSON array of token ids and write the raw text"}},
      [options] { return RunTokenize(*options); });
}

}  // namespace spillway::cli
