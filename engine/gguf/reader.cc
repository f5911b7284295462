// Opens a model: maps and parses its shards, checks that they belong together, and computes the identity.
#include "engine/gguf/reader.h"

#include <openssl/evp.h>

#include <bit>
#include <new>
#include <utility>

#include "engine/base/status.h"
#include "engine/gguf/lookup.h"
#include "engine/gguf/mapped_file.h"
#include "engine/gguf/parse.h"
#include "engine/gguf/shards.h"

namespace spillway {

struct GgufFile::Impl {
  std::string path;
  uint32_t version = 0;
  uint64_t file_bytes = 0;
  std::string identity;
  GgufMetadata metadata;
  std::vector<MappedFile> maps;
  std::vector<GgufTensor> tensors;
  std::map<std::string_view, size_t> index;  // keys point into tensors
};

namespace {

struct Shard {
  MappedFile map;
  ParsedGguf parsed;
};

absl::StatusOr<Shard> OpenShard(const std::string& path) {
  SPILLWAY_ASSIGN_OR_RETURN(MappedFile map, MappedFile::Open(path));
  SPILLWAY_ASSIGN_OR_RETURN(ParsedGguf parsed, ParseGguf(path, map.bytes()));
  return Shard{std::move(map), std::move(parsed)};
}

// Reads split.count and split.no, 1 and 0 when absent, and compares them with the file's name.
absl::Status CheckSplitKeys(const std::string& path, const GgufMetadata& metadata, const ShardName& name) {
  SPILLWAY_ASSIGN_OR_RETURN(const auto count, LookUpUint(path, metadata, "split.count"));
  SPILLWAY_ASSIGN_OR_RETURN(const auto number, LookUpUint(path, metadata, "split.no"));
  if (count.value_or(1) != name.count) {
    return InvalidArgument(
        "{}: split.count is {}, but the name says {} shards; give the file the name it was published under",
        path, count.value_or(1), name.count);
  }
  if (number.value_or(0) + 1 != name.number) {
    return InvalidArgument(
        "{}: split.no is {} (from 0), but the name says shard {} (from 1); give the file the name it was "
        "published under",
        path, number.value_or(0), name.number);
  }
  return absl::OkStatus();
}

// What the name says, or for a plain name, that the file is whole.
absl::StatusOr<ShardName> ShardsOf(const std::string& path, const GgufMetadata& metadata) {
  if (std::optional<ShardName> name = ParseShardName(path); name.has_value()) {
    SPILLWAY_RETURN_IF_ERROR(CheckSplitKeys(path, metadata, *name));
    return *std::move(name);
  }
  SPILLWAY_ASSIGN_OR_RETURN(const auto count, LookUpUint(path, metadata, "split.count"));
  if (count.value_or(1) > 1) {
    return InvalidArgument(
        "{}: the file is one of {} shards (split.count), but its name does not end in -00001-of-{:05}.gguf; "
        "give all shards the names they were published under",
        path, *count, *count);
  }
  return ShardName{path, 1, 1};
}

std::string HexOf(std::span<const unsigned char> digest) {
  std::string text;
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

absl::StatusOr<std::string> IdentityOf(const std::vector<Shard>& shards) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  bool good = context != nullptr && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  for (const Shard& shard : shards) {
    good = good && EVP_DigestUpdate(context.get(), shard.map.bytes().data(), shard.parsed.header_bytes) == 1;
  }
  for (const Shard& shard : shards) {
    static_assert(std::endian::native == std::endian::little);
    const uint64_t size = shard.map.bytes().size();
    good = good && EVP_DigestUpdate(context.get(), &size, sizeof(size)) == 1;
  }
  std::array<unsigned char, 32> digest = {};
  unsigned int length = 0;
  good = good && EVP_DigestFinal_ex(context.get(), digest.data(), &length) == 1;
  if (!good || length != digest.size()) return Internal("OpenSSL could not compute a SHA-256 digest");
  return HexOf(digest);
}

absl::StatusOr<std::vector<Shard>> OpenShards(const std::string& path) {
  // Before anything is read: whatever shard this is, its own content cannot stand for the model.
  const std::optional<ShardName> named = ParseShardName(path);
  SPILLWAY_ASSIGN_OR_RETURN(Shard first, OpenShard(path));
  if (named.has_value() && named->number != 1) {
    return InvalidArgument("{}: this is shard {} of {}; open the first one, {}", path, named->number,
                           named->count, ShardPath(*named, 1));
  }
  SPILLWAY_ASSIGN_OR_RETURN(const ShardName name, ShardsOf(path, first.parsed.metadata));
  std::vector<Shard> shards;
  shards.push_back(std::move(first));
  for (uint32_t number = 2; number <= name.count; ++number) {
    const std::string shard_path = ShardPath(name, number);
    absl::StatusOr<Shard> shard = OpenShard(shard_path);
    if (absl::IsNotFound(shard.status())) {
      return NotFound("{}: shard {} of {} is missing; put all shards into one folder", shard_path, number,
                      name.count);
    }
    if (!shard.ok()) return shard.status();
    SPILLWAY_RETURN_IF_ERROR(
        CheckSplitKeys(shard_path, shard->parsed.metadata, {name.prefix, number, name.count}));
    shards.push_back(*std::move(shard));
  }
  return shards;
}

absl::Status CheckTensorCount(const std::string& path, const GgufMetadata& metadata, uint64_t tensor_count) {
  SPILLWAY_ASSIGN_OR_RETURN(const auto expected, LookUpUint(path, metadata, "split.tensors.count"));
  if (expected.has_value() && *expected != tensor_count) {
    return InvalidArgument(
        "{}: split.tensors.count is {}, but the shards hold {} tensors; they are not of one model, download "
        "all again",
        path, *expected, tensor_count);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<GgufFile>> GgufFile::Open(const std::string& path) try {
  SPILLWAY_ASSIGN_OR_RETURN(std::vector<Shard> shards, OpenShards(path));
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  impl->version = shards[0].parsed.version;
  impl->metadata = std::move(shards[0].parsed.metadata);
  SPILLWAY_ASSIGN_OR_RETURN(impl->identity, IdentityOf(shards));
  for (size_t i = 0; i < shards.size(); ++i) {
    impl->file_bytes += shards[i].map.bytes().size();
    for (GgufTensor& tensor : shards[i].parsed.tensors) {
      tensor.shard = static_cast<int>(i);
      impl->tensors.push_back(std::move(tensor));
    }
    impl->maps.push_back(std::move(shards[i].map));
  }
  SPILLWAY_RETURN_IF_ERROR(CheckTensorCount(path, impl->metadata, impl->tensors.size()));
  for (size_t i = 0; i < impl->tensors.size(); ++i) {
    if (!impl->index.emplace(impl->tensors[i].name, i).second) {
      return InvalidArgument("{}: tensor {} is in two shards; they are not of one model, download all again",
                             path, QuotedForMessage(impl->tensors[i].name));
    }
  }
  return std::unique_ptr<GgufFile>(new GgufFile(std::move(impl)));
} catch (const std::bad_alloc&) {
  return ResourceExhausted("{}: not enough memory to read the file's metadata", path);
}

GgufFile::GgufFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GgufFile::~GgufFile() = default;

const std::string& GgufFile::path() const { return impl_->path; }
uint32_t GgufFile::version() const { return impl_->version; }
uint64_t GgufFile::file_bytes() const { return impl_->file_bytes; }
const std::string& GgufFile::identity() const { return impl_->identity; }
const GgufMetadata& GgufFile::metadata() const { return impl_->metadata; }
const std::vector<GgufTensor>& GgufFile::tensors() const { return impl_->tensors; }

const GgufTensor* GgufFile::FindTensor(std::string_view name) const {
  const auto entry = impl_->index.find(name);
  return entry == impl_->index.end() ? nullptr : &impl_->tensors[entry->second];
}

}  // namespace spillway
