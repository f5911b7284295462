// Thousands of seeded mutations of a small valid file: opening each ends in a file or an error, never in a
// crash (run it under ASan too), and every error names the file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/philox.h"
#include "engine/base/status.h"
#include "engine/gguf/parse.h"
#include "engine/gguf/reader.h"
#include "engine/gguf/writer.h"
#include "tests/fuzz/gguf_probe.h"
#include "tests/support/files.h"
#include "tests/support/random_data.h"

namespace spillway::test {
namespace {

// A file of about a kilobyte that has a value of every type.
std::string SmallFile() {
  GgufWriter writer;
  writer.SetString("general.architecture", "llama");
  writer.SetU32("general.alignment", 32);
  writer.SetU8("u8", 1);
  writer.SetI64("i64", -1);
  writer.SetF64("f64", 0.5);
  writer.SetBool("bool", true);
  writer.SetU16("split.count", 1);
  writer.SetI32s("ints", std::vector<int32_t>{1, 2, 3});
  writer.SetF32s("floats", std::vector<float>{1.0f, 2.0f});
  writer.SetBools("bools", {true, false});
  writer.SetStrings("strings", std::vector<std::string>{"a", "bc", ""});
  for (const TensorType type : {TensorType::kF32, TensorType::kQ4_0, TensorType::kQ4_K}) {
    const uint64_t row = FormatOf(type).block_elements;
    EXPECT_TRUE(writer
                    .AddTensor(FormatOf(type).name, type, std::vector<uint64_t>{row, 2},
                               RandomBlocks(type, row * 2, 1))
                    .ok());
  }
  return writer.Encode();
}

// Random numbers of one mutation.
class Draws {
 public:
  explicit Draws(uint64_t seed) : seed_(seed) {}
  uint64_t Below(uint64_t limit) {
    return static_cast<uint64_t>(UniformDraw(seed_, 0, next_++) * static_cast<double>(limit));
  }

 private:
  const uint64_t seed_;
  uint64_t next_ = 0;
};

void OverwriteNumber(std::string& bytes, Draws& draws) {
  constexpr uint64_t kInteresting[] = {0,          1,          31,          32,         64,
                                       0x7fffffff, 0x80000000, 0xffffffffu, 1ull << 30, 1ull << 32,
                                       1ull << 62, 1ull << 63, ~0ull,       ~0ull - 31};
  const uint64_t value = kInteresting[draws.Below(std::size(kInteresting))];
  const size_t width = draws.Below(2) == 0 ? 4 : 8;
  if (bytes.size() < width) return;
  const size_t at = draws.Below(bytes.size() - width + 1);
  bytes.replace(at, width, reinterpret_cast<const char*>(&value), width);
}

std::string Mutate(std::string bytes, uint64_t seed) {
  Draws draws(seed);
  const uint64_t edits = 1 + draws.Below(4);
  for (uint64_t i = 0; i < edits && !bytes.empty(); ++i) {
    const size_t at = draws.Below(bytes.size());
    switch (draws.Below(6)) {
      case 0:
        bytes[at] = static_cast<char>(draws.Below(256));
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << draws.Below(8)));
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        bytes.erase(at, 1 + draws.Below(16));
        break;
      case 4:
        bytes.insert(at, bytes.substr(draws.Below(bytes.size()), draws.Below(64)));
        break;
      default:
        OverwriteNumber(bytes, draws);
    }
  }
  return bytes;
}

TEST(GgufMutations, OpenEndsInAFileOrANamedError) {
  const TempDir dir;
  const std::string path = dir.File("mutant.gguf");
  const std::string good = SmallFile();
  int opened = 0;
  constexpr int kMutations = 2000;
  for (int seed = 0; seed < kMutations; ++seed) {
    WriteFile(path, Mutate(good, static_cast<uint64_t>(seed)));
    const auto file = GgufFile::Open(path);
    if (!file.ok()) {
      ASSERT_THAT(MessageOf(file.status()), ::testing::StartsWith(path + ": ")) << "seed " << seed;
      continue;
    }
    ++opened;
    ProbeGguf((*file)->metadata(), (*file)->tensors());
  }
  // Both sides must have been reached for the run to mean something.
  EXPECT_GT(opened, kMutations / 50);
  EXPECT_LT(opened, kMutations - kMutations / 50);
}

// Without the file system there is time for many more. The bytes are copied to an exact heap block, so that
// ASan sees a read past their end.
TEST(GgufMutations, ParsingEndsInAFileOrANamedError) {
  const std::string good = SmallFile();
  int parsed_count = 0;
  constexpr int kMutations = 40000;
  for (int seed = 0; seed < kMutations; ++seed) {
    const std::string mutant = Mutate(good, static_cast<uint64_t>(1'000'000 + seed));
    const std::vector<char> exact(mutant.begin(), mutant.end());
    const auto parsed = ParseGguf("mutant", std::as_bytes(std::span(exact)));
    if (!parsed.ok()) {
      ASSERT_THAT(MessageOf(parsed.status()), ::testing::StartsWith("mutant: ")) << "seed " << seed;
      continue;
    }
    ++parsed_count;
    ProbeGguf(parsed->metadata, parsed->tensors);
  }
  EXPECT_GT(parsed_count, kMutations / 50);
  EXPECT_LT(parsed_count, kMutations - kMutations / 50);
}

}  // namespace
}  // namespace spillway::test
