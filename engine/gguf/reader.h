// Reads GGUF model files (v2 and v3, little-endian, sharded or not) through read-only memory maps.
// Hardened: every count, offset and product taken from the file is checked in 64 bits before it is used, and
// each error names the file, the place and the value. Knows nothing of architectures or of what a tensor
// means. Source: the GGUF specification (ggml docs/gguf.md) and the negative list of what its readers must
// refuse.
#pragma once

#include <absl/status/statusor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/quant/formats.h"

namespace spillway {

// One metadata value. Integers of every width are widened; arrays are homogeneous; arrays of arrays are
// refused.
struct GgufValue {
  using Array = std::variant<std::vector<uint64_t>, std::vector<int64_t>, std::vector<float>,
                             std::vector<double>, std::vector<bool>, std::vector<std::string>>;
  std::variant<uint64_t, int64_t, double, bool, std::string, Array> value;  // float32 is widened to double
};

struct GgufTensor {
  std::string name;
  TensorType type = TensorType::kF32;
  int n_dims = 0;
  std::array<uint64_t, 4> dims = {1, 1, 1, 1};  // dims[0] is the contiguous row length
  uint64_t bytes = 0;
  int shard = 0;
  uint64_t file_offset = 0;         // from the start of the shard
  std::span<const std::byte> data;  // borrowed from the map; empty for a header-only open
  // Where each of dims[2] slabs lies, of a tensor that engine/model put together from others: data is empty.
  std::vector<std::span<const std::byte>> slabs;

  uint64_t Rows() const { return dims[1] * dims[2] * dims[3]; }
  // Slab `index` of `count` equal ones. Needs the data.
  std::span<const std::byte> Slab(uint64_t index, uint64_t count) const {
    return slabs.empty() ? data.subspan(index * (bytes / count), bytes / count) : slabs[index];
  }
  uint64_t Elements() const { return dims[0] * Rows(); }
};

// Immutable after Open; thread-compatible (any number of readers). Owns the maps that GgufTensor::data points
// into.
class GgufFile {
 public:
  // Opens PATH, and its sibling shards when PATH is `PREFIX-00001-of-NNNNN.gguf`.
  // Errors: NotFound, InvalidArgument (not GGUF, truncated, corrupt, wrong endian, bad version),
  // Unimplemented (tensor type not supported: named).
  static absl::StatusOr<std::unique_ptr<GgufFile>> Open(const std::string& path);
  ~GgufFile();
  GgufFile(const GgufFile&) = delete;
  GgufFile& operator=(const GgufFile&) = delete;

  const std::string& path() const;
  uint32_t version() const;
  uint64_t file_bytes() const;  // of all shards

  // Model identity: lower-case hex SHA-256 over the bytes before the tensor data of every shard in order,
  // then every file size as little-endian u64.
  const std::string& identity() const;

  const std::map<std::string, GgufValue, std::less<>>& metadata() const;
  const std::vector<GgufTensor>& tensors() const;  // in file order
  const GgufTensor* FindTensor(std::string_view name) const;

  // Typed look-ups. nullopt when the key is absent; InvalidArgument when it is there with a type that does
  // not fit.
  absl::StatusOr<std::optional<uint64_t>> GetUint(std::string_view key) const;
  absl::StatusOr<std::optional<double>> GetFloat(std::string_view key) const;  // also accepts integers
  absl::StatusOr<std::optional<bool>> GetBool(std::string_view key) const;
  absl::StatusOr<std::optional<std::string>> GetString(std::string_view key) const;
  // nullptr when absent or not an array of that kind.
  const std::vector<std::string>* FindStrings(std::string_view key) const;
  absl::StatusOr<std::optional<std::vector<int64_t>>> GetInts(
      std::string_view key) const;  // any integer or bool array
  absl::StatusOr<std::optional<std::vector<double>>> GetFloats(
      std::string_view key) const;  // any numeric array

 private:
  struct Impl;
  explicit GgufFile(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace spillway
