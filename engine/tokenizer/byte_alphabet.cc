// Builds the two directions of the byte alphabet once per tokenizer.
#include "engine/tokenizer/byte_alphabet.h"

#include "engine/tokenizer/utf8.h"

namespace spillway {

ByteAlphabet::ByteAlphabet() {
  bytes_.fill(-1);
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    const uint32_t code_point = printable ? byte : next++;
    AppendUtf8(code_point, characters_[byte]);
    bytes_[code_point] = static_cast<int16_t>(byte);
  }
}

std::optional<uint8_t> ByteAlphabet::Byte(uint32_t code_point) const {
  if (code_point >= bytes_.size() || bytes_[code_point] < 0) return std::nullopt;
  return static_cast<uint8_t>(bytes_[code_point]);
}

std::string ByteAlphabet::Decode(std::string_view text) const {
  std::string out;
  while (!text.empty()) {
    const Utf8Step step = NextUtf8(text);
    const std::optional<uint8_t> byte =
        step.kind == Utf8Kind::kCharacter ? Byte(step.code_point) : std::nullopt;
    if (byte) {
      out += static_cast<char>(*byte);
    } else {
      out += text.substr(0, step.length);
    }
    text.remove_prefix(step.length);
  }
  return out;
}

}  // namespace spillway
