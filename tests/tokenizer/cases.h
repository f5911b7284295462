// Where the golden cases are: SPILLWAY_CASES, or beside the repository. Shared by the tokenizer's and the
// templates' tests.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>

namespace spillway::testing {

// nullopt where the folder is absent: skip then. A case missing inside it is a failure.
inline std::optional<std::filesystem::path> CasesFolder() {
  const char* given = std::getenv("SPILLWAY_CASES");
  const std::filesystem::path folder = given != nullptr ? given : "../shared/cases";
  if (!std::filesystem::is_directory(folder)) return std::nullopt;
  return folder;
}

inline std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// Discarded (is_discarded()) when absent or no JSON.
inline nlohmann::ordered_json ReadJson(const std::filesystem::path& path) {
  return nlohmann::ordered_json::parse(ReadFile(path), nullptr, /*allow_exceptions=*/false);
}

}  // namespace spillway::testing

#define SPILLWAY_REQUIRE_CASES(folder)                                                    \
  const auto folder##_or = ::spillway::testing::CasesFolder();                            \
  if (!folder##_or) GTEST_SKIP() << "no golden cases: ../shared/cases or SPILLWAY_CASES"; \
  const std::filesystem::path& folder = *folder##_or
