// HostStage: the stage interface on CPU cores. Its forward pass is in host_forward.cc, stage by stage.
#pragma once

#include <memory>
#include <vector>

#include "engine/base/ledger.h"
#include "engine/base/thread_pool.h"
#include "engine/cpu/host_layout.h"
#include "engine/cpu/host_weights.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/router.h"
#include "engine/sampling/sampler.h"
#include "engine/stage/sequence_table.h"
#include "engine/stage/stage.h"

namespace spillway::cpu {

class HostStage final : public Stage {
 public:
  HostStage(const Model& model, const StageUnits& units, const StageOptions& options, const Kernels& kernels,
            HostLayout layout);
  absl::Status Load(Ledger& ledger, const std::function<void(uint64_t)>& progress);

  const StageUnits& units() const override { return units_; }
  const StageOptions& options() const override { return options_; }
  PurposeBytes Allocated() const override { return layout_.Bytes(); }
  absl::Status Open(SequenceId sequence, const SequenceOptions& options) override;
  absl::Status Fork(SequenceId source, SequenceId target, uint32_t tokens) override;
  void Close(SequenceId sequence) override { sequences_.Close(sequence); }
  void CloseAll() override { sequences_.CloseAll(); }
  absl::Status Forward(const MicroBatch& batch, ForwardOutput* output) override;
  uint32_t FreePages() const override { return sequences_.FreePages(); }

 private:
  // One row of the micro-batch: a position of a sequence.
  struct Row {
    const SequenceState* state;
    uint32_t position;
    uint32_t segment;
    bool write;   // its key and value are stored (not on recompute)
    bool wanted;  // the head computes it
    bool logits;
    const uint8_t* mask;  // of the tokens that may be drawn, null: all
  };
  // Rows of one sequence, which recurrent layers run one after another.
  struct Run {
    uint32_t first_row, rows;
    StateRun slots;
  };
  // A matrix product of a parallel region.
  struct Product {
    const PackedMatrix* w;
    float* y;
    uint64_t y_stride;
    const float* bias;
    bool accumulate;
  };

  // A row in an expert: where its gate stands in the row of kGate, and what its output is multiplied by.
  struct Visit {
    uint32_t row;
    uint32_t column;
    float weight;
  };
  // visits_[begin, end) of one expert.
  struct VisitedExpert {
    PackedMatrix gate, up, down;
    const float *gate_bias, *up_bias, *down_bias;
    uint32_t begin, end;
  };

  void PrepareRows(const MicroBatch& batch);
  void LoadResidual(const MicroBatch& batch);
  void Layer(uint32_t index);
  void AddBranch(const LayerSpec& spec, const float* norm);
  void Attention(const LayerSpec& spec, const HostLayerWeights& weights, uint32_t index, bool branch);
  void Project(const LayerSpec& spec, const HostLayerWeights& weights, uint32_t index);
  void ProjectLatent(const LayerSpec& spec, const HostLayerWeights& weights, uint32_t index);
  void CacheLatent(const LayerSpec& spec, const HostLayerWeights& weights, uint32_t index);
  void MultiplyHeads(const LayerSpec& spec, const HostLayerWeights& weights, LayerSlot slot,
                     uint32_t in_stride);
  void Attend(const LayerSpec& spec, const HostLayerWeights& weights, uint32_t index);
  void LatentValues(const LayerSpec& spec, const HostLayerWeights& weights);
  void NormPart(const float* weight, float eps, uint32_t n, float* x) const;
  void GateHeads(const LayerSpec& spec);
  void Recur(const LayerSpec& spec, const HostLayerWeights& weights, uint32_t index);
  void RecurKeyHead(const LayerSpec& layer, const HostLayerWeights& weights, uint32_t index, const Run& run,
                    uint32_t key_head);
  float* State(uint32_t slot, uint32_t layer);
  void RotateAndStore(const LayerSpec& spec, const HostLayerWeights& weights, uint32_t index);
  void FeedForward(const LayerSpec& spec, const HostLayerWeights& weights, bool branch);
  void Dense(const LayerSpec& spec, const HostLayerWeights& weights, bool branch);
  void Experts(const LayerSpec& spec, const HostLayerWeights& weights);
  void Route(const LayerSpec& spec, const HostLayerWeights& weights);
  void MultiplyRow(const PackedMatrix& w, const float* x, QuantizedRows codes, const float* bias,
                   std::span<const uint32_t, 2> groups, float* y);
  QuantizedRows CodesOf(uint32_t row, uint32_t column) const;
  auto ActivationOf(Activation activation) const -> void (*)(const float*, const float*, uint32_t, float*);
  void Head();
  void HeadTile(const Row* const* rows, uint32_t count);
  void SetAngles(uint32_t table);
  void CopyPage(const PageCopy& copy);

  // Norm of the residual of every row into the input buffer (n_embd columns), and int8 codes of it where
  // needed.
  void NormInput(const float* weight, float eps, bool quantize);
  void QuantizeInput(uint32_t n);
  void Multiply(std::span<const Product> products, uint32_t rows);
  template <typename Body>
  void ForRows(Body&& body);

  float* Floats(BufferSlot slot) { return reinterpret_cast<float*>(buffers_[slot].data()); }
  std::byte* Page(uint32_t layer, uint32_t page);

  const Model& model_;
  const StageUnits units_;
  const StageOptions options_;
  const Kernels& kernels_;
  const HostLayout layout_;
  ThreadPool pool_;
  Buffer arena_;
  Buffer mapped_;
  std::array<Buffer, kBufferSlots> buffers_;
  HostWeights weights_;
  QuantizedRows quantized_;
  struct Rotation {
    std::vector<float> frequencies;
    float magnitude;
    bool operator==(const Rotation&) const = default;
  };
  std::vector<float> ones_;            // (the longest head): weights of norms without any
  std::vector<Rotation> rotations_;    // one per distinct RoPE of the layers held
  std::vector<uint32_t> layer_table_;  // layer -> index into it
  uint32_t angles_table_ = ~0u;        // whose angles the buffer holds for the current rows
  std::unique_ptr<SamplerScratch> sampler_;
  SequenceTable sequences_;

  // Of the current micro-batch; reserved once.
  std::vector<SegmentResult> results_;
  std::vector<Row> rows_;
  std::vector<Run> runs_;
  std::vector<SampledRow> sampled_;
  std::vector<ExpertChoice> choices_;  // (rows, n_used)
  std::vector<Visit> visits_;          // by expert
  std::vector<VisitedExpert> visited_;
  uint32_t logit_rows_ = 0;
  uint64_t layer_steps_ = 0;
};

// Rotates one head in place by the row's angles (cos and sin of n_rot / 2 pairs).
void RotateHead(const RopeSpec& rope, const float* cos, const float* sin, float* head);
// Multiplies all heads' queries (n_head * head_dim) by the layer's temperature at the position.
void Temper(const LayerSpec& spec, uint32_t position, float* q);

// Row-wise work: on the calling thread alone when there are too few rows to be worth a region.
template <typename Body>
void HostStage::ForRows(Body&& body) {
  const uint32_t rows = static_cast<uint32_t>(rows_.size());
  if (rows < 2 * options_.threads) {
    for (uint32_t row = 0; row < rows; ++row) body(row);
    return;
  }
  pool_.ParallelFor(rows, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) body(static_cast<uint32_t>(row));
  });
}

}  // namespace spillway::cpu
