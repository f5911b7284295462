// Metadata values: thirteen wire types widened to a few. Knows no key's meaning.
#include <type_traits>

#include "engine/gguf/parse.h"

namespace spillway {
namespace {

enum class ValueType : int32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

std::string ValueOf(std::string_view key) { return "value of key " + QuotedForMessage(key); }

absl::Status BadType(const GgufCursor& cursor, std::string_view key, std::string_view what, int32_t type) {
  return cursor.Error(
      "{} of key {} is {}, not a GGUF value type (0 to 12); the file is corrupt, download it again", what,
      QuotedForMessage(key), type);
}

absl::StatusOr<bool> ReadBool(GgufCursor& cursor, std::string_view key) {
  SPILLWAY_ASSIGN_OR_RETURN(const uint8_t byte, cursor.Read<uint8_t>("a bool"));
  if (byte > 1) {
    return cursor.Error("bool in key {} is {}, not 0 or 1; the file is corrupt, download it again",
                        QuotedForMessage(key), byte);
  }
  return byte == 1;
}

// Built in place: moving a variant of a variant makes g++ 12 warn of uninitialized members under the
// sanitizers.
template <typename Element>
GgufValue ArrayOf(std::vector<Element> values) {
  GgufValue result;
  result.value.emplace<GgufValue::Array>(std::move(values));
  return result;
}

// Reads `count` numbers of wire type T into a vector of Wide; the caller has checked that they are all there.
template <typename T, typename Wide>
absl::StatusOr<GgufValue> ReadNumbers(GgufCursor& cursor, uint64_t count) {
  std::vector<Wide> values;
  values.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    SPILLWAY_ASSIGN_OR_RETURN(const T value, cursor.Read<T>("an array element"));
    values.push_back(static_cast<Wide>(value));
  }
  return ArrayOf(std::move(values));
}

absl::StatusOr<GgufValue> ReadBools(GgufCursor& cursor, std::string_view key, uint64_t count) {
  std::vector<bool> values;
  values.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    SPILLWAY_ASSIGN_OR_RETURN(const bool value, ReadBool(cursor, key));
    values.push_back(value);
  }
  return ArrayOf(std::move(values));
}

absl::StatusOr<GgufValue> ReadStrings(GgufCursor& cursor, uint64_t count) {
  std::vector<std::string> values;
  values.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    SPILLWAY_ASSIGN_OR_RETURN(const std::string_view value, cursor.ReadString("a string in an array"));
    values.emplace_back(value);
  }
  return ArrayOf(std::move(values));
}

// The fewest bytes an array element takes in the file; 0 for what is no element type.
uint64_t MinimumElementBytes(ValueType type) {
  switch (type) {
    case ValueType::kU8:
    case ValueType::kI8:
    case ValueType::kBool:
      return 1;
    case ValueType::kU16:
    case ValueType::kI16:
      return 2;
    case ValueType::kU32:
    case ValueType::kI32:
    case ValueType::kF32:
      return 4;
    case ValueType::kU64:
    case ValueType::kI64:
    case ValueType::kF64:
    case ValueType::kString:  // its length
      return 8;
    case ValueType::kArray:
      break;
  }
  return 0;
}

absl::StatusOr<GgufValue> ReadElements(GgufCursor& cursor, std::string_view key, ValueType type,
                                       uint64_t count) {
  switch (type) {
    case ValueType::kU8:
      return ReadNumbers<uint8_t, uint64_t>(cursor, count);
    case ValueType::kI8:
      return ReadNumbers<int8_t, int64_t>(cursor, count);
    case ValueType::kU16:
      return ReadNumbers<uint16_t, uint64_t>(cursor, count);
    case ValueType::kI16:
      return ReadNumbers<int16_t, int64_t>(cursor, count);
    case ValueType::kU32:
      return ReadNumbers<uint32_t, uint64_t>(cursor, count);
    case ValueType::kI32:
      return ReadNumbers<int32_t, int64_t>(cursor, count);
    case ValueType::kF32:
      return ReadNumbers<float, float>(cursor, count);
    case ValueType::kBool:
      return ReadBools(cursor, key, count);
    case ValueType::kString:
      return ReadStrings(cursor, count);
    case ValueType::kU64:
      return ReadNumbers<uint64_t, uint64_t>(cursor, count);
    case ValueType::kI64:
      return ReadNumbers<int64_t, int64_t>(cursor, count);
    case ValueType::kF64:
      return ReadNumbers<double, double>(cursor, count);
    case ValueType::kArray:
      break;
  }
  return BadType(cursor, key, "array element type", static_cast<int32_t>(type));
}

