// Field by field translation between the wire and the engine. Sums and products of peer-given numbers are
// taken in 64 bits; a list is bounded before it is copied.
#include "rpc/convert.h"

#include <bit>
#include <cstring>

#include "engine/base/half.h"
#include "engine/base/status.h"

namespace spillway::rpc {

static_assert(std::endian::native == std::endian::little, "activations are little-endian on the wire");

namespace {

constexpr uint32_t kMaxContext = 1u << 26;  // tokens per sequence
constexpr uint32_t kMaxPages = 1u << 28;    // of 32 tokens
constexpr uint32_t kMaxSequences = 1u << 16;
constexpr uint32_t kMaxRows = 1u << 14;  // of a micro-batch
constexpr uint32_t kMaxThreads = 1u << 10;

v1::CacheType CacheTypeToProto(CacheType type) {
  return type == CacheType::kF16 ? v1::CACHE_TYPE_F16 : v1::CACHE_TYPE_Q8_0;
}

absl::StatusOr<CacheType> CacheTypeFromProto(std::string_view name, v1::CacheType type) {
  if (type == v1::CACHE_TYPE_Q8_0) return CacheType::kQ8_0;
  if (type == v1::CACHE_TYPE_F16 || type == v1::CACHE_TYPE_UNSPECIFIED) return CacheType::kF16;
  return InvalidArgument("{}: {} is a type that this worker does not know", name, static_cast<int>(type));
}

absl::Status CheckRange(std::string_view name, uint32_t value, uint32_t max) {
  if (value == 0 || value > max) {
    return InvalidArgument("stage option {} is {}; it must be in [1, {}]", name, value, max);
  }
  return absl::OkStatus();
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.raw_code()), MessageOf(status));
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const int code = status.error_code();
  const bool known = code > 0 && code <= static_cast<int>(absl::StatusCode::kUnauthenticated);
  return absl::Status(known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown,
                      status.error_message());
}

void ToProto(const StageUnits& units, v1::StageUnits* proto) {
  proto->set_layer_begin(units.layer_begin);
  proto->set_layer_end(units.layer_end);
  proto->set_embedding(units.embedding);
  proto->set_head(units.head);
}

void ToProto(const StageOptions& options, v1::StageOptions* proto) {
  proto->set_n_ctx(options.n_ctx);
  proto->set_kv_pages(options.kv_pages);
  proto->set_max_sequences(options.max_sequences);
  proto->set_max_rows(options.max_rows);
  proto->set_threads(options.threads);
  proto->set_cache_type_k(CacheTypeToProto(options.cache_type_k));
  proto->set_cache_type_v(CacheTypeToProto(options.cache_type_v));
}

void ToProto(const PurposeBytes& bytes, v1::MemoryByPurpose* proto) {
  proto->set_weights(bytes[Purpose::kWeights]);
  proto->set_kv_cache(bytes[Purpose::kKvCache]);
  proto->set_recurrent_state(bytes[Purpose::kRecurrentState]);
  proto->set_activations(bytes[Purpose::kActivations]);
  proto->set_workspace(bytes[Purpose::kWorkspace]);
  proto->set_staging(bytes[Purpose::kStaging]);
  proto->set_context(bytes[Purpose::kContext]);
}

PurposeBytes BytesFromProto(const v1::MemoryByPurpose& proto) {
  PurposeBytes bytes;
  bytes[Purpose::kWeights] = proto.weights();
  bytes[Purpose::kKvCache] = proto.kv_cache();
  bytes[Purpose::kRecurrentState] = proto.recurrent_state();
  bytes[Purpose::kActivations] = proto.activations();
  bytes[Purpose::kWorkspace] = proto.workspace();
  bytes[Purpose::kStaging] = proto.staging();
  bytes[Purpose::kContext] = proto.context();
  return bytes;
}

absl::StatusOr<StageUnits> UnitsFromProto(const v1::StageUnits& proto, uint32_t n_layer) {
  StageUnits units;
  units.layer_begin = proto.layer_begin();
  units.layer_end = proto.layer_end();
  units.embedding = proto.embedding();
  units.head = proto.head();
  if (units.layer_begin > units.layer_end || units.layer_end > n_layer) {
    return InvalidArgument("units: layers [{}, {}) are no range of the model's {} layers", units.layer_begin,
                           units.layer_end, n_layer);
  }
  if (units.Layers() == 0 && !units.embedding && !units.head) {
    return InvalidArgument("units: a stage must hold layers, the embedding or the head; it was given none");
  }
  return units;
}

