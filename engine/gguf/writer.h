// Writes GGUF files (v2 or v3, one file or shards), for tests, benches and tools that make small models.
// Everything is held in memory until it is written. Knows nothing of architectures. What it writes, reader.h
// accepts.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/quant/formats.h"

namespace spillway {

// Thread-compatible. Setting a key again replaces its value and keeps its place.
class GgufWriter {
 public:
  struct Options {
    uint32_t version = 3;
    uint64_t alignment = 32;  // a power of two of at least 8; written as general.alignment when it is not 32
  };
  GgufWriter() : GgufWriter(Options{}) {}
  explicit GgufWriter(Options options);

  void SetU8(std::string_view key, uint8_t value);
  void SetI8(std::string_view key, int8_t value);
  void SetU16(std::string_view key, uint16_t value);
  void SetI16(std::string_view key, int16_t value);
  void SetU32(std::string_view key, uint32_t value);
  void SetI32(std::string_view key, int32_t value);
  void SetU64(std::string_view key, uint64_t value);
  void SetI64(std::string_view key, int64_t value);
  void SetF32(std::string_view key, float value);
  void SetF64(std::string_view key, double value);
  void SetBool(std::string_view key, bool value);
  void SetString(std::string_view key, std::string_view value);
  void SetU32s(std::string_view key, std::span<const uint32_t> values);
  void SetI32s(std::string_view key, std::span<const int32_t> values);
  void SetF32s(std::string_view key, std::span<const float> values);
  void SetBools(std::string_view key, const std::vector<bool>& values);
  void SetStrings(std::string_view key, std::span<const std::string> values);
  void Remove(std::string_view key);

  // dims[0] is the row length; 1 to 4 dims. Copies `data`. InvalidArgument when the sizes do not fit each
  // other, the name is too long or taken, or a dimension is zero.
  absl::Status AddTensor(std::string_view name, TensorType type, std::span<const uint64_t> dims,
                         std::span<const std::byte> data);
  // Quantizes first. Unimplemented for a format without a quantizer (engine/quant/quantize.h).
  absl::Status AddTensorFromFloats(std::string_view name, TensorType type, std::span<const uint64_t> dims,
                                   std::span<const float> values);

  // The bytes of the single file.
  std::string Encode() const;
  absl::Status Write(const std::string& path) const;
  // Spreads the tensors in order over `count` (1 to 65535: split.count is a u16) files
  // PREFIX-00001-of-NNNNN.gguf; returns the first path.
  absl::StatusOr<std::string> WriteShards(const std::string& prefix, uint32_t count) const;

 private:
  struct Entry {
    std::string key;
    std::string encoded;  // value type and value
  };
  struct Tensor {
    std::string name;
    TensorType type;
    std::vector<uint64_t> dims;
    std::vector<std::byte> data;
  };

  void Set(std::string_view key, std::string encoded);
  std::string EncodeFile(std::span<const Entry> entries, std::span<const Tensor> tensors) const;

  Options options_;
  std::vector<Entry> entries_;
  std::vector<Tensor> tensors_;
  std::set<std::string, std::less<>> names_;
};

}  // namespace spillway
