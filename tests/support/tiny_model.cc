// Weights are uniform with a variance that keeps activations near 1 and gives logits a spread of about 2, so
// that neither attention nor the output is flat or one-hot.
#include "tests/support/tiny_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/base/philox.h"
#include "engine/base/status.h"

namespace spillway::test {
namespace {

constexpr int32_t kNormalToken = 1;
constexpr int32_t kControlToken = 3;

constexpr std::string_view kChatTemplate =
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% "
    "endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

std::string Utf8(uint32_t code_point) {
  if (code_point < 0x80) return std::string(1, static_cast<char>(code_point));
  return {static_cast<char>(0xc0 | code_point >> 6), static_cast<char>(0x80 | (code_point & 0x3f))};
}

// GPT-2's printable stand-in for a byte: printable Latin-1 stays, the others move to U+0100 onwards in order.
std::vector<std::string> ByteTokens() {
  std::vector<std::string> tokens(256);
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    tokens[byte] = Utf8(printable ? byte : next++);
  }
  return tokens;
}

struct Vocabulary {
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<std::string> merges;
};

// Letter pairs first, then a space with a letter, then pairs of pairs: every merged token can be reached.
Vocabulary MakeVocabulary(uint32_t n_vocab) {
  Vocabulary vocabulary;
  vocabulary.tokens = ByteTokens();
  vocabulary.types.assign(256, kNormalToken);
  for (const char* control : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) {
    vocabulary.tokens.emplace_back(control);
    vocabulary.types.push_back(kControlToken);
  }
  const std::string letters = "etaoinshrdlucmfwypvbgkjqxz";
  std::vector<std::string> pairs;
  const auto add = [&](const std::string& left, const std::string& right) {
    if (vocabulary.tokens.size() >= n_vocab) return;
    vocabulary.tokens.push_back(left + right);
    vocabulary.types.push_back(kNormalToken);
    vocabulary.merges.push_back(left + " " + right);
  };
  for (size_t i = 0; i < letters.size() * letters.size(); ++i) {
    const std::string left(1, letters[i / letters.size()]);
    const std::string right(1, letters[i % letters.size()]);
    pairs.push_back(left + right);
    add(left, right);
  }
  const std::string space = vocabulary.tokens[' '];
  for (const char letter : letters) add(space, std::string(1, letter));
  for (size_t i = 0; i < pairs.size() * pairs.size() && vocabulary.tokens.size() < n_vocab; ++i) {
    add(pairs[i / pairs.size()], pairs[i % pairs.size()]);
  }
  return vocabulary;
}

constexpr uint32_t kConvTaps = 4;
constexpr uint32_t kAttentionPeriod = 2;
constexpr uint32_t kExperts = 4;

bool IsRecurrent(const TinyModel& model, uint32_t layer) {
  return model.Hybrid() && (layer + 1) % kAttentionPeriod != 0;
}

void SetHybridMetadata(const TinyModel& model, GgufWriter& writer) {
  const auto set = [&](const char* key, uint32_t value) {
    writer.SetU32(fmt::format("{}.{}", model.architecture, key), value);
  };
  set("ssm.conv_kernel", kConvTaps);
  set("ssm.state_size", kTinyStateDim);
  set("ssm.group_count", model.n_head_k);
  set("ssm.time_step_rank", model.n_head_v);
  set("ssm.inner_size", model.n_head_v * kTinyStateDim);
  set("full_attention_interval", kAttentionPeriod);
  if (!model.Experts()) return;
  set("expert_count", kExperts);
  set("expert_used_count", 2);
  set("expert_feed_forward_length", model.n_ff);
  set("expert_shared_feed_forward_length", model.n_ff);
}

void SetMetadata(const TinyModel& model, uint32_t head_dim, GgufWriter& writer) {
  const auto key = [&](const char* suffix) { return fmt::format("{}.{}", model.architecture, suffix); };
  writer.SetString("general.architecture", model.architecture);
  writer.SetString("general.name", "tiny");
  writer.SetU32("general.quantization_version", 2);
  writer.SetU32(key("context_length"), model.n_ctx);
  writer.SetU32(key("embedding_length"), model.n_embd);
  writer.SetU32(key("block_count"), model.n_layer);
  writer.SetU32(key("feed_forward_length"), model.n_ff);
  writer.SetU32(key("attention.head_count"), model.n_head);
  writer.SetU32(key("attention.head_count_kv"), model.n_head_kv);
  writer.SetU32(key("attention.key_length"), head_dim);
  writer.SetU32(key("attention.value_length"), head_dim);
  writer.SetF32(key("attention.layer_norm_rms_epsilon"), model.norm_eps);
  writer.SetU32(key("rope.dimension_count"), model.Hybrid() ? head_dim / 2 : head_dim);
  writer.SetF32(key("rope.freq_base"), model.rope_freq_base);
  writer.SetU32(key("vocab_size"), model.n_vocab);
  if (model.Hybrid()) SetHybridMetadata(model, writer);
}

void SetVocabulary(const TinyModel& model, GgufWriter& writer) {
  const Vocabulary vocabulary = MakeVocabulary(model.n_vocab);
  writer.SetString("tokenizer.ggml.model", "gpt2");
  writer.SetString("tokenizer.ggml.pre", "gpt-2");
  writer.SetStrings("tokenizer.ggml.tokens", vocabulary.tokens);
  writer.SetI32s("tokenizer.ggml.token_type", vocabulary.types);
  writer.SetStrings("tokenizer.ggml.merges", vocabulary.merges);
  writer.SetU32("tokenizer.ggml.bos_token_id", kTinyEndOfText);
  writer.SetU32("tokenizer.ggml.eos_token_id", kTinyImEnd);
  writer.SetU32("tokenizer.ggml.padding_token_id", kTinyEndOfText);
  writer.SetBool("tokenizer.ggml.add_bos_token", false);
  writer.SetString("tokenizer.chat_template", kChatTemplate);
}

// Adds tensors; each draws from its own stream, so that one tensor's size does not change another's values.
class TensorMaker {
 public:
  TensorMaker(const TinyModel& model, GgufWriter& writer) : model_(model), writer_(writer) {}

