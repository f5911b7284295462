#include "tests/gateway/http/tiny_vocabulary.h"

#include <gtest/gtest.h>

#include <string>

#include "engine/gguf/reader.h"
#include "engine/gguf/writer.h"
#include "engine/tokenizer/byte_alphabet.h"
#include "tests/support/files.h"

namespace spillway::gateway::test {

std::unique_ptr<Tokenizer> MakeTokenizer(bool add_bos) {
  const ByteAlphabet alphabet;
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(alphabet.Character(static_cast<uint8_t>(byte)));
  types.assign(256, 1);
  for (const char* control : {"<|bos|>", "<|im_start|>", "<|im_end|>"}) {
    tokens.emplace_back(control);
    types.push_back(3);
  }
  tokens.emplace_back("he");
  types.push_back(1);
  const std::vector<std::string> merges = {"h e"};

  GgufWriter writer;
  writer.SetString("general.architecture", "llama");
  writer.SetString("tokenizer.ggml.model", "gpt2");
  writer.SetString("tokenizer.ggml.pre", "gpt-2");
  writer.SetStrings("tokenizer.ggml.tokens", tokens);
  writer.SetI32s("tokenizer.ggml.token_type", types);
  writer.SetStrings("tokenizer.ggml.merges", merges);
  writer.SetU32("tokenizer.ggml.bos_token_id", kBos);
  writer.SetU32("tokenizer.ggml.eos_token_id", kImEnd);
  writer.SetBool("tokenizer.ggml.add_bos_token", add_bos);

  const spillway::test::TempDir folder;
  const std::string path = folder.File("tiny.gguf");
  const absl::Status written = writer.Write(path);
  if (!written.ok()) {
    ADD_FAILURE() << written;
    return nullptr;
  }
  const auto file = GgufFile::Open(path);
  if (!file.ok()) {
    ADD_FAILURE() << file.status();
    return nullptr;
  }
  auto tokenizer = Tokenizer::Load(**file);
  if (!tokenizer.ok()) {
    ADD_FAILURE() << tokenizer.status();
    return nullptr;
  }
  return *std::move(tokenizer);
}

std::unique_ptr<ChatTemplate> MakeChatTemplate() {
  auto parsed = ChatTemplate::Parse(
      "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + "
      "'<|im_end|>\n' }}"
      "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}");
  if (!parsed.ok()) {
    ADD_FAILURE() << parsed.status();
    return nullptr;
  }
  return *std::move(parsed);
}

ServedModel MakeServedModel(const Tokenizer* tokenizer, const ChatTemplate* chat_template) {
  ServedModel model;
  model.id = "tiny";
  model.aliases = {"default"};
  model.created_unix_seconds = 1700000000;
  model.system_fingerprint = "fp_test";
  model.n_ctx = kContext;
  model.tokenizer = tokenizer;
  model.chat_template = chat_template;
  return model;
}

std::vector<int32_t> Bytes(std::string_view text) {
  std::vector<int32_t> tokens;
  for (const char c : text) tokens.push_back(static_cast<uint8_t>(c));
  return tokens;
}

}  // namespace spillway::gateway::test