absl::StatusOr<GgufValue> ReadArray(GgufCursor& cursor, std::string_view key) {
  SPILLWAY_ASSIGN_OR_RETURN(const int32_t tag, cursor.Read<int32_t>("an array element type"));
  if (tag < 0 || tag > static_cast<int32_t>(ValueType::kF64)) {
    return BadType(cursor, key, "array element type", tag);
  }
  const ValueType type = static_cast<ValueType>(tag);
  if (type == ValueType::kArray) {
    return cursor.Error("key {} holds an array of arrays, which GGUF readers refuse; convert the model again",
                        QuotedForMessage(key));
  }
  SPILLWAY_ASSIGN_OR_RETURN(const uint64_t count, cursor.Read<uint64_t>("an array length"));
  if (count > kGgufMaxLength) {
    return cursor.Error(
        "array of key {} has {} elements, more than the allowed {}; the file is corrupt, download it again",
        QuotedForMessage(key), count, kGgufMaxLength);
  }
  // Cannot overflow: count <= 2^30.
  if (const uint64_t least = count * MinimumElementBytes(type); least > cursor.remaining()) {
    return cursor.Truncated(fmt::format("array of {} elements of key {}", count, QuotedForMessage(key)),
                            least);
  }
  return ReadElements(cursor, key, type, count);
}

template <typename T, typename Wide>
absl::StatusOr<GgufValue> ReadScalar(GgufCursor& cursor, std::string_view key) {
  SPILLWAY_ASSIGN_OR_RETURN(const T value, cursor.Read<T>(ValueOf(key)));
  return GgufValue{static_cast<Wide>(value)};
}

template <typename T>
std::string_view ElementName() {
  if constexpr (std::is_same_v<T, uint64_t>) return "unsigned integers";
  if constexpr (std::is_same_v<T, int64_t>) return "integers";
  if constexpr (std::is_same_v<T, float>) return "f32";
  if constexpr (std::is_same_v<T, double>) return "f64";
  if constexpr (std::is_same_v<T, bool>) return "bools";
  return "strings";
}

}  // namespace

absl::StatusOr<GgufValue> ReadGgufValue(GgufCursor& cursor, std::string_view key) {
  SPILLWAY_ASSIGN_OR_RETURN(const int32_t tag, cursor.Read<int32_t>("a value type"));
  switch (static_cast<ValueType>(tag)) {
    case ValueType::kU8:
      return ReadScalar<uint8_t, uint64_t>(cursor, key);
    case ValueType::kI8:
      return ReadScalar<int8_t, int64_t>(cursor, key);
    case ValueType::kU16:
      return ReadScalar<uint16_t, uint64_t>(cursor, key);
    case ValueType::kI16:
      return ReadScalar<int16_t, int64_t>(cursor, key);
    case ValueType::kU32:
      return ReadScalar<uint32_t, uint64_t>(cursor, key);
    case ValueType::kI32:
      return ReadScalar<int32_t, int64_t>(cursor, key);
    case ValueType::kF32:
      return ReadScalar<float, double>(cursor, key);
    case ValueType::kBool: {
      SPILLWAY_ASSIGN_OR_RETURN(const bool value, ReadBool(cursor, key));
      return GgufValue{value};
    }
    case ValueType::kString: {
      SPILLWAY_ASSIGN_OR_RETURN(const std::string_view value, cursor.ReadString(ValueOf(key)));
      return GgufValue{std::string(value)};
    }
    case ValueType::kArray:
      return ReadArray(cursor, key);
    case ValueType::kU64:
      return ReadScalar<uint64_t, uint64_t>(cursor, key);
    case ValueType::kI64:
      return ReadScalar<int64_t, int64_t>(cursor, key);
    case ValueType::kF64:
      return ReadScalar<double, double>(cursor, key);
  }
  return BadType(cursor, key, "value type", tag);
}

std::string DescribeGgufValue(const GgufValue& value) {
  if (const auto* number = std::get_if<uint64_t>(&value.value)) return fmt::format("the integer {}", *number);
  if (const auto* number = std::get_if<int64_t>(&value.value)) return fmt::format("the integer {}", *number);
  if (const auto* number = std::get_if<double>(&value.value)) return fmt::format("the number {}", *number);
  if (const auto* flag = std::get_if<bool>(&value.value)) return fmt::format("the bool {}", *flag);
  if (const auto* text = std::get_if<std::string>(&value.value))
    return "the string " + QuotedForMessage(*text);
  return std::visit(
      [](const auto& elements) {
        using Element = typename std::decay_t<decltype(elements)>::value_type;
        return fmt::format("an array of {} {}", elements.size(), ElementName<Element>());
      },
      std::get<GgufValue::Array>(value.value));
}

}  // namespace spillway
