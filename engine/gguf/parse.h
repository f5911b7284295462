// Parses one GGUF file (one shard) from its bytes into metadata and tensor infos. Touches no file system and
// no other shard. Memory is bounded by a small multiple of the bytes: every count is checked against what is
// left.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/gguf/cursor.h"
#include "engine/gguf/reader.h"

namespace spillway {

using GgufMetadata = std::map<std::string, GgufValue, std::less<>>;

struct ParsedGguf {
  uint32_t version = 0;
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;  // data points into the parsed bytes; shard is 0
  uint64_t header_bytes = 0;        // what precedes the tensor data, padding included
};

// `path` is for messages only.
absl::StatusOr<ParsedGguf> ParseGguf(const std::string& path, std::span<const std::byte> bytes);

// Reads the type tag and the value that follow a key.
absl::StatusOr<GgufValue> ReadGgufValue(GgufCursor& cursor, std::string_view key);

// "string", "array of 3 f32", ... for messages.
std::string DescribeGgufValue(const GgufValue& value);

}  // namespace spillway
