// The host forward pass. Stages in order: rows, residual, then per layer attention norm, q k v, rotation and
// store, attention, output, ffn norm, gate and up, down; last the head. Every matrix product is split over
// threads by groups of 16 output rows, so each output is computed by one thread in one order whatever the
// split.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "engine/base/status.h"
#include "engine/cpu/host_stage_impl.h"

namespace spillway::cpu {
namespace {

constexpr uint32_t kMaxNormPart = 4096;  // a head or a latent

}  // namespace

absl::Status HostStage::Forward(const MicroBatch& batch, ForwardOutput* output) {
  *output = ForwardOutput{};
  SPILLWAY_RETURN_IF_ERROR(CheckMicroBatch(batch, units_, options_, model_.config.n_embd));
  layer_steps_ = 0;
  PrepareRows(batch);
  LoadResidual(batch);
  for (uint32_t layer = 0; layer < units_.Layers() && !rows_.empty(); ++layer) Layer(layer);
  if (units_.head) {
    Head();
  } else {
    ForRows([this](uint32_t row) {
      std::memcpy(Floats(kOutput) + uint64_t{row} * model_.config.n_embd,
                  Floats(kResidual) + uint64_t{row} * layout_.embd_stride,
                  model_.config.n_embd * sizeof(float));
    });
    output->activations = {Floats(kOutput), rows_.size() * model_.config.n_embd};
  }
  output->segments = {results_.data(), batch.segments.size()};
  output->sampled = sampled_;
  output->layer_steps = layer_steps_;
  return absl::OkStatus();
}

// Decides per segment, takes its pages and lists its rows.
void HostStage::PrepareRows(const MicroBatch& batch) {
  rows_.clear();
  runs_.clear();
  sampled_.clear();
  logit_rows_ = 0;
  angles_table_ = ~0u;
  for (uint32_t s = 0; s < batch.segments.size(); ++s) {
    const Segment& segment = batch.segments[s];
    const std::optional<PageCopy> copy = sequences_.Prepare(segment, &results_[s]);
    if (results_[s].code != SegmentCode::kOk) continue;
    if (copy.has_value()) CopyPage(*copy);
    const SequenceState* state = sequences_.Find(segment.sequence);
    runs_.push_back({static_cast<uint32_t>(rows_.size()), segment.count(), state->run});
    for (uint32_t i = 0; i < segment.count(); ++i) {
      const bool wanted =
          segment.outputs == Outputs::kAll || (segment.outputs == Outputs::kLast && i + 1 == segment.count());
      // Masks stand for the wanted rows, which are the last ones.
      const uint64_t mask = i - (segment.count() - segment.wanted_rows());
      rows_.push_back(Row{state, segment.begin + i, s, !segment.recompute, wanted, segment.return_logits,
                          wanted && !segment.token_masks.empty()
                              ? segment.token_masks.data() + mask * MaskBytes(model_.config.n_vocab)
                              : nullptr});
    }
  }
}

// The residual of every row: an embedding lookup in the mapped file, or the previous stage's activations.
void HostStage::LoadResidual(const MicroBatch& batch) {
  const uint32_t n_embd = model_.config.n_embd;
  if (units_.embedding) {
    const GgufTensor& table = *model_.token_embd;
    const FormatInfo& format = FormatOf(table.type);
    const uint64_t row_bytes = table.bytes / table.Rows();
    ForRows([&](uint32_t row) {
      const int32_t token = rows_[row].state->tokens[rows_[row].position];
      format.dequantize(table.data.data() + static_cast<uint64_t>(token) * row_bytes,
                        Floats(kResidual) + uint64_t{row} * layout_.embd_stride, n_embd);
      if (model_.config.embedding_scale == 1.0f) return;
      float* x = Floats(kResidual) + uint64_t{row} * layout_.embd_stride;
      for (uint32_t i = 0; i < n_embd; ++i) x[i] *= model_.config.embedding_scale;
    });
    return;
  }
  const float* source = batch.activations.data();
  uint32_t row = 0;
  for (uint32_t s = 0; s < batch.segments.size(); ++s) {
    const uint32_t count = batch.segments[s].count();
    if (results_[s].code == SegmentCode::kOk) {
      for (uint32_t i = 0; i < count; ++i, ++row) {
        std::memcpy(Floats(kResidual) + uint64_t{row} * layout_.embd_stride, source + uint64_t{i} * n_embd,
                    n_embd * sizeof(float));
      }
    }
    source += uint64_t{count} * n_embd;
  }
}

void HostStage::Layer(uint32_t index) {
  const LayerSpec& spec = model_.config.layers[units_.layer_begin + index];
  const HostLayerWeights& weights = weights_.layers[index];
  const bool branch = HasBranch(spec, model_.layers[units_.layer_begin + index]);
  Attention(spec, weights, index, branch);
  if (branch) AddBranch(spec, weights.vectors[kAttnPostNorm]);
  FeedForward(spec, weights, branch);
  if (branch) AddBranch(spec, weights.vectors[kFfnPostNorm]);
  layer_steps_ += rows_.size();
}

// Adds a block's output to the residual, normed and scaled where the layer says so.
void HostStage::AddBranch(const LayerSpec& spec, const float* norm) {
  const uint32_t n_embd = model_.config.n_embd;
  ForRows([&](uint32_t row) {
    float* branch = Floats(kBranch) + uint64_t{row} * layout_.embd_stride;
    float* x = Floats(kResidual) + uint64_t{row} * layout_.embd_stride;
    if (norm != nullptr) kernels_.rms_norm(branch, norm, spec.norm_eps, n_embd, branch);
    for (uint32_t i = 0; i < n_embd; ++i) x[i] += spec.residual_scale * branch[i];
  });
}

// Norm, then q, k and v in one region, rotated and stored.
void HostStage::Project(const LayerSpec& spec, const HostLayerWeights& weights, uint32_t index) {
  const auto& m = weights.matrices;
  const uint32_t q_width = PadTo16(spec.n_head * spec.head_dim);
  const uint32_t kv_width = PadTo16(spec.n_head_kv * spec.head_dim);
  float* qkv = Floats(kQkv);
  const uint64_t stride = layout_.qkv_stride;
  NormInput(weights.vectors[kAttnNorm], spec.norm_eps,
            m[kAttnQ].Quantized() || m[kAttnK].Quantized() || m[kAttnV].Quantized());
  const Product qkv_products[] = {
      {&m[kAttnQ], spec.output_gate ? qkv + q_width + 2 * kv_width : qkv, stride, weights.vectors[kAttnQBias],
       false},
      {&m[kAttnK], qkv + q_width, stride, weights.vectors[kAttnKBias], false},
      {&m[kAttnV], qkv + q_width + kv_width, stride, weights.vectors[kAttnVBias], false}};
  Multiply(qkv_products, static_cast<uint32_t>(rows_.size()));
  RotateAndStore(spec, weights, index);
}

void HostStage::Attention(const LayerSpec& spec, const HostLayerWeights& weights, uint32_t index,
                          bool branch) {
  if (spec.Recurrent()) {
    Recur(spec, weights, index);
  } else if (spec.Latent()) {
    ProjectLatent(spec, weights, index);
    Attend(spec, weights, index);
    LatentValues(spec, weights);
  } else {
    Project(spec, weights, index);
    Attend(spec, weights, index);
    if (spec.output_gate) GateHeads(spec);
  }

  // Output projection, onto the residual or beside it.
  const PackedMatrix& w = weights.matrices[spec.Recurrent() ? kSsmOut : kAttnOutput];
  if (w.Quantized()) QuantizeInput(w.n_in);
  const Product output[] = {{&w, Floats(branch ? kBranch : kResidual), layout_.embd_stride,
                             weights.vectors[kAttnOutputBias], !branch}};
  Multiply(output, static_cast<uint32_t>(rows_.size()));
}

// kQkv against the pages -> kInput. A task is one row and up to four query heads of one key/value head.
void HostStage::Attend(const LayerSpec& spec, const HostLayerWeights& weights, uint32_t index) {
  const uint32_t rows = static_cast<uint32_t>(rows_.size());
  const uint32_t kv_heads = spec.KeyHeads();
  const uint32_t group = spec.n_head / kv_heads;
  const uint32_t parts = (group + 3) / 4;
  const uint32_t tasks = rows * kv_heads * parts;
  const LatentColumns latent(spec);
  AttendArgs common;
  common.head_dim = spec.KeyDim();
  common.value_dim = spec.ValueDim();
  common.q_stride = spec.Latent() ? latent.head_stride : spec.head_dim;
  common.out_stride = spec.Latent() ? latent.value_stride : spec.head_dim;
  common.page_stride = layout_.pages[index].page_bytes;
  common.k_type = options_.cache_type_k;
  common.v_type = options_.cache_type_v;
  const uint64_t k_bytes = KeyPageBytes(common.k_type, spec.KeyDim());
  const uint64_t v_bytes = ValuePageBytes(common.v_type, spec.head_dim);
  common.scale = spec.attention_scale;
  common.softcap = spec.attention_softcap;
  const float* q = Floats(kQkv) + (spec.Latent() ? latent.heads : 0);
  std::atomic<uint32_t> next{0};
  pool_.Run([&](int thread) {
    for (uint32_t task = next.fetch_add(1); task < tasks; task = next.fetch_add(1)) {
      const uint32_t row = rows - 1 - task / (kv_heads * parts);  // longest first
      const uint32_t kv_head = task / parts % kv_heads;
      const uint32_t head = kv_head * group + task % parts * 4;
      AttendArgs args = common;
      args.q = q + row * uint64_t{layout_.qkv_stride} + uint64_t{head} * args.q_stride;
      args.heads = std::min(4u, (kv_head + 1) * group - head);
      args.n_tokens = rows_[row].position + 1;
      args.first_token = spec.FirstVisible(rows_[row].position);
      args.pages = rows_[row].state->pages.data();
      args.k_pages = Page(index, 0) + kv_head * k_bytes;
      if (!spec.Latent()) args.v_pages = Page(index, 0) + kv_heads * k_bytes + kv_head * v_bytes;
      if (weights.vectors[kAttnSinks] != nullptr) args.sinks = weights.vectors[kAttnSinks] + head;
      args.scores = Floats(kScores) + uint64_t{static_cast<uint32_t>(thread)} * 4 * layout_.scores_stride;
      args.out = Floats(kInput) + uint64_t{row} * layout_.input_stride + uint64_t{head} * args.out_stride;
      kernels_.attend(args);
    }
  });
}

// What heads gave, times the sigmoid of their gates.
void HostStage::GateHeads(const LayerSpec& spec) {
  const uint32_t width = spec.n_head * spec.head_dim;
  const uint32_t gates = PadTo16(width) + 2 * PadTo16(spec.n_head_kv * spec.head_dim);
  ForRows([&](uint32_t row) {
    float* out = Floats(kInput) + uint64_t{row} * layout_.input_stride;
    kernels_.sigmoid_mul(Floats(kQkv) + uint64_t{row} * layout_.qkv_stride + gates, out, width, out);
  });
}

namespace {

// (n_head, 2, head_dim) queries and gates to queries at q and gates where both were.
void SplitGates(const LayerSpec& spec, float* both, float* q) {
  for (uint32_t h = 0; h < spec.n_head; ++h) {
    const float* head = both + uint64_t{h} * 2 * spec.head_dim;
    std::copy_n(head, spec.head_dim, q + uint64_t{h} * spec.head_dim);
    std::copy_n(head + spec.head_dim, spec.head_dim, both + uint64_t{h} * spec.head_dim);
  }
}

}  // namespace

void RotateHead(const RopeSpec& rope, const float* cos, const float* sin, float* head) {
  const uint32_t half = rope.n_rot / 2;
  const uint32_t step = rope.kind == RopeKind::kNorm ? 2 : 1;
  const uint32_t partner = rope.kind == RopeKind::kNorm ? 1 : half;
  for (uint32_t i = 0; i < half; ++i) {
    const float a = head[i * step];
    const float b = head[i * step + partner];
    head[i * step] = a * cos[i] - b * sin[i];
    head[i * step + partner] = a * sin[i] + b * cos[i];
  }
}

void Temper(const LayerSpec& spec, uint32_t position, float* q) {
  if (spec.temperature_scale == 0.0f) return;
  const float factor = static_cast<float>(spec.Temperature(position));
  for (uint32_t i = 0; i < spec.n_head * spec.head_dim; ++i) q[i] *= factor;
}

// RMSNorm in place of n values that others may follow.
void HostStage::NormPart(const float* weight, float eps, uint32_t n, float* x) const {
  if (n % 16 == 0) return kernels_.rms_norm(x, weight, eps, n, x);
  alignas(64) std::array<float, kMaxNormPart> part;
  std::fill(std::copy_n(x, n, part.begin()), part.begin() + PadTo16(n), 0.0f);
  kernels_.rms_norm(part.data(), weight, eps, n, part.data());
  std::copy_n(part.begin(), n, x);
}

// q and k: optional norm of rows or heads, rotation by position; then k and v into their pages.
void HostStage::RotateAndStore(const LayerSpec& spec, const HostLayerWeights& weights, uint32_t index) {
  SetAngles(layer_table_[index]);
  const uint32_t q_width = PadTo16(spec.n_head * spec.head_dim);
  const uint32_t kv_width = PadTo16(spec.n_head_kv * spec.head_dim);
  ForRows([&](uint32_t row) {
    float* q = Floats(kQkv) + uint64_t{row} * layout_.qkv_stride;
    const float* cos = Floats(kAngles) + uint64_t{row} * 2 * layout_.angle_stride;
    if (spec.output_gate) SplitGates(spec, q + q_width + 2 * kv_width, q);
    if (spec.qk_norm == QkNorm::kRow) {
      kernels_.rms_norm(q, weights.vectors[kAttnQNorm], spec.norm_eps, spec.n_head * spec.head_dim, q);
      kernels_.rms_norm(q + q_width, weights.vectors[kAttnKNorm], spec.norm_eps,
                        spec.n_head_kv * spec.head_dim, q + q_width);
    }
    for (uint32_t h = 0; h < spec.n_head + spec.n_head_kv; ++h) {
      const bool is_key = h >= spec.n_head;
      float* head =
          is_key ? q + q_width + uint64_t{h - spec.n_head} * spec.head_dim : q + uint64_t{h} * spec.head_dim;
      const float* norm = weights.vectors[is_key ? kAttnKNorm : kAttnQNorm];
      if (spec.qk_norm == QkNorm::kHead && norm != nullptr) {
        NormPart(norm, spec.norm_eps, spec.head_dim, head);
      }
      if (spec.rope.kind != RopeKind::kNone) RotateHead(spec.rope, cos, cos + layout_.angle_stride, head);
      if (spec.qk_norm == QkNorm::kAfterRope) NormPart(ones_.data(), spec.norm_eps, spec.head_dim, head);
    }
    const uint32_t position = rows_[row].position;
    Temper(spec, position, q);
    if (!rows_[row].write) return;
    std::byte* page = Page(index, rows_[row].state->pages[position / kPageTokens]);
    const uint64_t k_bytes = KeyPageBytes(options_.cache_type_k, spec.head_dim);
    const uint64_t v_bytes = ValuePageBytes(options_.cache_type_v, spec.head_dim);
    const float* k = q + q_width;
    for (uint32_t h = 0; h < spec.n_head_kv; ++h, page += k_bytes, k += spec.head_dim) {
      kernels_.store_key(options_.cache_type_k, k, spec.head_dim, position % kPageTokens, page);
    }
    const float* v = q + q_width + kv_width;
    for (uint32_t h = 0; h < spec.n_head_kv; ++h, page += v_bytes, v += spec.head_dim) {
      kernels_.store_value(options_.cache_type_v, v, spec.head_dim, position % kPageTokens, page);
    }
  });
}

void HostStage::FeedForward(const LayerSpec& spec, const HostLayerWeights& weights, bool branch) {
  const auto& m = weights.matrices;
  bool quantize = false;
  for (const LayerSlot slot :
       {kFfnGate, kFfnUp, kRouter, kGateExperts, kUpExperts, kSharedRouter, kSharedGate, kSharedUp}) {
    quantize = quantize || m[slot].Quantized();
  }
  NormInput(weights.vectors[kFfnNorm], spec.norm_eps, quantize);
  if (spec.experts.n_expert > 0) return Experts(spec, weights);
  Dense(spec, weights, branch);
}

auto HostStage::ActivationOf(Activation activation) const
    -> void (*)(const float*, const float*, uint32_t, float*) {
  switch (activation) {
    case Activation::kSilu:
      return kernels_.silu_mul;
    case Activation::kGeluTanh:
      return kernels_.gelu_mul;
    case Activation::kSwigluClamped:
      break;
  }
  return kernels_.swiglu_clamped_mul;
}

void HostStage::Dense(const LayerSpec& spec, const HostLayerWeights& weights, bool branch) {
  const auto& m = weights.matrices;
  const uint32_t rows = static_cast<uint32_t>(rows_.size());

  // Gate and up of the same columns on one thread, which then activates them; nothing reads the input any
  // more only after the region, so the product goes to the gate buffer first.
  const auto activate = ActivationOf(spec.activation);
  pool_.ParallelFor(m[kFfnGate].Groups(), [&](int64_t begin, int64_t end, int) {
    for (const auto& [slot, buffer] : {std::pair{kFfnGate, kGate}, std::pair{kFfnUp, kUp}}) {
      MatmulArgs args;
      args.w = &m[slot];
      args.x = Floats(kInput);
      args.x_stride = layout_.input_stride;
      args.quantized = &quantized_;
      args.rows = rows;
      args.y = Floats(buffer);
      args.y_stride = layout_.ff_stride;
      kernels_.matmul[static_cast<size_t>(m[slot].packing)](args, static_cast<uint32_t>(begin),
                                                            static_cast<uint32_t>(end));
    }
    for (uint32_t row = 0; row < rows; ++row) {
      const uint64_t offset = uint64_t{row} * layout_.ff_stride + static_cast<uint64_t>(begin) * kGroupRows;
      activate(Floats(kGate) + offset, Floats(kUp) + offset, static_cast<uint32_t>(end - begin) * kGroupRows,
               Floats(kGate) + offset);
    }
  });

  // Down, onto the residual or beside it.
  ForRows([&](uint32_t row) {
    const float* gate = Floats(kGate) + uint64_t{row} * layout_.ff_stride;
    if (m[kFfnDown].Quantized()) {
      kernels_.quantize(gate, spec.n_ff, quantized_.codes + row * quantized_.code_stride,
                        quantized_.blocks + row * (quantized_.code_stride / kBlockColumns));
    } else {
      std::memcpy(Floats(kInput) + uint64_t{row} * layout_.input_stride, gate, spec.n_ff * sizeof(float));
    }
  });
  const Product down[] = {
      {&m[kFfnDown], Floats(branch ? kBranch : kResidual), layout_.embd_stride, nullptr, !branch}};
  Multiply(down, rows);
}

// Final norm, logits in tiles of at most 16 rows, and a draw per wanted row.
void HostStage::Head() {
  const Row* tile[kGroupRows];
  uint32_t count = 0;
  for (const Row& row : rows_) {
    if (!row.wanted) continue;
    tile[count++] = &row;
    if (count == kGroupRows) {
      HeadTile(tile, count);
      count = 0;
    }
  }
  if (count > 0) HeadTile(tile, count);
}

void HostStage::HeadTile(const Row* const* rows, uint32_t count) {
  const uint32_t n_embd = model_.config.n_embd;
  const uint32_t n_vocab = model_.config.n_vocab;
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t row = static_cast<uint64_t>(rows[i] - rows_.data());
    float* input = Floats(kInput) + uint64_t{i} * layout_.input_stride;
    kernels_.rms_norm(Floats(kResidual) + row * layout_.embd_stride, weights_.output_norm,
                      model_.config.norm_eps, n_embd, input);
    if (weights_.output.Quantized()) {
      kernels_.quantize(input, n_embd, quantized_.codes + i * quantized_.code_stride,
                        quantized_.blocks + i * (quantized_.code_stride / kBlockColumns));
    }
  }
  const Product product[] = {{&weights_.output, Floats(kLogits), layout_.vocab_stride, nullptr, false}};
  Multiply(product, count);