  // `gain` times the spread that keeps the variance of a product.
  absl::Status Matrix(const std::string& name, uint64_t columns, uint64_t rows, float gain) {
    std::vector<float> values(columns * rows);
    ++stream_;
    const float bound = gain * std::sqrt(3.0f / static_cast<float>(columns));
    for (size_t i = 0; i < values.size(); ++i) values[i] = bound * Symmetric(i);
    return writer_.AddTensorFromFloats(name, model_.weight_type, std::vector<uint64_t>{columns, rows},
                                       values);
  }

  absl::Status Norm(const std::string& name) { return Norm(name, model_.n_embd); }
  absl::Status Norm(const std::string& name, uint64_t n) { return Spread(name, {n}, 1.0f, 0.3f); }

  // F32, uniform in mean +- bound.
  absl::Status Spread(const std::string& name, const std::vector<uint64_t>& dims, float mean, float bound) {
    std::vector<float> values(dims[0] * (dims.size() > 1 ? dims[1] : 1));
    ++stream_;
    for (size_t i = 0; i < values.size(); ++i) values[i] = mean + bound * Symmetric(i);
    return writer_.AddTensorFromFloats(name, TensorType::kF32, dims, values);
  }

  // One for each expert.
  absl::Status Experts(const std::string& name, uint64_t columns, uint64_t rows) {
    std::vector<float> values(columns * rows * kExperts);
    ++stream_;
    const float bound = std::sqrt(3.0f / static_cast<float>(columns));
    for (size_t i = 0; i < values.size(); ++i) values[i] = bound * Symmetric(i);
    return writer_.AddTensorFromFloats(name, model_.weight_type,
                                       std::vector<uint64_t>{columns, rows, kExperts}, values);
  }

  absl::Status Vector(const std::string& name, const std::vector<float>& values) {
    return writer_.AddTensorFromFloats(name, TensorType::kF32, std::vector<uint64_t>{values.size()}, values);
  }

 private:
  float Symmetric(size_t i) const {
    return static_cast<float>(2.0 * UniformDraw(model_.seed, stream_, i) - 1.0);
  }

