// Early returns for absl::Status and absl::StatusOr (Debian's abseil ships none), and formatted error
// constructors. A message says what, where, the value seen and what to do.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#define SPILLWAY_RETURN_IF_ERROR(expr)                                                        \
  do {                                                                                        \
    if (absl::Status spillway_status = (expr); !spillway_status.ok()) return spillway_status; \
  } while (false)

#define SPILLWAY_STATUS_CONCAT_INNER(a, b) a##b
#define SPILLWAY_STATUS_CONCAT(a, b) SPILLWAY_STATUS_CONCAT_INNER(a, b)
#define SPILLWAY_ASSIGN_OR_RETURN(lhs, expr) \
  SPILLWAY_ASSIGN_OR_RETURN_INNER(SPILLWAY_STATUS_CONCAT(spillway_statusor_, __LINE__), lhs, expr)
#define SPILLWAY_ASSIGN_OR_RETURN_INNER(temporary, lhs, expr) \
  auto temporary = (expr);                                    \
  if (!temporary.ok()) return temporary.status();             \
  lhs = std::move(*temporary)

// A violated CHECK is our own bug; nothing a client, a file, a peer or a device can cause may reach one.
#define SPILLWAY_CHECK(condition)                                                        \
  do {                                                                                   \
    if (!(condition)) ::spillway::internal::CheckFailed(#condition, __FILE__, __LINE__); \
  } while (false)

namespace spillway {

namespace internal {
[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);
}  // namespace internal

// fmt-style constructors: InvalidArgument("layer {}: head_dim {} is odd", i, d).
template <typename... Args>
absl::Status MakeStatus(absl::StatusCode code, fmt::format_string<Args...> format, Args&&... args) {
  return absl::Status(code, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
absl::Status InvalidArgument(fmt::format_string<Args...> format, Args&&... args) {
  return MakeStatus(absl::StatusCode::kInvalidArgument, format, std::forward<Args>(args)...);
}
template <typename... Args>
absl::Status FailedPrecondition(fmt::format_string<Args...> format, Args&&... args) {
  return MakeStatus(absl::StatusCode::kFailedPrecondition, format, std::forward<Args>(args)...);
}
template <typename... Args>
absl::Status ResourceExhausted(fmt::format_string<Args...> format, Args&&... args) {
  return MakeStatus(absl::StatusCode::kResourceExhausted, format, std::forward<Args>(args)...);
}
template <typename... Args>
absl::Status NotFound(fmt::format_string<Args...> format, Args&&... args) {
  return MakeStatus(absl::StatusCode::kNotFound, format, std::forward<Args>(args)...);
}
template <typename... Args>
absl::Status Unimplemented(fmt::format_string<Args...> format, Args&&... args) {
  return MakeStatus(absl::StatusCode::kUnimplemented, format, std::forward<Args>(args)...);
}
template <typename... Args>
absl::Status Unavailable(fmt::format_string<Args...> format, Args&&... args) {
  return MakeStatus(absl::StatusCode::kUnavailable, format, std::forward<Args>(args)...);
}
template <typename... Args>
absl::Status Internal(fmt::format_string<Args...> format, Args&&... args) {
  return MakeStatus(absl::StatusCode::kInternal, format, std::forward<Args>(args)...);
}

// The message of a status as std::string (absl::string_view of Debian's abseil does not convert to
// std::string_view).
inline std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

}  // namespace spillway
