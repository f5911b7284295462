// Opening and mapping, with errors that name the path and the system's reason.
#include "engine/gguf/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "engine/base/status.h"

namespace spillway {
namespace {

std::string ErrorText(int error) { return std::generic_category().message(error); }

absl::Status OpenError(const std::string& path, int error) {
  if (error == ENOENT || error == ENOTDIR) {
    return NotFound("{}: no such file; check the path of the model", path);
  }
  if (error == EACCES || error == EPERM) {
    return MakeStatus(absl::StatusCode::kPermissionDenied,
                      "{}: permission denied; make the file readable for this user", path);
  }
  return Unavailable("{}: cannot open: {}", path, ErrorText(error));
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

}  // namespace

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  // Non-blocking, so that a pipe by that name is refused below instead of waiting for a writer.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return OpenError(path, errno);
  struct stat info = {};
  if (fstat(file.get(), &info) != 0) return Unavailable("{}: cannot stat: {}", path, ErrorText(errno));
  if (!S_ISREG(info.st_mode)) {
    return InvalidArgument("{}: not a regular file; give the path of a .gguf file", path);
  }
  if (info.st_size == 0) return InvalidArgument("{}: the file is empty; download it again", path);
  const size_t size = static_cast<size_t>(info.st_size);
  void* map = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (map == MAP_FAILED) return Unavailable("{}: cannot map {} bytes: {}", path, size, ErrorText(errno));
  return MappedFile({static_cast<const std::byte*>(map), size});
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace spillway
