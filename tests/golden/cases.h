// Where golden data lies, and its parsed form. Knows no backends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace spillway::golden {

// Folder of the golden cases: $SPILLWAY_CASES, else ../shared/cases of the repository root (tests' working
// directory); nullopt where there is none. `why` then says what to set.
std::optional<std::string> CasesFolder(std::string* why);

// Path of the real model: $SPILLWAY_MODEL, else models/SmolLM2-135M-Instruct.Q4_1.gguf; nullopt where there
// is none.
std::optional<std::string> RealModelPath(std::string* why);

// One prompt of one tiny model, with the reference's results.
struct TinyPrompt {
  std::string name;  // short | long
  std::vector<int32_t> ids;
  uint32_t first_position = 0;  // of `logits`
  std::vector<float> logits;    // (positions - first_position, n_vocab)
  std::vector<int32_t> top1;    // at each position
  std::vector<float> top1_margin;
  std::vector<int32_t> greedy;
  std::vector<float> greedy_margin;
};

// One GGUF file of one tiny model.
struct TinyCase {
  std::string model;  // "llama"
  std::string file;   // "model-Q4_K_M.gguf"
  std::string type;   // "Q4_K_M"
  std::string path;
  uint32_t n_vocab = 0;
};

// Every file of every manifest under CASES/models, sorted; empty where the cases are absent.
std::vector<TinyCase> ListTinyCases();
// The prompts of a case. nullopt, and the reason in `error`, when a file is missing or has another size.
std::optional<std::vector<TinyPrompt>> LoadTinyPrompts(const TinyCase& tiny, std::string* error);

struct TopEntry {
  int32_t token = 0;
  double logprob = 0;
};

// One conversation of the real model: prompt, greedy continuation, and the ten best at each generated
// position.
struct RealPrompt {
  std::string name;
  std::vector<int32_t> prompt_ids;
  std::vector<int32_t> generated_ids;
  std::vector<std::vector<TopEntry>> steps;
  std::vector<double> margins;
  double prompt_nll = 0;  // negative log-likelihood of prompt_ids[1..]
};
std::optional<std::vector<RealPrompt>> LoadRealPrompts(std::string* error);

}  // namespace spillway::golden