  for (uint32_t i = 0; i < count; ++i) {
    float* logits = Floats(kLogits) + uint64_t{i} * layout_.vocab_stride;
    if (model_.config.logit_scale != 1.0f) {
      for (uint32_t t = 0; t < n_vocab; ++t) logits[t] *= model_.config.logit_scale;
    }
    if (model_.config.logit_softcap != 0.0f) {
      kernels_.softcap(logits, layout_.vocab_stride, model_.config.logit_softcap);
    }
  }

  auto* tops = reinterpret_cast<TokenLogprob*>(buffers_[kTop].data());
  for (uint32_t i = 0; i < count; ++i) {
    const Row& row = *rows[i];
    const SequenceOptions& options = row.state->options;
    SampledRow& sampled = sampled_.emplace_back();
    const std::span<const float> logits(Floats(kLogits) + uint64_t{i} * layout_.vocab_stride, n_vocab);
    const std::span<TokenLogprob> top(tops + (sampled_.size() - 1) * kMaxTopLogprobs,
                                      options.sampling.n_logprobs);
    DrawInput input;
    input.logits = logits;
    input.history = std::span(row.state->tokens).first(row.position + 1);
    input.prompt_tokens = options.prompt_tokens;
    input.position = uint64_t{row.position} + 1;
    if (row.mask != nullptr) input.mask = {row.mask, MaskBytes(n_vocab)};
    sampled.segment = row.segment;
    sampled.position = row.position;
    sampled.chosen = DrawToken(input, options.sampling, *sampler_, top);
    sampled.top = top;
    if (row.logits) {
      float* out = Floats(kLogitsOut) + uint64_t{logit_rows_++} * n_vocab;
      std::copy(logits.begin(), logits.end(), out);
      sampled.logits = {out, n_vocab};
    }
  }
}

