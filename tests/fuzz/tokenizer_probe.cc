// Makes a vocabulary that loads more often than not, since the interesting part is behind it.
#include "tests/fuzz/tokenizer_probe.h"

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "engine/tokenizer/byte_alphabet.h"
#include "engine/tokenizer/pre_tokenizer.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/utf8.h"
#include "engine/tokenizer/vocabulary.h"

namespace spillway::test {
namespace {

// Every byte read once, 0 past the end.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  uint8_t Byte() {
    const std::string_view byte = Take(1);
    return byte.empty() ? 0 : static_cast<uint8_t>(byte[0]);
  }
  std::string_view Take(size_t count) {
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(taken.size());
    return taken;
  }
  std::string_view rest() const { return bytes_; }

 private:
  std::string_view bytes_;
};

std::string PreTokenizerName(uint8_t choice) {
  std::string names = SupportedPreTokenizers() + ", ";
  for (;; --choice) {
    const size_t end = names.find(", ");
    if (choice == 0 || end + 2 == names.size()) return names.substr(0, end);
    names.erase(0, end + 2);
  }
}

Vocabulary MakeVocabulary(Reader& reader) {
  Vocabulary vocabulary;
  const uint8_t kind = reader.Byte();
  const bool over_bytes = kind % 3 == 0;
  vocabulary.model = over_bytes ? kByteLevelModel : kind % 3 == 1 ? kSentencePieceModel : kGemma4Model;
  vocabulary.pre = PreTokenizerName(kind / 3);
  vocabulary.strip_after_added_tokens = (kind & 64) != 0;
  const auto add = [&](std::string text, TokenType type) {
    vocabulary.tokens.push_back(std::move(text));
    vocabulary.types.push_back(type);
    vocabulary.scores.push_back(-static_cast<float>(vocabulary.tokens.size() % 7));
  };
  const ByteAlphabet alphabet;
  for (int byte = 0; byte < 256 && (kind & 128) == 0; ++byte) {
    if (over_bytes) {
      add(alphabet.Character(static_cast<uint8_t>(byte)), TokenType::kNormal);
    } else {
      add(fmt::format("<0x{:02X}>", byte), TokenType::kByte);
    }
  }
  const uint8_t count = reader.Byte();
  for (int i = 0; i < count; ++i) {
    const uint8_t shape = reader.Byte();
    const auto type = static_cast<TokenType>(1 + (shape >> 4) % 6);
    add(std::string(reader.Take(shape % 16)), type);
    const std::string& text = vocabulary.tokens.back();
    if (text.size() > 1)
      vocabulary.merges.push_back(text.substr(0, text.size() / 2) + " " + text.substr(text.size() / 2));
    if (type == TokenType::kUnknown) vocabulary.unknown = static_cast<int32_t>(vocabulary.tokens.size() - 1);
  }
  return vocabulary;
}

}  // namespace

std::string ProbeTokenizer(std::string_view bytes) {
  Reader reader(bytes);
  const auto tokenizer = Tokenizer::Create(MakeVocabulary(reader));
  if (!tokenizer.ok()) return "";
  for (const bool special : {false, true}) {
    const auto ids = (*tokenizer)->Encode(reader.rest(), special);
    StreamDecoder decoder(**tokenizer);
    std::string streamed;
    for (const int32_t id : ids) {
      if (id < 0 || static_cast<uint32_t>(id) >= (*tokenizer)->n_vocab()) return fmt::format("token {}", id);
      streamed += decoder.Add(id);
    }
    streamed += decoder.Finish();
    for (std::string_view rest = streamed; !rest.empty();) {
      const Utf8Step step = NextUtf8(rest);
      if (step.kind != Utf8Kind::kCharacter) return "the stream is not UTF-8";
      rest.remove_prefix(step.length);
    }
    const size_t size = (*tokenizer)->Decode(ids, special).size();
    if (size > 3 * (reader.rest().size() + 1) + 16 * ids.size()) return fmt::format("{} bytes decoded", size);
  }
  return "";
}

}  // namespace spillway::test
