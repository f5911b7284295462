// The reference forward pass. Segments run one after another through all layers, rows of a segment together.
#include "engine/ref/ref_stage.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/ref/layer_state.h"
#include "engine/ref/ops.h"
#include "engine/ref/projection.h"
#include "engine/ref/recurrent.h"
#include "engine/sampling/sampler.h"
#include "engine/stage/sequence_table.h"

namespace spillway::ref {
namespace {

// Weights of the head; unused on a stage without it.
struct HeadWeights {
  Weights output_norm;  // (n_embd)
  Weights output;       // (n_vocab, n_embd)
};

// Matrices and biases (empty: none) of one gated feed-forward network.
struct GatedWeights {
  std::span<const float> gate, up, down;
  std::span<const float> gate_bias, up_bias, down_bias;
};

// down(activation(gate(x)) * up(x)). x and the result (rows, n_embd).
std::vector<double> Gated(const GatedWeights& w, Activation activation, uint64_t n_embd,
                          std::span<const double> x) {
  const uint64_t rows = x.size() / n_embd;
  const uint64_t n_ff = w.gate.size() / n_embd;
  std::vector<double> gate(rows * n_ff), up(rows * n_ff), down(rows * n_embd);
  MatMul(w.gate, x, n_embd, gate);
  MatMul(w.up, x, n_embd, up);
  if (!w.gate_bias.empty()) AddBias(gate, w.gate_bias);
  if (!w.up_bias.empty()) AddBias(up, w.up_bias);
  GatedActivation(activation, gate, up);
  MatMul(w.down, gate, n_ff, down);
  if (!w.down_bias.empty()) AddBias(down, w.down_bias);
  return down;
}

// One row (n_embd) through its experts and the shared one.
std::vector<double> Experts(const LayerSpec& spec, const LayerWeights& w, std::span<const double> x) {
  const uint32_t n = spec.experts.n_expert;
  std::vector<double> logits(n), sum(x.size());
  MatMul(w.router.get(), x, x.size(), logits);
  if (w.router_bias.present()) AddBias(logits, w.router_bias.get());
  for (const ExpertChoice& choice : ChooseExperts(spec.experts, logits, w.selection_bias.get())) {
    const uint32_t e = choice.expert;
    std::vector<double> in(x.begin(), x.end());
    if (spec.experts.weigh_input) Scale(in, choice.weight);
    std::vector<double> out =
        Gated({w.gate_experts.Part(e, n), w.up_experts.Part(e, n), w.down_experts.Part(e, n),
               w.gate_expert_bias.Part(e, n), w.up_expert_bias.Part(e, n), w.down_expert_bias.Part(e, n)},
              spec.activation, x.size(), in);
    if (!spec.experts.weigh_input) Scale(out, choice.weight);
    Add(sum, out);
  }
  if (!w.shared_gate.present()) return sum;
  std::vector<double> shared =
      Gated({w.shared_gate.get(), w.shared_up.get(), w.shared_down.get(), {}, {}, {}}, spec.activation,
            x.size(), x);
  if (w.shared_router.present()) {
    std::vector<double> logit(1);
    MatMul(w.shared_router.get(), x, x.size(), logit);
    Scale(shared, 1.0 / (1.0 + std::exp(-logit[0])));
  }
  Add(sum, shared);
  return sum;
}

// What a sampled row points to.
struct WantedRow {
  std::vector<float> logits;      // (n_vocab)
  std::vector<TokenLogprob> top;  // (n_logprobs)
};

// Confined to one thread at a time, as every Stage.
class RefStage final : public Stage {
 public:
  RefStage(const Model& model, const StageUnits& units, const StageOptions& options)
      : model_(model),
        units_(units),
        options_(options),
        table_(options, model.config.n_vocab,
               HasRecurrent(model.config, units.layer_begin, units.layer_end)) {}

  absl::Status Load();

  const StageUnits& units() const override { return units_; }
  const StageOptions& options() const override { return options_; }
  PurposeBytes Allocated() const override { return ledger_.Allocated(); }
  absl::Status Open(SequenceId sequence, const SequenceOptions& options) override {
    return table_.Open(sequence, options);
  }
  absl::Status Fork(SequenceId source, SequenceId target, uint32_t tokens) override;
  void Close(SequenceId sequence) override { table_.Close(sequence); }
  void CloseAll() override { table_.CloseAll(); }
  absl::Status Forward(const MicroBatch& batch, ForwardOutput* output) override;
  uint32_t FreePages() const override { return table_.FreePages(); }