absl::StatusOr<StageOptions> OptionsFromProto(const v1::StageOptions& proto) {
  SPILLWAY_RETURN_IF_ERROR(CheckRange("n_ctx", proto.n_ctx(), kMaxContext));
  SPILLWAY_RETURN_IF_ERROR(CheckRange("kv_pages", proto.kv_pages(), kMaxPages));
  SPILLWAY_RETURN_IF_ERROR(CheckRange("max_sequences", proto.max_sequences(), kMaxSequences));
  SPILLWAY_RETURN_IF_ERROR(CheckRange("max_rows", proto.max_rows(), kMaxRows));
  SPILLWAY_RETURN_IF_ERROR(CheckRange("threads", proto.threads(), kMaxThreads));
  StageOptions options;
  options.n_ctx = proto.n_ctx();
  options.kv_pages = proto.kv_pages();
  options.max_sequences = proto.max_sequences();
  options.max_rows = proto.max_rows();
  options.threads = proto.threads();
  SPILLWAY_ASSIGN_OR_RETURN(options.cache_type_k, CacheTypeFromProto("cache_type_k", proto.cache_type_k()));
  SPILLWAY_ASSIGN_OR_RETURN(options.cache_type_v, CacheTypeFromProto("cache_type_v", proto.cache_type_v()));
  return options;
}

void ToProto(const SamplingParams& params, v1::SamplingParameters* proto) {
  proto->set_temperature(params.temperature);
  proto->set_top_k(params.top_k);
  proto->set_top_p(params.top_p);
  proto->set_min_p(params.min_p);
  proto->set_repetition_penalty(params.repetition_penalty);
  proto->set_presence_penalty(params.presence_penalty);
  proto->set_frequency_penalty(params.frequency_penalty);
  proto->set_seed(params.seed);
  proto->set_choice(params.choice);
  proto->set_n_logprobs(params.n_logprobs);
  proto->set_logprobs(params.logprobs);
  proto->set_min_tokens(params.min_tokens);
  proto->mutable_stop_ids()->Assign(params.stop_ids.begin(), params.stop_ids.end());
  proto->clear_logit_bias();
  for (const auto& [token, bias] : params.logit_bias) {
    v1::LogitBias* entry = proto->add_logit_bias();
    entry->set_token(token);
    entry->set_bias(bias);
  }
}

absl::StatusOr<SamplingParams> SamplingFromProto(const v1::SamplingParameters& proto) {
  if (static_cast<uint32_t>(proto.stop_ids_size()) > kMaxStopIds) {
    return InvalidArgument("sampling: {} stop ids; at most {}", proto.stop_ids_size(), kMaxStopIds);
  }
  if (static_cast<uint32_t>(proto.logit_bias_size()) > kMaxLogitBias) {
    return InvalidArgument("sampling: {} logit biases; at most {}", proto.logit_bias_size(), kMaxLogitBias);
  }
  SamplingParams params;
  params.temperature = proto.temperature();
  params.top_k = proto.top_k();
  params.top_p = proto.top_p();
  params.min_p = proto.min_p();
  params.repetition_penalty = proto.repetition_penalty();
  params.presence_penalty = proto.presence_penalty();
  params.frequency_penalty = proto.frequency_penalty();
  params.seed = proto.seed();
  params.choice = proto.choice();
  params.n_logprobs = proto.n_logprobs();
  params.logprobs = proto.logprobs();
  params.min_tokens = proto.min_tokens();
  params.stop_ids.assign(proto.stop_ids().begin(), proto.stop_ids().end());
  params.logit_bias.reserve(proto.logit_bias_size());
  for (const v1::LogitBias& entry : proto.logit_bias())
    params.logit_bias.emplace_back(entry.token(), entry.bias());
  return params;
}

void ToProto(const Segment& segment, v1::Segment* proto) {
  proto->set_sequence(segment.sequence);
  proto->set_begin(segment.begin);
  proto->set_outputs(static_cast<v1::OutputRows>(segment.outputs));
  proto->set_recompute(segment.recompute);
  proto->set_return_logits(segment.return_logits);
  proto->set_prefix_hash(segment.prefix_hash);
  proto->mutable_tokens()->Assign(segment.tokens.begin(), segment.tokens.end());
  proto->set_token_masks(segment.token_masks.data(), segment.token_masks.size());
}

static_assert(static_cast<int>(Outputs::kAll) == v1::OUTPUT_ROWS_ALL);
static_assert(static_cast<int>(Outputs::kLast) == v1::OUTPUT_ROWS_LAST);
static_assert(static_cast<int>(SegmentCode::kOk) + 1 == v1::SEGMENT_CODE_OK);
static_assert(static_cast<int>(SegmentCode::kInvalid) + 1 == v1::SEGMENT_CODE_INVALID);

void ToProto(const SegmentResult& result, v1::SegmentResult* proto) {
  proto->set_code(static_cast<v1::SegmentCode>(static_cast<int>(result.code) + 1));
  proto->set_held_tokens(result.held_tokens);
  proto->set_resume_tokens(result.resume_tokens);
  if (!result.error.empty()) proto->set_error(result.error);
}