// cos and sin of every row for one frequency table; kept while consecutive layers share it.
void HostStage::SetAngles(uint32_t table) {
  if (angles_table_ == table) return;
  angles_table_ = table;
  const Rotation& rotation = rotations_[table];
  ForRows([&](uint32_t row) {
    float* cos = Floats(kAngles) + uint64_t{row} * 2 * layout_.angle_stride;
    RopeAngles(rows_[row].position, rotation.frequencies.data(),
               static_cast<uint32_t>(rotation.frequencies.size()), cos, cos + layout_.angle_stride);
    if (rotation.magnitude == 1.0f) return;
    for (uint32_t i = 0; i < layout_.angle_stride * 2; ++i) cos[i] *= rotation.magnitude;
  });
}

void HostStage::NormInput(const float* weight, float eps, bool quantize) {
  ForRows([&](uint32_t row) {
    float* input = Floats(kInput) + uint64_t{row} * layout_.input_stride;
    kernels_.rms_norm(Floats(kResidual) + uint64_t{row} * layout_.embd_stride, weight, eps,
                      model_.config.n_embd, input);
    if (quantize) {
      kernels_.quantize(input, model_.config.n_embd, quantized_.codes + row * quantized_.code_stride,
                        quantized_.blocks + row * (quantized_.code_stride / kBlockColumns));
    }
  });
}

