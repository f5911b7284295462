// Reads a request body: JSON with bounded depth and count of values, in valid UTF-8, and strictly typed
// access to its fields. Every refusal names the parameter, what was found and what is allowed. Knows nothing
// of what fields mean.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/http/api_error.h"

namespace spillway::gateway {

// Keeps the order of members: templates print tools, and schemas name fields, in the order they were given.
using Json = nlohmann::ordered_json;

inline constexpr int kMaxJsonDepth = 64;
inline constexpr size_t kMaxJsonValues =
    1 << 19;  // a body of 4 MiB could hold 2 million, each costing 16 bytes or more

// Members of one object; finding one among them is linear.
inline constexpr size_t kMaxJsonMembers = 2048;

inline constexpr size_t kMaxEchoedBytes = 64;  // of a client's string in a message to it

bool IsValidUtf8(std::string_view text);

// Valid UTF-8, cut to what a message may repeat.
std::string Shortened(std::string_view text);

// The parsed object, or an error. A body that is no JSON object is refused. Of a member that comes twice the
// last counts, as in OpenAI's API.
std::optional<ApiError> ParseJsonObject(std::string_view body, Json* out);

struct NumberRange {
  double low = 0;
  double high = 0;
  bool above_low = false;   // the low end itself is not allowed
  bool below_high = false;  // nor is the high end
};

// Reads fields of one object; after the first error everything else is a no-op. null counts as absent
// everywhere, as OpenAI's clients send it for "not set". Borrows the object.
class FieldReader {
 public:
  // `prefix` goes before field names in errors, such as "stream_options.".
  explicit FieldReader(const Json& object, std::string prefix = "")
      : object_(object), prefix_(std::move(prefix)) {}

  const Json* Find(const char* name) const;  // nullptr when absent or null

  // Each returns whether the field was there and valid, and leaves `out` alone when not.
  bool Number(const char* name, const NumberRange& range, float* out);
  bool Integer(const char* name, int64_t low, int64_t high, int64_t* out);
  bool Boolean(const char* name, bool* out);
  bool String(const char* name, std::string* out);

  void Fail(std::string_view name, std::string_view message, std::string_view code = "invalid_value");
  void Adopt(std::optional<ApiError> error);  // an error found by someone else
  bool ok() const { return !error_.has_value(); }
  const std::optional<ApiError>& error() const { return error_; }

 private:
  const Json& object_;
  const std::string prefix_;
  std::optional<ApiError> error_;
};

// "a string", "a number", … for messages.
std::string_view JsonKind(const Json& value);

}  // namespace spillway::gateway