 private:
  absl::Status CheckShape(const MicroBatch& batch) const;
  void ForwardSegment(const Segment& segment, uint32_t index, std::span<const float> input);
  std::vector<double> Input(const Segment& segment, std::span<const float> input) const;
  void Mix(uint32_t layer, const Segment& segment, const SequenceState& state, std::vector<double>& x);
  std::vector<double> Attend(uint32_t layer, const Segment& segment, const SequenceState& state,
                             std::span<const double> normed);
  std::vector<double> RunState(uint32_t layer, const SequenceState& state, std::span<const double> normed);
  void FeedForward(uint32_t layer, std::vector<double>& x) const;
  void Head(const Segment& segment, uint32_t index, const SequenceState& state, const std::vector<double>& x);

  const Model& model_;
  const StageUnits units_;
  const StageOptions options_;
  SequenceTable table_;
  Ledger ledger_;  // before everything allocated from it
  std::vector<LayerWeights> layers_;
  HeadWeights head_;
  KvPages pages_;
  RecurrentStates states_;
  Buffer sampler_memory_;

  // Of the last Forward; ForwardOutput points here.
  std::vector<SegmentResult> results_;
  std::vector<float> activations_;
  std::vector<SampledRow> sampled_;
  std::deque<WantedRow> wanted_;  // a deque, so that elements stay where they are
  uint64_t layer_steps_ = 0;
};

absl::Status RefStage::Load() {
  for (uint32_t layer = units_.layer_begin; layer < units_.layer_end; ++layer) {
    SPILLWAY_ASSIGN_OR_RETURN(LayerWeights weights,
                              LayerWeights::Load(ledger_, model_, layer, options_.n_ctx));
    layers_.push_back(std::move(weights));
  }
  const auto specs = std::span(model_.config.layers).subspan(units_.layer_begin, units_.Layers());
  SPILLWAY_ASSIGN_OR_RETURN(pages_, KvPages::Create(ledger_, specs, options_.kv_pages));
  SPILLWAY_ASSIGN_OR_RETURN(states_,
                            RecurrentStates::Create(ledger_, specs, options_.max_sequences * kStateSlots));
  if (!units_.head) return absl::OkStatus();
  SPILLWAY_ASSIGN_OR_RETURN(head_.output_norm, Weights::Load(ledger_, model_.output_norm));
  SPILLWAY_ASSIGN_OR_RETURN(head_.output, Weights::Load(ledger_, model_.output));
  SPILLWAY_ASSIGN_OR_RETURN(
      sampler_memory_,
      ledger_.Allocate(Purpose::kWorkspace, SamplerScratch::Bytes(model_.config.n_vocab), "sampler"));
  return absl::OkStatus();
}

absl::Status RefStage::Fork(SequenceId source, SequenceId target, uint32_t tokens) {
  SPILLWAY_ASSIGN_OR_RETURN(const ForkCopies copies, table_.Fork(source, target, tokens));
  if (copies.page) pages_.CopyPage(copies.page->source, copies.page->target);
  if (copies.state) states_.Copy(copies.state->source, copies.state->target);
  return absl::OkStatus();
}

absl::Status RefStage::CheckShape(const MicroBatch& batch) const {
  uint64_t rows = 0;
  for (const Segment& segment : batch.segments) rows += segment.count();
  if (rows > options_.max_rows) {
    return InvalidArgument("micro-batch has {} rows; this stage was built for {}", rows, options_.max_rows);
  }
  const uint64_t wanted = units_.embedding ? 0 : rows * model_.config.n_embd;
  if (batch.activations.size() != wanted) {
    return InvalidArgument("micro-batch of {} rows has {} activation values; this stage takes {}", rows,
                           batch.activations.size(), wanted);
  }
  return absl::OkStatus();
}

absl::Status RefStage::Forward(const MicroBatch& batch, ForwardOutput* output) {
  SPILLWAY_RETURN_IF_ERROR(CheckShape(batch));
  results_.assign(batch.segments.size(), SegmentResult{});
  activations_.clear();
  sampled_.clear();
  wanted_.clear();
  layer_steps_ = 0;
  uint64_t row = 0;
  for (uint32_t i = 0; i < batch.segments.size(); ++i) {
    const Segment& segment = batch.segments[i];
    const std::optional<PageCopy> copy = table_.Prepare(segment, &results_[i]);
    if (copy) pages_.CopyPage(copy->source, copy->target);
    if (results_[i].code == SegmentCode::kOk) {
      const uint64_t n_embd = units_.embedding ? 0 : model_.config.n_embd;
      ForwardSegment(segment, i, batch.activations.subspan(row * n_embd, segment.count() * n_embd));
    }
    row += segment.count();
  }
  *output = {results_, activations_, sampled_, layer_steps_};
  return absl::OkStatus();
}

void RefStage::ForwardSegment(const Segment& segment, uint32_t index, std::span<const float> input) {
  const SequenceState& state = *table_.Find(segment.sequence);
  std::vector<double> x = Input(segment, input);
  for (uint32_t layer = 0; layer < layers_.size(); ++layer) {
    Mix(layer, segment, state, x);
    FeedForward(layer, x);
    layer_steps_ += segment.count();
  }
  if (units_.head) {
    Head(segment, index, state, x);
  } else {
    for (const double value : x) activations_.push_back(static_cast<float>(value));
  }
}

// (count, n_embd): embeddings of the tokens, or what the stage before sent.
std::vector<double> RefStage::Input(const Segment& segment, std::span<const float> input) const {
  if (!units_.embedding) return {input.begin(), input.end()};
  std::vector<float> embedding(model_.config.n_embd);
  std::vector<double> x;
  x.reserve(segment.tokens.size() * embedding.size());
  for (const int32_t token : segment.tokens) {
    DequantizeRow(*model_.token_embd, static_cast<uint64_t>(token), embedding);
    x.insert(x.end(), embedding.begin(), embedding.end());
  }
  Scale(x, model_.config.embedding_scale);
  return x;
}

// x (count, n_embd) += attention or recurrent block of `layer` (counted from the stage's first).
void RefStage::Mix(uint32_t layer, const Segment& segment, const SequenceState& state,
                   std::vector<double>& x) {
  const LayerSpec& spec = model_.config.layers[units_.layer_begin + layer];
  const LayerWeights& weights = layers_[layer];
  const std::vector<double> normed = NormRows(weights.attn_norm, spec.norm_eps, x);
  const std::vector<double> outputs =
      spec.Recurrent() ? RunState(layer, state, normed) : Attend(layer, segment, state, normed);

  // Output projection and residual.
  const Weights& output = spec.Recurrent() ? weights.ssm_out : weights.attn_output;
  std::vector<double> projected(x.size());
  MatMul(output.get(), outputs, outputs.size() / segment.count(), projected);
  if (weights.attn_output_bias.present()) AddBias(projected, weights.attn_output_bias.get());
  if (weights.attn_post_norm.present()) {
    projected = NormRows(weights.attn_post_norm, spec.norm_eps, projected);
  }
  Scale(projected, spec.residual_scale);
  Add(x, projected);
}

// The rows follow the state in one slot and leave theirs in another.
std::vector<double> RefStage::RunState(uint32_t layer, const SequenceState& state,
                                       std::span<const double> normed) {
  const LayerSpec& spec = model_.config.layers[units_.layer_begin + layer];
  const std::span<double> target(states_.At(state.run.target, layer), spec.recurrent.State());
  if (state.run.source == kNoState) {
    std::fill(target.begin(), target.end(), 0.0);
  } else {
    std::copy_n(states_.At(state.run.source, layer), target.size(), target.begin());
  }
  return Recur(spec, layers_[layer], normed, target);
}

// What attention gives for normed rows (count, n_embd): (count, n_head, OutputDim).
std::vector<double> RefStage::Attend(uint32_t layer, const Segment& segment, const SequenceState& state,
                                     std::span<const double> normed) {
  const LayerSpec& spec = model_.config.layers[units_.layer_begin + layer];
  const LayerWeights& weights = layers_[layer];
  const uint32_t count = segment.count();
  const uint64_t key_dim = spec.KeyDim();
  const uint64_t value_dim = spec.ValueDim();
  const uint64_t k_size = spec.KeyHeads() * key_dim;

  // Projections, norms of heads, rotation.
  const Projection p = Project(spec, weights, normed, segment.begin);

  // State: written once, and read back from the pages; a recompute only reads it.
  for (uint32_t r = 0; r < count && !segment.recompute; ++r) {
    const uint32_t position = segment.begin + r;
    const uint32_t page = state.pages[position / kPageTokens];
    std::copy_n(p.k.data() + r * k_size, k_size, pages_.Key(page, layer, position % kPageTokens));
    if (p.v.empty()) continue;
    std::copy_n(p.v.data() + r * k_size, k_size, pages_.Value(page, layer, position % kPageTokens));
  }

  // Attention: each row sees positions up to its own, from the first or from where its window begins.
  std::vector<double> attended(count * spec.n_head * value_dim);
  std::vector<const double*> keys, values;
  for (uint32_t h = 0; h < spec.n_head; ++h) {
    const uint64_t kv_head = h / (spec.n_head / spec.KeyHeads());
    keys.clear();
    values.clear();
    for (uint32_t position = 0; position < segment.begin + count; ++position) {
      const uint32_t page = state.pages[position / kPageTokens];
      keys.push_back(pages_.Key(page, layer, position % kPageTokens) + kv_head * key_dim);
      values.push_back(pages_.Value(page, layer, position % kPageTokens) + kv_head * value_dim);
      if (position < segment.begin) continue;
      const uint64_t head = (position - segment.begin) * spec.n_head + h;
      const size_t first = spec.FirstVisible(position);
      Attention(std::span(p.q).subspan(head * key_dim, key_dim), std::span(keys).subspan(first),
                std::span(values).subspan(first),
                {spec.attention_scale, spec.attention_softcap,
                 weights.attn_sinks.present() ? &weights.attn_sinks.get()[h] : nullptr},
                std::span(attended).subspan(head * value_dim, value_dim));
    }
  }

  for (size_t i = 0; i < p.gate.size(); ++i) attended[i] /= 1.0 + std::exp(-p.gate[i]);
  return HeadOutputs(spec, weights, std::move(attended));
}

// x (count, n_embd) += gated feed-forward block of `layer`.
void RefStage::FeedForward(uint32_t layer, std::vector<double>& x) const {
  const LayerSpec& spec = model_.config.layers[units_.layer_begin + layer];
  const LayerWeights& weights = layers_[layer];
  const uint64_t n_embd = model_.config.n_embd;
  const std::vector<double> normed = NormRows(weights.ffn_norm, spec.norm_eps, x);
  std::vector<double> down;
  if (spec.experts.n_expert == 0) {
    down = Gated({weights.ffn_gate.get(), weights.ffn_up.get(), weights.ffn_down.get(), {}, {}, {}},
                 spec.activation, n_embd, normed);
  } else {
    for (size_t row = 0; row < normed.size(); row += n_embd) {
      const std::vector<double> mixed = Experts(spec, weights, std::span(normed).subspan(row, n_embd));
      down.insert(down.end(), mixed.begin(), mixed.end());
    }
  }
  if (weights.ffn_post_norm.present()) down = NormRows(weights.ffn_post_norm, spec.norm_eps, down);
  Scale(down, spec.residual_scale);
  Add(x, down);
}

// Draws a token for each wanted row.
void RefStage::Head(const Segment& segment, uint32_t index, const SequenceState& state,
                    const std::vector<double>& x) {
  if (segment.outputs == Outputs::kNone) return;
  const uint64_t n_embd = model_.config.n_embd;
  const uint64_t n_vocab = model_.config.n_vocab;
  const uint32_t first = segment.outputs == Outputs::kAll ? 0 : segment.count() - 1;
  const std::vector<double> normed =
      NormRows(head_.output_norm, model_.config.norm_eps, std::span(x).subspan(first * n_embd));
  std::vector<double> logits(normed.size() / n_embd * n_vocab);
  MatMul(head_.output.get(), normed, n_embd, logits);
  Scale(logits, model_.config.logit_scale);
  if (model_.config.logit_softcap != 0.0f) Softcap(logits, model_.config.logit_softcap);

  const SamplingParams& params = state.options.sampling;
  SamplerScratch scratch(sampler_memory_.As<std::byte>(), model_.config.n_vocab);
  for (uint32_t r = first; r < segment.count(); ++r) {
    const uint32_t position = segment.begin + r;
    const auto row = logits.begin() + static_cast<ptrdiff_t>((r - first) * n_vocab);
    WantedRow& wanted = wanted_.emplace_back();
    wanted.logits.assign(row, row + static_cast<ptrdiff_t>(n_vocab));
    wanted.top.resize(std::min<uint64_t>(params.n_logprobs, n_vocab));
    DrawInput input = {wanted.logits, std::span(state.tokens).first(position + 1),
                       state.options.prompt_tokens, position + uint64_t{1}};
    if (!segment.token_masks.empty())
      input.mask = segment.token_masks.subspan((r - first) * MaskBytes(static_cast<uint32_t>(n_vocab)),
                                               MaskBytes(static_cast<uint32_t>(n_vocab)));
    SampledRow& sampled = sampled_.emplace_back();
    sampled.segment = index;
    sampled.position = position;
    sampled.chosen = DrawToken(input, params, scratch, wanted.top);
    sampled.top = wanted.top;
    if (segment.return_logits) sampled.logits = wanted.logits;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Stage>> CreateRefStage(const Model& model, const StageUnits& units,
                                                      const StageOptions& options) {
  const uint32_t n_layer = model.config.n_layer;
  const bool empty = units.layer_begin == units.layer_end && !units.embedding && !units.head;
  if (units.layer_begin > units.layer_end || units.layer_end > n_layer || empty ||
      (units.embedding && units.layer_begin != 0) || (units.head && units.layer_end != n_layer)) {
    return InvalidArgument("units [{}, {}){}{} are no stage of a model with {} layers", units.layer_begin,
                           units.layer_end, units.embedding ? " with embedding" : "",
                           units.head ? " with head" : "", n_layer);
  }
  auto stage = std::make_unique<RefStage>(model, units, options);
  SPILLWAY_RETURN_IF_ERROR(stage->Load());
  return std::unique_ptr<Stage>(std::move(stage));
}

}  // namespace spillway::ref