absl::StatusOr<SegmentResult> ResultFromProto(const v1::SegmentResult& proto) {
  if (proto.code() < v1::SEGMENT_CODE_OK || proto.code() > v1::SEGMENT_CODE_INVALID) {
    return InvalidArgument("segment result: unknown code {}", static_cast<int>(proto.code()));
  }
  SegmentResult result;
  result.code = static_cast<SegmentCode>(static_cast<int>(proto.code()) - 1);
  result.held_tokens = proto.held_tokens();
  result.resume_tokens = proto.resume_tokens();
  result.error = proto.error();
  return result;
}

absl::StatusOr<uint64_t> CheckSegments(const v1::Forward& forward, uint32_t max_rows) {
  if (forward.segments_size() == 0) return InvalidArgument("forward: no segments");
  uint64_t rows = 0;
  for (int i = 0; i < forward.segments_size(); ++i) {
    const v1::Segment& segment = forward.segments(i);
    const uint64_t count = static_cast<uint64_t>(segment.tokens_size());
    if (count == 0) return InvalidArgument("forward: segment {} has no tokens", i);
    if (segment.outputs() < v1::OUTPUT_ROWS_NONE || segment.outputs() > v1::OUTPUT_ROWS_ALL) {
      return InvalidArgument("forward: segment {} wants unknown outputs {}", i,
                             static_cast<int>(segment.outputs()));
    }
    if (uint64_t{segment.begin()} + count > UINT32_MAX) {
      return InvalidArgument("forward: segment {} ends at position {}, beyond 32 bits", i,
                             segment.begin() + count);
    }
    rows += count;
    if (rows > max_rows) {
      return InvalidArgument("forward: {} rows up to segment {}; the stage takes {} a micro-batch", rows, i,
                             max_rows);
    }
  }
  return rows;
}

void SegmentsFromProto(const v1::Forward& forward, std::vector<Segment>* segments) {
  for (const v1::Segment& proto : forward.segments()) {
    Segment& segment = segments->emplace_back();
    segment.sequence = proto.sequence();
    segment.begin = proto.begin();
    segment.outputs = static_cast<Outputs>(proto.outputs());
    segment.recompute = proto.recompute();
    segment.return_logits = proto.return_logits();
    segment.prefix_hash = proto.prefix_hash();
    segment.tokens = {proto.tokens().data(), static_cast<size_t>(proto.tokens_size())};
    segment.token_masks = {reinterpret_cast<const uint8_t*>(proto.token_masks().data()),
                           proto.token_masks().size()};
  }
}

absl::StatusOr<uint64_t> ActivationBytes(v1::ActivationType type) {
  switch (type) {
    case v1::ACTIVATION_TYPE_F32:
      return uint64_t{4};
    case v1::ACTIVATION_TYPE_F16:
    case v1::ACTIVATION_TYPE_BF16:
      return uint64_t{2};
    default:
      return InvalidArgument("forward: unknown activation type {}", static_cast<int>(type));
  }
}

absl::StatusOr<std::span<const float>> DecodeActivations(v1::ActivationType type, const std::string& bytes,
                                                         uint64_t count, std::vector<float>* storage) {
  SPILLWAY_ASSIGN_OR_RETURN(const uint64_t element, ActivationBytes(type));
  if (bytes.size() != count * element) {
    return InvalidArgument("forward: {} activation bytes where {} values of {} bytes are due", bytes.size(),
                           count, element);
  }
  const char* source = bytes.data();
  if (type == v1::ACTIVATION_TYPE_F32 && reinterpret_cast<uintptr_t>(source) % alignof(float) == 0) {
    return std::span<const float>(reinterpret_cast<const float*>(source), count);
  }
  storage->resize(count);
  if (type == v1::ACTIVATION_TYPE_F32) {
    std::memcpy(storage->data(), source, bytes.size());
    return std::span<const float>(*storage);
  }
  for (uint64_t i = 0; i < count; ++i) {
    uint16_t half;
    std::memcpy(&half, source + 2 * i, sizeof(half));
    (*storage)[i] = type == v1::ACTIVATION_TYPE_F16 ? F16ToF32(half) : Bf16ToF32(half);
  }
  return std::span<const float>(*storage);
}

void EncodeActivations(std::span<const float> values, v1::ActivationType type, std::string* bytes) {
  if (type == v1::ACTIVATION_TYPE_F32) {
    bytes->append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
    return;
  }
  const size_t start = bytes->size();
  bytes->resize(start + 2 * values.size());
  char* target = bytes->data() + start;
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t half = type == v1::ACTIVATION_TYPE_F16 ? F32ToF16(values[i]) : F32ToBf16(values[i]);
    std::memcpy(target + 2 * i, &half, sizeof(half));
  }
}

}  // namespace spillway::rpc
