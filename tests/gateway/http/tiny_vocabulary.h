// A byte-level vocabulary small enough to reason about: token i is byte i, then <|bos|>, <|im_start|>,
// <|im_end|> and the one merged token "he". And a chat template in the manner of ChatML.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "engine/chat/chat_template.h"
#include "engine/tokenizer/tokenizer.h"
#include "gateway/http/served_model.h"

namespace spillway::gateway::test {

inline constexpr int32_t kBos = 256;
inline constexpr int32_t kImStart = 257;
inline constexpr int32_t kImEnd = 258;
inline constexpr int32_t kHe = 259;
inline constexpr uint32_t kVocabularySize = 260;
inline constexpr uint32_t kContext = 512;

std::unique_ptr<Tokenizer> MakeTokenizer(bool add_bos = false);
std::unique_ptr<ChatTemplate> MakeChatTemplate();

// Borrows both; the id is "tiny" with the alias "default".
ServedModel MakeServedModel(const Tokenizer* tokenizer, const ChatTemplate* chat_template);

// One token per byte.
std::vector<int32_t> Bytes(std::string_view text);

}  // namespace spillway::gateway::test