  const TinyModel& model_;
  GgufWriter& writer_;
  uint32_t stream_ = 0;
};

absl::Status AddAttention(const TinyModel& model, uint32_t head_dim, const std::string& prefix,
                          TensorMaker& maker) {
  const uint64_t n_q = uint64_t{model.n_head} * head_dim;
  const uint64_t n_kv = uint64_t{model.n_head_kv} * head_dim;
  const uint64_t gated = model.Hybrid() ? 2 : 1;
  SPILLWAY_RETURN_IF_ERROR(maker.Matrix(prefix + "attn_q.weight", model.n_embd, gated * n_q, 1.2f));
  SPILLWAY_RETURN_IF_ERROR(maker.Matrix(prefix + "attn_k.weight", model.n_embd, n_kv, 1.2f));
  SPILLWAY_RETURN_IF_ERROR(maker.Matrix(prefix + "attn_v.weight", model.n_embd, n_kv, 1.0f));
  if (model.Hybrid()) {
    SPILLWAY_RETURN_IF_ERROR(maker.Norm(prefix + "attn_q_norm.weight", head_dim));
    SPILLWAY_RETURN_IF_ERROR(maker.Norm(prefix + "attn_k_norm.weight", head_dim));
  }
  return maker.Matrix(prefix + "attn_output.weight", n_q, model.n_embd, 1.0f);
}

absl::Status AddRecurrent(const TinyModel& model, const std::string& prefix, TensorMaker& maker) {
  const uint64_t keys = uint64_t{model.n_head_k} * kTinyStateDim;
  const uint64_t values = uint64_t{model.n_head_v} * kTinyStateDim;
  const uint64_t channels = 2 * keys + values;
  SPILLWAY_RETURN_IF_ERROR(maker.Matrix(prefix + "attn_qkv.weight", model.n_embd, channels, 1.2f));
  SPILLWAY_RETURN_IF_ERROR(maker.Matrix(prefix + "attn_gate.weight", model.n_embd, values, 1.0f));
  if (model.architecture == "qwen3next") {
    SPILLWAY_RETURN_IF_ERROR(
        maker.Matrix(prefix + "ssm_ba.weight", model.n_embd, 2 * uint64_t{model.n_head_v}, 1.0f));
  } else {
    SPILLWAY_RETURN_IF_ERROR(maker.Matrix(prefix + "ssm_alpha.weight", model.n_embd, model.n_head_v, 1.0f));
    SPILLWAY_RETURN_IF_ERROR(maker.Matrix(prefix + "ssm_beta.weight", model.n_embd, model.n_head_v, 1.0f));
  }
  SPILLWAY_RETURN_IF_ERROR(maker.Spread(prefix + "ssm_conv1d.weight", {kConvTaps, channels}, 0.0f, 0.9f));
  SPILLWAY_RETURN_IF_ERROR(maker.Spread(prefix + "ssm_a", {model.n_head_v}, -0.3f, 0.25f));
  SPILLWAY_RETURN_IF_ERROR(maker.Spread(prefix + "ssm_dt.bias", {model.n_head_v}, 0.0f, 1.0f));
  SPILLWAY_RETURN_IF_ERROR(maker.Norm(prefix + "ssm_norm.weight", kTinyStateDim));
  return maker.Matrix(prefix + "ssm_out.weight", values, model.n_embd, 1.0f);
}

absl::Status AddExperts(const TinyModel& model, const std::string& prefix, TensorMaker& maker) {
  SPILLWAY_RETURN_IF_ERROR(maker.Spread(prefix + "ffn_gate_inp.weight", {model.n_embd, kExperts}, 0, 0.2f));
  SPILLWAY_RETURN_IF_ERROR(maker.Experts(prefix + "ffn_gate_exps.weight", model.n_embd, model.n_ff));
  SPILLWAY_RETURN_IF_ERROR(maker.Experts(prefix + "ffn_up_exps.weight", model.n_embd, model.n_ff));
  SPILLWAY_RETURN_IF_ERROR(maker.Experts(prefix + "ffn_down_exps.weight", model.n_ff, model.n_embd));
  SPILLWAY_RETURN_IF_ERROR(maker.Spread(prefix + "ffn_gate_inp_shexp.weight", {model.n_embd}, 0.0f, 0.2f));
  SPILLWAY_RETURN_IF_ERROR(maker.Matrix(prefix + "ffn_gate_shexp.weight", model.n_embd, model.n_ff, 1.0f));
  SPILLWAY_RETURN_IF_ERROR(maker.Matrix(prefix + "ffn_up_shexp.weight", model.n_embd, model.n_ff, 1.0f));
  return maker.Matrix(prefix + "ffn_down_shexp.weight", model.n_ff, model.n_embd, 1.0f);
}

absl::Status AddLayer(const TinyModel& model, uint32_t head_dim, uint32_t layer, TensorMaker& maker) {
  const std::string prefix = fmt::format("blk.{}.", layer);
  SPILLWAY_RETURN_IF_ERROR(maker.Norm(prefix + "attn_norm.weight"));
  SPILLWAY_RETURN_IF_ERROR(IsRecurrent(model, layer) ? AddRecurrent(model, prefix, maker)
                                                     : AddAttention(model, head_dim, prefix, maker));
  SPILLWAY_RETURN_IF_ERROR(
      maker.Norm(prefix + (model.Hybrid() ? "post_attention_norm.weight" : "ffn_norm.weight")));
  if (model.Experts()) return AddExperts(model, prefix, maker);
  SPILLWAY_RETURN_IF_ERROR(maker.Matrix(prefix + "ffn_gate.weight", model.n_embd, model.n_ff, 1.0f));
  SPILLWAY_RETURN_IF_ERROR(maker.Matrix(prefix + "ffn_up.weight", model.n_embd, model.n_ff, 1.0f));
  return maker.Matrix(prefix + "ffn_down.weight", model.n_ff, model.n_embd, 1.0f);
}

absl::Status AddTensors(const TinyModel& model, uint32_t head_dim, GgufWriter& writer) {
  TensorMaker maker(model, writer);
  SPILLWAY_RETURN_IF_ERROR(maker.Matrix("token_embd.weight", model.n_embd, model.n_vocab, 2.0f));
  for (uint32_t layer = 0; layer < model.n_layer; ++layer) {
    SPILLWAY_RETURN_IF_ERROR(AddLayer(model, head_dim, layer, maker));
  }
  SPILLWAY_RETURN_IF_ERROR(maker.Norm("output_norm.weight"));
  if (!model.tied) SPILLWAY_RETURN_IF_ERROR(maker.Matrix("output.weight", model.n_embd, model.n_vocab, 2.0f));
  if (!model.rope_freqs) return absl::OkStatus();
  std::vector<float> divisors(head_dim / 2);
  for (size_t i = 0; i < divisors.size(); ++i) {
    divisors[i] = 1.0f + 7.0f * static_cast<float>(i) / static_cast<float>(divisors.size());
  }
  return maker.Vector("rope_freqs.weight", divisors);
}

}  // namespace

absl::StatusOr<GgufWriter> MakeTinyModel(const TinyModel& model, GgufWriter::Options options) {
  const uint32_t head_dim = model.head_dim != 0 ? model.head_dim : model.n_embd / std::max(model.n_head, 1u);
  if (model.n_vocab <= kTinyImEnd) {
    return InvalidArgument("n_vocab {} is less than {}, the bytes and control tokens", model.n_vocab,
                           kTinyImEnd + 1);
  }
  GgufWriter writer(options);
  SetMetadata(model, head_dim, writer);
  SetVocabulary(model, writer);
  SPILLWAY_RETURN_IF_ERROR(AddTensors(model, head_dim, writer));
  return writer;
}

absl::StatusOr<std::string> WriteTinyModel(const TinyModel& model, const std::string& path) {
  SPILLWAY_ASSIGN_OR_RETURN(const GgufWriter writer, MakeTinyModel(model));
  SPILLWAY_RETURN_IF_ERROR(writer.Write(path));
  return path;
}

}  // namespace spillway::test
