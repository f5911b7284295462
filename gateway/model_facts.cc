#include "gateway/model_facts.h"

#include <sys/stat.h>

#include <type_traits>
#include <variant>

namespace spillway::gateway {
namespace {

using Json = nlohmann::ordered_json;

// general.file_type of the formats that are read here, by llama.cpp's names.
struct FileType {
  uint64_t number;
  const char* name;
};
constexpr FileType kFileTypes[] = {
    {0, "F32"},     {1, "F16"},     {2, "Q4_0"},    {3, "Q4_1"},    {7, "Q8_0"},    {8, "Q5_0"},
    {9, "Q5_1"},    {10, "Q2_K"},   {11, "Q3_K_S"}, {12, "Q3_K_M"}, {13, "Q3_K_L"}, {14, "Q4_K_S"},
    {15, "Q4_K_M"}, {16, "Q5_K_S"}, {17, "Q5_K_M"}, {18, "Q6_K"},   {21, "Q2_K_S"}, {25, "IQ4_NL"},
    {30, "IQ4_XS"}, {32, "BF16"},   {38, "MXFP4"}};

std::string Quantization(const GgufFile& file) {
  const auto type = file.GetUint("general.file_type");
  if (!type.ok() || !type->has_value()) return "unknown";
  for (const FileType& row : kFileTypes) {
    if (row.number == **type) return row.name;
  }
  return "unknown";
}

// Arrays of vocabularies are long: null, as Ollama shows them unless asked for more.
Json ValueJson(const GgufValue& value) {
  return std::visit(
      [](const auto& v) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, GgufValue::Array>) {
          return nullptr;
        } else {
          return v;
        }
      },
      value.value);
}

}  // namespace

ModelFacts ReadModelFacts(const GgufFile& file) {
  ModelFacts facts;
  facts.identity = file.identity();
  facts.file_bytes = file.file_bytes();
  facts.quantization = Quantization(file);
  for (const GgufTensor& tensor : file.tensors()) facts.parameters += tensor.Elements();
  struct stat about = {};
  if (stat(file.path().c_str(), &about) == 0) facts.modified_unix_seconds = about.st_mtime;
  const auto architecture = file.GetString("general.architecture");
  if (architecture.ok() && architecture->has_value()) facts.architecture = **architecture;
  for (const auto& [key, value] : file.metadata()) {
    if (key != "tokenizer.chat_template") facts.metadata[key] = ValueJson(value);
  }
  facts.metadata["general.parameter_count"] = facts.parameters;
  return facts;
}

}  // namespace spillway::gateway
