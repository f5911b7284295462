// Builds GGUF bytes field by field, valid or not, without using the writer: the tests of the reader must be
// able to put any value anywhere.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::test {

// Bytes in the making.
class RawBytes {
 public:
  template <typename T>
  RawBytes& Put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  RawBytes& Text(std::string_view text) {
    Put<uint64_t>(text.size());
    bytes_.append(text);
    return *this;
  }
  RawBytes& Raw(std::string_view bytes) {
    bytes_.append(bytes);
    return *this;
  }
  const std::string& str() const { return bytes_; }

 private:
  std::string bytes_;
};

struct RawTensor {
  std::string name = "t";
  std::vector<int64_t> dims = {8};
  uint32_t type = 0;
  uint64_t offset = 0;
};

// Metadata entry of type u32.
std::string U32Entry(std::string_view key, uint32_t value);
std::string TensorInfo(const RawTensor& tensor);

// A file from its parts; counts are those of the lists.
struct RawGguf {
  std::string magic = "GGUF";
  uint32_t version = 3;
  std::vector<std::string> entries = {};
  std::vector<std::string> infos = {};
  uint64_t data_bytes = 0;
  uint64_t alignment = 32;

  std::string Encode() const;
};

// A file with one good entry and two good tensors of 32 bytes each.
RawGguf GoodGguf();

// Writes the bytes, opens them, expects an error of this code whose message has the file's name and every
// part.
void ExpectRefused(std::string_view bytes, absl::StatusCode code, const std::vector<std::string>& parts);
// The same with InvalidArgument.
void ExpectRefused(std::string_view bytes, const std::vector<std::string>& parts);
void ExpectOpens(std::string_view bytes);

}  // namespace spillway::test
