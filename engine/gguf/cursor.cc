// Strings and the wording of the errors that every read can give.
#include "engine/gguf/cursor.h"

#include <absl/strings/escaping.h>

#include <bit>

namespace spillway {

// Numbers are copied from the file as they are.
static_assert(std::endian::native == std::endian::little);

std::string QuotedForMessage(std::string_view text) {
  constexpr size_t kShown = 80;
  const std::string_view head = text.substr(0, kShown);
  const std::string escaped = absl::CHexEscape(absl::string_view(head.data(), head.size()));
  return "'" + escaped + (text.size() > kShown ? "...'" : "'");
}

absl::StatusOr<std::string_view> GgufCursor::ReadString(std::string_view what) {
  SPILLWAY_ASSIGN_OR_RETURN(const uint64_t length, Read<uint64_t>(what));
  if (length > kGgufMaxLength) {
    return Error("length of {} is {}, more than the allowed {}; the file is corrupt, download it again", what,
                 length, kGgufMaxLength);
  }
  if (length > remaining()) return Truncated(what, length);
  const std::string_view text(reinterpret_cast<const char*>(bytes_.data() + position_), length);
  position_ += length;
  return text;
}

absl::Status GgufCursor::Truncated(std::string_view what, uint64_t wanted_bytes) const {
  return Error(
      "{} needs {} bytes, but the file of {} bytes has only {} left; it is truncated or corrupt, download it "
      "again",
      what, wanted_bytes, size(), remaining());
}

}  // namespace spillway
