// Folders and whole files for tests: golden cases, a scratch folder, reading and writing at once.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::test {

// The folder of golden cases: $SPILLWAY_CASES, else ../shared/cases beside the repository (tests run in its
// root). nullopt when there is none; then a test skips:
//   const auto cases = CasesDir();
//   if (!cases) GTEST_SKIP() << kNoCases;
std::optional<std::filesystem::path> CasesDir();
inline constexpr std::string_view kNoCases =
    "no golden cases: neither $SPILLWAY_CASES nor ../shared/cases is a folder";

// The real model SmolLM2-135M-Instruct Q4_1: $SPILLWAY_SMOLLM2, else where quickstart.sh puts it; nullopt
// when absent.
std::optional<std::filesystem::path> SmolLm2Path();
inline constexpr std::string_view kNoSmolLm2 =
    "no SmolLM2: neither $SPILLWAY_SMOLLM2 nor models/SmolLM2-135M-Instruct.Q4_1.gguf is a file";

// A scratch folder that is removed with all it holds.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string File(std::string_view name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// Both fail the test (and return nothing) when the file cannot be read or written.
std::string ReadFile(const std::filesystem::path& path);
void WriteFile(const std::filesystem::path& path, std::string_view bytes);
// Raw little-endian float32.
std::vector<float> ReadFloats(const std::filesystem::path& path);

}  // namespace spillway::test
