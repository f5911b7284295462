// Names of sharded files: PREFIX-00001-of-00003.gguf, numbered from 1. Touches no file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace spillway {

struct ShardName {
  std::string prefix;   // with the folder
  uint32_t number = 0;  // from 1
  uint32_t count = 0;
};

// nullopt when the path does not end in a shard's suffix with 1 <= number <= count.
std::optional<ShardName> ParseShardName(const std::string& path);

// The path of shard `number` of the same model.
std::string ShardPath(const ShardName& name, uint32_t number);

}  // namespace spillway
