#include "tests/golden/cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

namespace spillway::golden {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Throws on a broken file; callers catch.
json ReadJson(const fs::path& path) {
  std::ifstream stream(path);
  return json::parse(stream);
}

std::vector<float> ReadFloats(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(stream)), {});
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

TinyPrompt ParseTinyPrompt(const fs::path& folder, const std::string& name, const json& prompt) {
  TinyPrompt result;
  result.name = name;
  prompt.at("ids").get_to(result.ids);
  prompt.at("first_position").get_to(result.first_position);
  prompt.at("top1").get_to(result.top1);
  prompt.at("top1_margin").get_to(result.top1_margin);
  prompt.at("greedy").get_to(result.greedy);
  prompt.at("greedy_margin").get_to(result.greedy_margin);
  result.logits = ReadFloats(folder / prompt.at("logits").get<std::string>());
  return result;
}

}  // namespace

std::optional<std::string> CasesFolder(std::string* why) {
  const char* variable = std::getenv("SPILLWAY_CASES");
  const std::string folder = variable != nullptr ? variable : "../shared/cases";
  if (fs::is_directory(folder)) return folder;
  *why = fmt::format("golden cases are absent: no folder {}; set SPILLWAY_CASES", folder);
  return std::nullopt;
}

std::optional<std::string> RealModelPath(std::string* why) {
  const char* variable = std::getenv("SPILLWAY_MODEL");
  const std::string path = variable != nullptr ? variable : "models/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (fs::is_regular_file(path)) return path;
  *why = fmt::format("the real model is absent: no file {}; set SPILLWAY_MODEL", path);
  return std::nullopt;
}

std::vector<TinyCase> ListTinyCases() {
  std::string why;
  const std::optional<std::string> cases = CasesFolder(&why);
  std::vector<TinyCase> result;
  if (!cases || !fs::is_directory(fs::path(*cases) / "models")) return result;
  for (const auto& folder : fs::directory_iterator(fs::path(*cases) / "models")) {
    if (!folder.is_directory()) continue;
    try {
      const json manifest = ReadJson(folder.path() / "manifest.json");
      for (const json& file : manifest.at("files")) {
        const auto name = file.at("file").get<std::string>();
        result.push_back({folder.path().filename().string(), name, file.at("type").get<std::string>(),
                          (folder.path() / name).string(), manifest.at("n_vocab").get<uint32_t>()});
      }
    } catch (const json::exception&) {
      // A case that cannot be listed must fail, not vanish: LoadTinyPrompts reads the manifest again and says
      // why.
      result.push_back(
          {folder.path().filename().string(), "manifest.json", "", (folder.path() / "?").string(), 0});
    }
  }
  std::sort(result.begin(), result.end(),
            [](const TinyCase& a, const TinyCase& b) { return a.path < b.path; });
  return result;
}

std::optional<std::vector<TinyPrompt>> LoadTinyPrompts(const TinyCase& tiny, std::string* error) {
  const fs::path folder = fs::path(tiny.path).parent_path();
  std::vector<TinyPrompt> prompts;
  try {
    const json manifest = ReadJson(folder / "manifest.json");
    for (const json& file : manifest.at("files")) {
      if (file.at("file") != tiny.file) continue;
      for (const auto& [name, prompt] : file.at("prompts").items()) {
        prompts.push_back(ParseTinyPrompt(folder, name, prompt));
      }
    }
  } catch (const json::exception& exception) {
    *error = fmt::format("{}: {}", (folder / "manifest.json").string(), exception.what());
    return std::nullopt;
  }
  if (prompts.empty()) {
    *error = fmt::format("{} lists no prompts for {}", (folder / "manifest.json").string(), tiny.file);
    return std::nullopt;
  }
  for (const TinyPrompt& prompt : prompts) {
    const size_t rows = prompt.ids.size() - std::min<size_t>(prompt.first_position, prompt.ids.size());
    if (rows == 0 || prompt.logits.size() != rows * tiny.n_vocab || prompt.top1.size() != prompt.ids.size() ||
        prompt.top1_margin.size() != prompt.ids.size() ||
        prompt.greedy.size() != prompt.greedy_margin.size()) {
      *error =
          fmt::format("{}, prompt {}: the logits hold {} values for {} rows of {}, or lists differ in length",
                      tiny.path, prompt.name, prompt.logits.size(), rows, tiny.n_vocab);
      return std::nullopt;
    }
  }
  return prompts;
}

std::optional<std::vector<RealPrompt>> LoadRealPrompts(std::string* error) {
  const std::optional<std::string> cases = CasesFolder(error);
  if (!cases) return std::nullopt;
  const fs::path path = fs::path(*cases) / "smollm2" / "reference.json";
  std::vector<RealPrompt> result;
  try {
    for (const json& entry : ReadJson(path)) {
      RealPrompt prompt;
      entry.at("name").get_to(prompt.name);
      entry.at("prompt_ids").get_to(prompt.prompt_ids);
      entry.at("generated_ids").get_to(prompt.generated_ids);
      entry.at("prompt_nll").get_to(prompt.prompt_nll);
      for (const json& step : entry.at("steps")) {
        std::vector<TopEntry>& top = prompt.steps.emplace_back();
        for (const json& pair : step.at("top"))
          top.push_back({pair.at(0).get<int32_t>(), pair.at(1).get<double>()});
        prompt.margins.push_back(step.at("margin").get<double>());
      }
      if (prompt.steps.size() != prompt.generated_ids.size()) {
        *error = fmt::format("{}: {} has {} steps for {} tokens", path.string(), prompt.name,
                             prompt.steps.size(), prompt.generated_ids.size());
        return std::nullopt;
      }
      result.push_back(std::move(prompt));
    }
  } catch (const json::exception& exception) {
    *error = fmt::format("{}: {}", path.string(), exception.what());
    return std::nullopt;
  }
  return result;
}

}  // namespace spillway::golden
