// A bounds-checked position in a file's bytes: the only way the parser reads, so that nothing is read past
// the end. Knows the primitive encodings of GGUF (little-endian numbers, length-prefixed strings), not its
// structure.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace spillway {

// GGUF readers refuse strings longer, and arrays of more elements, than this.
inline constexpr uint64_t kGgufMaxLength = uint64_t{1} << 30;

// `text` from a file, quoted for a message: control bytes escaped, cut after 80 bytes.
std::string QuotedForMessage(std::string_view text);

// Borrows the bytes. Thread-compatible.
class GgufCursor {
 public:
  GgufCursor(std::string path, std::span<const std::byte> bytes) : path_(std::move(path)), bytes_(bytes) {}

  const std::string& path() const { return path_; }
  uint64_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }
  uint64_t size() const { return bytes_.size(); }

  // Reads one number; `what` names it in the error when the file ends first.
  template <typename T>
  absl::StatusOr<T> Read(std::string_view what) {
    if (remaining() < sizeof(T)) return Truncated(what, sizeof(T));
    T value;
    std::memcpy(&value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return value;
  }

  // The string's bytes stay in the file.
  absl::StatusOr<std::string_view> ReadString(std::string_view what);

  // An error "PATH: byte POSITION: ...".
  template <typename... Args>
  absl::Status Error(fmt::format_string<Args...> format, Args&&... args) const {
    return InvalidArgument("{}: byte {}: {}", path_, position_,
                           fmt::format(format, std::forward<Args>(args)...));
  }
  absl::Status Truncated(std::string_view what, uint64_t wanted_bytes) const;

 private:
  std::string path_;
  std::span<const std::byte> bytes_;
  uint64_t position_ = 0;
};

}  // namespace spillway
