// The structure of a GGUF file: header, metadata, tensor infos, and where each tensor's data must lie.
#include "engine/gguf/parse.h"

#include <bit>
#include <set>
#include <utility>

#include "engine/quant/formats.h"

namespace spillway {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMaxKeyBytes = 65535;
constexpr uint64_t kMaxNameBytes = 63;
// The fewest bytes a metadata entry (empty key, one-byte value) and a tensor info (empty name, one dimension)
// take.
constexpr uint64_t kMinEntryBytes = 8 + 4 + 1;
constexpr uint64_t kMinInfoBytes = 8 + 4 + 8 + 4 + 8;

struct Header {
  uint32_t version = 0;
  uint64_t tensor_count = 0;
  uint64_t entry_count = 0;
};

absl::Status NotGguf(const GgufCursor& cursor, std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with("version https://git-lfs")) {
    return InvalidArgument("{}: this is a Git LFS pointer, not the model; fetch it with `git lfs pull`",
                           cursor.path());
  }
  return InvalidArgument(
      "{}: byte 0: not a GGUF file: it begins with {} instead of 'GGUF'; convert the model to GGUF",
      cursor.path(), QuotedForMessage(text.substr(0, 4)));
}

absl::Status CheckVersion(const GgufCursor& cursor, uint32_t version) {
  if (version == 2 || version == 3) return absl::OkStatus();
  if (version != 0 && (version & 0xffffu) == 0) {
    return cursor.Error(
        "the file is big-endian (version reads 0x{:08x}), only little-endian GGUF is supported; convert the "
        "model again on or for a little-endian machine",
        version);
  }
  if (version == 1) {
    return cursor.Error("GGUF version 1 is not supported, only 2 and 3; convert the model again");
  }
  return cursor.Error(
      "GGUF version {} is not supported, only 2 and 3; use a newer Spillway or download the file again",
      version);
}

absl::StatusOr<uint64_t> ReadCount(GgufCursor& cursor, std::string_view what, uint64_t min_bytes_each) {
  SPILLWAY_ASSIGN_OR_RETURN(const int64_t count, cursor.Read<int64_t>(what));
  if (count < 0 || static_cast<uint64_t>(count) > cursor.size() / min_bytes_each) {
    return cursor.Error(
        "{} is {}, impossible in a file of {} bytes; it is truncated or corrupt, download it again", what,
        count, cursor.size());
  }
  return static_cast<uint64_t>(count);
}

absl::StatusOr<Header> ReadHeader(GgufCursor& cursor, std::span<const std::byte> bytes) {
  if (bytes.size() < kMagic.size() || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
    return NotGguf(cursor, bytes);
  }
  SPILLWAY_RETURN_IF_ERROR(cursor.Read<uint32_t>("the magic").status());
  Header header;
  SPILLWAY_ASSIGN_OR_RETURN(header.version, cursor.Read<uint32_t>("the version"));
  SPILLWAY_RETURN_IF_ERROR(CheckVersion(cursor, header.version));
  SPILLWAY_ASSIGN_OR_RETURN(header.tensor_count, ReadCount(cursor, "the number of tensors", kMinInfoBytes));
  SPILLWAY_ASSIGN_OR_RETURN(header.entry_count,
                            ReadCount(cursor, "the number of metadata entries", kMinEntryBytes));
  return header;
}

