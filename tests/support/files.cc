// Failures here are the machine's (no space, no folder), so they fail the test with the path.
#include "tests/support/files.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>
#include <fstream>
#include <sstream>

namespace spillway::test {

std::optional<std::filesystem::path> CasesDir() {
  const char* named = std::getenv("SPILLWAY_CASES");
  const std::filesystem::path path = named != nullptr ? named : "../shared/cases";
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return std::nullopt;
  return path;
}

std::optional<std::filesystem::path> SmolLm2Path() {
  const char* named = std::getenv("SPILLWAY_SMOLLM2");
  const std::filesystem::path path = named != nullptr ? named : "models/SmolLM2-135M-Instruct.Q4_1.gguf";
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  return path;
}

TempDir::TempDir() {
  std::string name = ::testing::TempDir() + "/spillway-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) {
    ADD_FAILURE() << "cannot make a folder like " << name << ": " << std::strerror(errno);
  }
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

std::string ReadFile(const std::filesystem::path& path) {
  const std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  if (!file || !bytes) ADD_FAILURE() << "cannot read " << path;
  return bytes.str();
}

void WriteFile(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) ADD_FAILURE() << "cannot write " << path;
}

std::vector<float> ReadFloats(const std::filesystem::path& path) {
  const std::string bytes = ReadFile(path);
  if (bytes.size() % sizeof(float) != 0) {
    ADD_FAILURE() << path << " holds " << bytes.size() << " bytes, no whole number of float32";
  }
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

}  // namespace spillway::test