void HostStage::QuantizeInput(uint32_t n) {
  ForRows([&](uint32_t row) {
    kernels_.quantize(Floats(kInput) + uint64_t{row} * layout_.input_stride, n,
                      quantized_.codes + row * quantized_.code_stride,
                      quantized_.blocks + row * (quantized_.code_stride / kBlockColumns));
  });
}

// One region over the groups of all products.
void HostStage::Multiply(std::span<const Product> products, uint32_t rows) {
  int64_t groups = 0;
  for (const Product& product : products) groups += product.w->Groups();
  pool_.ParallelFor(groups, [&](int64_t begin, int64_t end, int) {
    int64_t first = 0;
    for (const Product& product : products) {
      const int64_t last = first + product.w->Groups();
      const int64_t from = std::max(begin, first);
      const int64_t to = std::min(end, last);
      if (from < to) {
        MatmulArgs args;
        args.w = product.w;
        args.x = Floats(kInput);
        args.x_stride = layout_.input_stride;
        args.quantized = &quantized_;
        args.rows = rows;
        args.y = product.y;
        args.y_stride = product.y_stride;
        args.bias = product.bias;
        args.accumulate = product.accumulate;
        kernels_.matmul[static_cast<size_t>(product.w->packing)](args, static_cast<uint32_t>(from - first),
                                                                 static_cast<uint32_t>(to - first));
      }
      first = last;
    }
  });
}

}  // namespace spillway::cpu