absl::Status ReadMetadata(GgufCursor& cursor, uint64_t count, GgufMetadata& metadata) {
  for (uint64_t i = 0; i < count; ++i) {
    SPILLWAY_ASSIGN_OR_RETURN(const std::string_view key, cursor.ReadString("a metadata key"));
    if (key.size() > kMaxKeyBytes) {
      return cursor.Error(
          "metadata key {} is {} bytes long, more than {}; the file is corrupt, download it again",
          QuotedForMessage(key), key.size(), kMaxKeyBytes);
    }
    if (metadata.contains(key)) {
      return cursor.Error("metadata key {} appears twice; convert the model again", QuotedForMessage(key));
    }
    SPILLWAY_ASSIGN_OR_RETURN(GgufValue value, ReadGgufValue(cursor, key));
    metadata.emplace(key, std::move(value));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> AlignmentOf(const GgufCursor& cursor, const GgufMetadata& metadata) {
  const auto entry = metadata.find("general.alignment");
  if (entry == metadata.end()) return kDefaultAlignment;
  const auto* alignment = std::get_if<uint64_t>(&entry->second.value);
  // Below 8 a float tensor could lie at an address that is not a float's.
  if (alignment == nullptr || !std::has_single_bit(*alignment) || *alignment < 8 ||
      *alignment > kGgufMaxLength) {
    return cursor.Error("general.alignment is {}, not a power of two of at least 8; convert the model again",
                        DescribeGgufValue(entry->second));
  }
  return *alignment;
}

// `place` is "tensor info 3 ('blk.0.attn_q.weight')".
absl::Status ReadDims(GgufCursor& cursor, std::string_view place, GgufTensor& tensor) {
  SPILLWAY_ASSIGN_OR_RETURN(const uint32_t n_dims, cursor.Read<uint32_t>("a number of dimensions"));
  if (n_dims < 1 || n_dims > 4) {
    return cursor.Error("{}: {} dimensions, not 1 to 4; the file is corrupt, download it again", place,
                        n_dims);
  }
  tensor.n_dims = static_cast<int>(n_dims);
  int64_t elements = 1;
  for (uint32_t i = 0; i < n_dims; ++i) {
    SPILLWAY_ASSIGN_OR_RETURN(const int64_t dim, cursor.Read<int64_t>("a dimension"));
    if (dim < 1) {
      return cursor.Error("{}: dimension {} is {}, not positive; the file is corrupt, download it again",
                          place, i, dim);
    }
    if (__builtin_mul_overflow(elements, dim, &elements)) {
      return cursor.Error(
          "{}: dimension {} of {} makes the number of elements overflow 63 bits; the file is corrupt, "
          "download it again",
          place, i, dim);
    }
    tensor.dims[i] = static_cast<uint64_t>(dim);
  }
  return absl::OkStatus();
}

absl::Status ReadType(GgufCursor& cursor, std::string_view place, GgufTensor& tensor) {
  SPILLWAY_ASSIGN_OR_RETURN(const uint32_t type_id, cursor.Read<uint32_t>("a tensor type"));
  const FormatInfo* format = FindFormat(type_id);
  if (format == nullptr) {
    return Unimplemented(
        "{}: byte {}: {}: tensor type {} (id {}) is not supported; use another quantization of this model",
        cursor.path(), cursor.position(), place, GgmlTypeName(type_id), type_id);
  }
  tensor.type = format->type;
  if (tensor.dims[0] % format->block_elements != 0) {
    return cursor.Error(
        "{}: row length {} is not a multiple of the {} elements of a {} block; convert the model again",
        place, tensor.dims[0], format->block_elements, format->name);
  }
  const std::optional<uint64_t> bytes = FormatBytes(tensor.type, tensor.dims[0], tensor.Rows());
  if (!bytes.has_value()) {
    return cursor.Error(
        "{}: the size of {} elements of {} overflows 64 bits; the file is corrupt, download it again", place,
        tensor.Elements(), format->name);
  }
  tensor.bytes = *bytes;
  return absl::OkStatus();
}

// Reads one tensor info; file_offset is still relative to the data.
absl::StatusOr<GgufTensor> ReadInfo(GgufCursor& cursor, uint64_t index) {
  SPILLWAY_ASSIGN_OR_RETURN(const std::string_view name, cursor.ReadString("a tensor name"));
  const std::string place = fmt::format("tensor info {} ({})", index, QuotedForMessage(name));
  if (name.size() > kMaxNameBytes) {
    return cursor.Error("{}: the name is {} bytes long, the limit is {}; convert the model again", place,
                        name.size(), kMaxNameBytes);
  }
  GgufTensor tensor;
  tensor.name = name;
  SPILLWAY_RETURN_IF_ERROR(ReadDims(cursor, place, tensor));
  SPILLWAY_RETURN_IF_ERROR(ReadType(cursor, place, tensor));
  SPILLWAY_ASSIGN_OR_RETURN(tensor.file_offset, cursor.Read<uint64_t>("a tensor offset"));
  return tensor;
}

absl::StatusOr<std::vector<GgufTensor>> ReadInfos(GgufCursor& cursor, uint64_t count) {
  std::vector<GgufTensor> tensors;
  std::set<std::string, std::less<>> names;
  for (uint64_t i = 0; i < count; ++i) {
    SPILLWAY_ASSIGN_OR_RETURN(GgufTensor tensor, ReadInfo(cursor, i));
    if (!names.insert(tensor.name).second) {
      return cursor.Error("tensor info {}: the name {} appears twice; convert the model again", i,
                          QuotedForMessage(tensor.name));
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

// Checks that the tensors follow each other without gap or overlap inside the file, and makes their spans.
absl::Status PlaceTensors(const std::string& path, std::span<const std::byte> bytes, uint64_t alignment,
                          ParsedGguf& parsed) {
  uint64_t expected = 0;  // relative to the data
  for (GgufTensor& tensor : parsed.tensors) {
    const std::string name = QuotedForMessage(tensor.name);
    if (tensor.file_offset % alignment != 0) {
      return InvalidArgument(
          "{}: tensor {}: offset {} is not a multiple of the alignment {}; convert the model again", path,
          name, tensor.file_offset, alignment);
    }
    if (tensor.file_offset != expected) {
      return InvalidArgument(
          "{}: tensor {}: offset {} {}, it must be {}; the file is corrupt, download it again", path, name,
          tensor.file_offset,
          tensor.file_offset < expected ? "overlaps the tensor before it" : "leaves a gap", expected);
    }
    const uint64_t available = bytes.size() > parsed.header_bytes ? bytes.size() - parsed.header_bytes : 0;
    if (expected > available || tensor.bytes > available - expected) {
      return InvalidArgument(
          "{}: tensor {}: its {} bytes at byte {} + {} end beyond the file of {} bytes; it is truncated, "
          "download it again",
          path, name, tensor.bytes, parsed.header_bytes, expected, bytes.size());
    }
    tensor.file_offset = parsed.header_bytes + expected;
    tensor.data = bytes.subspan(tensor.file_offset, tensor.bytes);
    // Cannot overflow: both terms lie within a file.
    expected = (expected + tensor.bytes + alignment - 1) / alignment * alignment;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ParsedGguf> ParseGguf(const std::string& path, std::span<const std::byte> bytes) {
  GgufCursor cursor(path, bytes);
  SPILLWAY_ASSIGN_OR_RETURN(const Header header, ReadHeader(cursor, bytes));
  ParsedGguf parsed;
  parsed.version = header.version;
  SPILLWAY_RETURN_IF_ERROR(ReadMetadata(cursor, header.entry_count, parsed.metadata));
  SPILLWAY_ASSIGN_OR_RETURN(const uint64_t alignment, AlignmentOf(cursor, parsed.metadata));
  SPILLWAY_ASSIGN_OR_RETURN(parsed.tensors, ReadInfos(cursor, header.tensor_count));
  parsed.header_bytes = (cursor.position() + alignment - 1) / alignment * alignment;
  SPILLWAY_RETURN_IF_ERROR(PlaceTensors(path, bytes, alignment, parsed));
  // A file without tensors may end before the padding.
  parsed.header_bytes = std::min<uint64_t>(parsed.header_bytes, bytes.size());
  return parsed;
}

}  // namespace spillway
