// The alphabet of byte-level BPE: every byte is written as one printable character in vocabularies and
// merges. Source: GPT-2's encoder (Radford et al. 2019): printable Latin-1 stands for itself, the other 68
// bytes for U+0100 and up, in order.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace spillway {

class ByteAlphabet {
 public:
  ByteAlphabet();

  // The character (UTF-8) that stands for a byte.
  const std::string& Character(uint8_t byte) const { return characters_[byte]; }
  // The byte a code point stands for.
  std::optional<uint8_t> Byte(uint32_t code_point) const;
  // Bytes of a token's text; characters outside the alphabet stand for themselves.
  std::string Decode(std::string_view text) const;

 private:
  std::array<std::string, 256> characters_;
  std::array<int16_t, 512> bytes_;  // by code point, -1: none
};

}  // namespace spillway
