// A whole regular file mapped read-only and shared. Knows nothing of what is in it.
// A file that another process shortens while it is mapped faults on access; guarding against that is out of
// scope.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <span>
#include <string>

namespace spillway {

// Owns the mapping. Move-only; reading is thread-safe.
class MappedFile {
 public:
  // NotFound, PermissionDenied, InvalidArgument (not a regular file, or empty), Unavailable (the system's
  // error).
  static absl::StatusOr<MappedFile> Open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

}  // namespace spillway
