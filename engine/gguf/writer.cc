// Encodes metadata as it is set, tensors when the file is written.
#include "engine/gguf/writer.h"

#include <algorithm>
#include <bit>
#include <fstream>
#include <utility>

#include "engine/base/status.h"
#include "engine/gguf/shards.h"
#include "engine/quant/quantize.h"

namespace spillway {
namespace {

constexpr int32_t kArrayTag = 9;
constexpr int32_t kStringTag = 8;

template <typename T>
constexpr int32_t kTagOf = -1;
template <>
constexpr int32_t kTagOf<uint8_t> = 0;
template <>
constexpr int32_t kTagOf<int8_t> = 1;
template <>
constexpr int32_t kTagOf<uint16_t> = 2;
template <>
constexpr int32_t kTagOf<int16_t> = 3;
template <>
constexpr int32_t kTagOf<uint32_t> = 4;
template <>
constexpr int32_t kTagOf<int32_t> = 5;
template <>
constexpr int32_t kTagOf<float> = 6;
template <>
constexpr int32_t kTagOf<bool> = 7;
template <>
constexpr int32_t kTagOf<uint64_t> = 10;
template <>
constexpr int32_t kTagOf<int64_t> = 11;
template <>
constexpr int32_t kTagOf<double> = 12;

template <typename T>
void Append(std::string& out, T value) {
  static_assert(std::endian::native == std::endian::little);
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void AppendString(std::string& out, std::string_view text) {
  Append<uint64_t>(out, text.size());
  out.append(text);
}

template <typename T>
std::string Scalar(T value) {
  std::string out;
  Append(out, kTagOf<T>);
  Append(out, value);
  return out;
}

std::string ArrayHead(int32_t element_tag, uint64_t count) {
  std::string out;
  Append(out, kArrayTag);
  Append(out, element_tag);
  Append(out, count);
  return out;
}

template <typename T>
std::string Array(std::span<const T> values) {
  std::string out = ArrayHead(kTagOf<T>, values.size());
  for (const T value : values) Append(out, value);
  return out;
}

void Pad(std::string& out, uint64_t alignment) {
  out.resize((out.size() + alignment - 1) / alignment * alignment, '\0');
}

absl::Status WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file)
    return Unavailable("{}: cannot write {} bytes; check the folder and the free space", path, bytes.size());
  return absl::OkStatus();
}

// The bytes that a tensor of these dims must have.
absl::StatusOr<uint64_t> TensorBytes(std::string_view name, TensorType type, std::span<const uint64_t> dims) {
  if (dims.empty() || dims.size() > 4) {
    return InvalidArgument("tensor '{}': {} dimensions, not 1 to 4", name, dims.size());
  }
  uint64_t rows = 1;
  for (const uint64_t dim : dims.subspan(1)) {
    if (__builtin_mul_overflow(rows, dim, &rows))
      return InvalidArgument("tensor '{}': dimensions overflow", name);
  }
  const std::optional<uint64_t> bytes = FormatBytes(type, dims[0], rows);
  if (!bytes.has_value() || *bytes == 0) {
    return InvalidArgument("tensor '{}': {} rows of {} elements do not fit format {}", name, rows, dims[0],
                           FormatOf(type).name);
  }
  return *bytes;
}

}  // namespace

GgufWriter::GgufWriter(Options options) : options_(options) {
  SPILLWAY_CHECK(std::has_single_bit(options.alignment) && options.alignment >= 8);
  if (options.alignment != 32) SetU32("general.alignment", static_cast<uint32_t>(options.alignment));
}

void GgufWriter::Set(std::string_view key, std::string encoded) {
  for (Entry& entry : entries_) {
    if (entry.key == key) {
      entry.encoded = std::move(encoded);
      return;
    }
  }
  entries_.push_back({std::string(key), std::move(encoded)});
}

void GgufWriter::SetU8(std::string_view key, uint8_t value) { Set(key, Scalar(value)); }
void GgufWriter::SetI8(std::string_view key, int8_t value) { Set(key, Scalar(value)); }
void GgufWriter::SetU16(std::string_view key, uint16_t value) { Set(key, Scalar(value)); }
void GgufWriter::SetI16(std::string_view key, int16_t value) { Set(key, Scalar(value)); }
void GgufWriter::SetU32(std::string_view key, uint32_t value) { Set(key, Scalar(value)); }
void GgufWriter::SetI32(std::string_view key, int32_t value) { Set(key, Scalar(value)); }
void GgufWriter::SetU64(std::string_view key, uint64_t value) { Set(key, Scalar(value)); }
void GgufWriter::SetI64(std::string_view key, int64_t value) { Set(key, Scalar(value)); }
void GgufWriter::SetF32(std::string_view key, float value) { Set(key, Scalar(value)); }
void GgufWriter::SetF64(std::string_view key, double value) { Set(key, Scalar(value)); }
void GgufWriter::SetBool(std::string_view key, bool value) { Set(key, Scalar(value)); }

void GgufWriter::SetString(std::string_view key, std::string_view value) {
  std::string out;
  Append(out, kStringTag);
  AppendString(out, value);
  Set(key, std::move(out));
}

