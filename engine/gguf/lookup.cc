// Typed look-ups: what is absent is no error, what has another type is one that names the key and the value.
#include "engine/gguf/lookup.h"

#include <limits>
#include <type_traits>

#include "engine/base/status.h"

namespace spillway {
namespace {

const GgufValue* Find(const GgufMetadata& metadata, std::string_view key) {
  const auto entry = metadata.find(key);
  return entry == metadata.end() ? nullptr : &entry->second;
}

absl::Status WrongType(const std::string& path, std::string_view key, const GgufValue& value,
                       std::string_view expected) {
  return InvalidArgument("{}: metadata key {} is {}, expected {}; convert the model again", path, key,
                         DescribeGgufValue(value), expected);
}

template <typename Wide, typename Element>
bool AppendElement(std::vector<Wide>& out, const Element& element) {
  if constexpr (std::is_same_v<Element, std::string>) {
    return false;
  } else if constexpr (std::is_same_v<Wide, int64_t>) {
    if constexpr (std::is_floating_point_v<Element>) return false;
    if constexpr (std::is_same_v<Element, uint64_t>) {
      if (element > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return false;
    }
    out.push_back(static_cast<int64_t>(element));
    return true;
  } else {
    if constexpr (std::is_same_v<Element, bool>) return false;
    out.push_back(static_cast<Wide>(element));
    return true;
  }
}

// The array as numbers of type Wide; nullopt when its type does not fit. An empty array fits any type.
template <typename Wide>
std::optional<std::vector<Wide>> NumbersOf(const GgufValue& value) {
  const auto* array = std::get_if<GgufValue::Array>(&value.value);
  if (array == nullptr) return std::nullopt;
  return std::visit(
      [](const auto& elements) -> std::optional<std::vector<Wide>> {
        using Element = typename std::decay_t<decltype(elements)>::value_type;
        std::vector<Wide> out;
        out.reserve(elements.size());
        for (size_t i = 0; i < elements.size(); ++i) {
          const Element& element = elements[i];
          if (!AppendElement<Wide, Element>(out, element)) return std::nullopt;
        }
        return out;
      },
      *array);
}

}  // namespace

absl::StatusOr<std::optional<uint64_t>> LookUpUint(const std::string& path, const GgufMetadata& metadata,
                                                   std::string_view key) {
  const GgufValue* value = Find(metadata, key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<uint64_t>(&value->value)) return *number;
  if (const auto* number = std::get_if<int64_t>(&value->value); number != nullptr && *number >= 0) {
    return static_cast<uint64_t>(*number);
  }
  return WrongType(path, key, *value, "an integer of at least 0");
}

absl::StatusOr<std::optional<uint64_t>> GgufFile::GetUint(std::string_view key) const {
  return LookUpUint(path(), metadata(), key);
}

absl::StatusOr<std::optional<double>> GgufFile::GetFloat(std::string_view key) const {
  const GgufValue* value = Find(metadata(), key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<double>(&value->value)) return *number;
  if (const auto* number = std::get_if<uint64_t>(&value->value)) return static_cast<double>(*number);
  if (const auto* number = std::get_if<int64_t>(&value->value)) return static_cast<double>(*number);
  return WrongType(path(), key, *value, "a number");
}

absl::StatusOr<std::optional<bool>> GgufFile::GetBool(std::string_view key) const {
  const GgufValue* value = Find(metadata(), key);
  if (value == nullptr) return std::nullopt;
  if (const auto* flag = std::get_if<bool>(&value->value)) return *flag;
  return WrongType(path(), key, *value, "a bool");
}

absl::StatusOr<std::optional<std::string>> GgufFile::GetString(std::string_view key) const {
  const GgufValue* value = Find(metadata(), key);
  if (value == nullptr) return std::nullopt;
  if (const auto* text = std::get_if<std::string>(&value->value)) return *text;
  return WrongType(path(), key, *value, "a string");
}

const std::vector<std::string>* GgufFile::FindStrings(std::string_view key) const {
  const GgufValue* value = Find(metadata(), key);
  if (value == nullptr) return nullptr;
  const auto* array = std::get_if<GgufValue::Array>(&value->value);
  return array == nullptr ? nullptr : std::get_if<std::vector<std::string>>(array);
}

absl::StatusOr<std::optional<std::vector<int64_t>>> GgufFile::GetInts(std::string_view key) const {
  const GgufValue* value = Find(metadata(), key);
  if (value == nullptr) return std::nullopt;
  if (auto numbers = NumbersOf<int64_t>(*value); numbers.has_value()) return numbers;
  return WrongType(path(), key, *value, "an array of integers");
}

absl::StatusOr<std::optional<std::vector<double>>> GgufFile::GetFloats(std::string_view key) const {
  const GgufValue* value = Find(metadata(), key);
  if (value == nullptr) return std::nullopt;
  if (auto numbers = NumbersOf<double>(*value); numbers.has_value()) return numbers;
  return WrongType(path(), key, *value, "an array of numbers");
}

}  // namespace spillway