void GgufWriter::SetU32s(std::string_view key, std::span<const uint32_t> values) { Set(key, Array(values)); }
void GgufWriter::SetI32s(std::string_view key, std::span<const int32_t> values) { Set(key, Array(values)); }
void GgufWriter::SetF32s(std::string_view key, std::span<const float> values) { Set(key, Array(values)); }

void GgufWriter::SetBools(std::string_view key, const std::vector<bool>& values) {
  std::string out = ArrayHead(kTagOf<bool>, values.size());
  for (const bool value : values) Append(out, value);
  Set(key, std::move(out));
}

void GgufWriter::SetStrings(std::string_view key, std::span<const std::string> values) {
  std::string out = ArrayHead(kStringTag, values.size());
  for (const std::string& value : values) AppendString(out, value);
  Set(key, std::move(out));
}

void GgufWriter::Remove(std::string_view key) {
  std::erase_if(entries_, [key](const Entry& entry) { return entry.key == key; });
}

absl::Status GgufWriter::AddTensor(std::string_view name, TensorType type, std::span<const uint64_t> dims,
                                   std::span<const std::byte> data) {
  if (name.size() > 63) return InvalidArgument("tensor '{}': the name is longer than 63 bytes", name);
  SPILLWAY_ASSIGN_OR_RETURN(const uint64_t bytes, TensorBytes(name, type, dims));
  if (bytes != data.size()) {
    return InvalidArgument("tensor '{}': {} bytes given, its dimensions need {}", name, data.size(), bytes);
  }
  if (!names_.emplace(name).second) return InvalidArgument("tensor '{}' is already there", name);
  tensors_.push_back({std::string(name), type, {dims.begin(), dims.end()}, {data.begin(), data.end()}});
  return absl::OkStatus();
}

absl::Status GgufWriter::AddTensorFromFloats(std::string_view name, TensorType type,
                                             std::span<const uint64_t> dims, std::span<const float> values) {
  const QuantizerInfo* quantizer = FindQuantizer(type);
  if (quantizer == nullptr) {
    return Unimplemented("tensor '{}': no quantizer for format {}", name, FormatOf(type).name);
  }
  SPILLWAY_ASSIGN_OR_RETURN(const uint64_t bytes, TensorBytes(name, type, dims));
  SPILLWAY_ASSIGN_OR_RETURN(const uint64_t float_bytes, TensorBytes(name, TensorType::kF32, dims));
  if (float_bytes != values.size_bytes()) {
    return InvalidArgument("tensor '{}': {} values given, its dimensions need {}", name, values.size(),
                           float_bytes / sizeof(float));
  }
  std::vector<std::byte> data(bytes);
  quantizer->quantize(values.data(), data.data(), values.size());
  return AddTensor(name, type, dims, data);
}

std::string GgufWriter::EncodeFile(std::span<const Entry> entries, std::span<const Tensor> tensors) const {
  std::string out = "GGUF";
  Append<uint32_t>(out, options_.version);
  Append<uint64_t>(out, tensors.size());
  Append<uint64_t>(out, entries.size());
  for (const Entry& entry : entries) {
    AppendString(out, entry.key);
    out += entry.encoded;
  }
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors) {
    AppendString(out, tensor.name);
    Append<uint32_t>(out, static_cast<uint32_t>(tensor.dims.size()));
    for (const uint64_t dim : tensor.dims) Append<uint64_t>(out, dim);
    Append<uint32_t>(out, static_cast<uint32_t>(tensor.type));
    Append<uint64_t>(out, offset);
    offset += (tensor.data.size() + options_.alignment - 1) / options_.alignment * options_.alignment;
  }
  Pad(out, options_.alignment);
  for (const Tensor& tensor : tensors) {
    out.append(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
    Pad(out, options_.alignment);
  }
  return out;
}

std::string GgufWriter::Encode() const { return EncodeFile(entries_, tensors_); }

absl::Status GgufWriter::Write(const std::string& path) const { return WriteFile(path, Encode()); }

absl::StatusOr<std::string> GgufWriter::WriteShards(const std::string& prefix, uint32_t count) const {
  if (count < 1 || count > 65535) return InvalidArgument("{}: {} shards, not 1 to 65535", prefix, count);
  const ShardName name = {prefix, 1, count};
  for (uint32_t shard = 0; shard < count; ++shard) {
    std::vector<Entry> entries;
    if (shard == 0) {
      entries = entries_;
    } else if (options_.alignment != 32) {
      entries.push_back({"general.alignment", Scalar(static_cast<uint32_t>(options_.alignment))});
    }
    entries.push_back({"split.no", Scalar(static_cast<uint16_t>(shard))});
    entries.push_back({"split.count", Scalar(static_cast<uint16_t>(count))});
    entries.push_back({"split.tensors.count", Scalar(static_cast<int32_t>(tensors_.size()))});
    const size_t begin = tensors_.size() * shard / count;
    const size_t end = tensors_.size() * (shard + 1) / count;
    const std::span<const Tensor> tensors = std::span(tensors_).subspan(begin, end - begin);
    SPILLWAY_RETURN_IF_ERROR(WriteFile(ShardPath(name, shard + 1), EncodeFile(entries, tensors)));
  }
  return ShardPath(name, 1);
}

}  // namespace spillway
