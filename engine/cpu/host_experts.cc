// The host forward pass through experts. A visit is a row in an expert; an expert's group of 16 output rows
// is read once for all its visits. Each row's outputs are added in ascending order of its experts, the shared
// one last, so neither the batch nor the threads change a sum.
#include <algorithm>
#include <cstring>

#include "engine/cpu/host_stage_impl.h"
#include "engine/cpu/router.h"

namespace spillway::cpu {
namespace {

const float* Bias(const HostLayerWeights& weights, LayerSlot slot, uint32_t index, uint32_t width) {
  const float* bias = weights.vectors[slot];
  return bias == nullptr ? nullptr : bias + uint64_t{index} * PadTo16(width);
}

}  // namespace

// Router logits of every row (and the shared expert's, in the last 16 columns), then the visits by expert.
void HostStage::Route(const LayerSpec& spec, const HostLayerWeights& weights) {
  const ExpertSpec& experts = spec.experts;
  const uint32_t rows = static_cast<uint32_t>(rows_.size());
  float* logits = Floats(kRouterLogits);
  const uint32_t stride = layout_.router_stride;
  const Product router[] = {
      {&weights.matrices[kRouter], logits, stride, weights.vectors[kRouterBias], false}};
  Multiply(router, rows);
  const PackedMatrix& shared_router = weights.matrices[kSharedRouter];
  float* shared_logits = logits + PadTo16(experts.n_expert);
  if (shared_router.n_out > 0) {
    const Product product[] = {{&shared_router, shared_logits, stride, nullptr, false}};
    Multiply(product, rows);
  }

  ForRows([&](uint32_t row) {
    ChooseExperts(experts, logits + uint64_t{row} * stride, weights.vectors[kSelectionBias],
                  &choices_[uint64_t{row} * experts.n_used]);
  });
  visits_.clear();
  visited_.clear();
  const uint32_t width = PadTo32(experts.n_ff);
  for (uint32_t e = 0; e < experts.n_expert; ++e) {
    const uint32_t begin = static_cast<uint32_t>(visits_.size());
    for (uint32_t i = 0; i < rows * experts.n_used; ++i) {
      if (choices_[i].expert != e) continue;
      visits_.push_back({i / experts.n_used, i % experts.n_used * width, choices_[i].weight});
    }
    const uint32_t end = static_cast<uint32_t>(visits_.size());
    if (begin == end) continue;
    visited_.push_back({weights.Slab(kGateExperts, e), weights.Slab(kUpExperts, e),
                        weights.Slab(kDownExperts, e), Bias(weights, kGateExpertBias, e, experts.n_ff),
                        Bias(weights, kUpExpertBias, e, experts.n_ff),
                        Bias(weights, kDownExpertBias, e, model_.config.n_embd), begin, end});
  }
  if (experts.n_ff_shared == 0) return;
  const uint32_t begin = static_cast<uint32_t>(visits_.size());
  for (uint32_t row = 0; row < rows; ++row) {
    const double logit = shared_logits[uint64_t{row} * stride];
    const float weight = shared_router.n_out > 0 ? static_cast<float>(Sigmoid(logit)) : 1.0f;
    visits_.push_back({row, experts.n_used * width, weight});
  }
  visited_.push_back({weights.matrices[kSharedGate], weights.matrices[kSharedUp],
                      weights.matrices[kSharedDown], nullptr, nullptr, nullptr, begin,
                      static_cast<uint32_t>(visits_.size())});
}

// One row of a product, for groups [begin, end) of w: x from `column` of the row's input and codes.
void HostStage::MultiplyRow(const PackedMatrix& w, const float* x, QuantizedRows codes, const float* bias,
                            std::span<const uint32_t, 2> groups, float* y) {
  MatmulArgs args;
  args.w = &w;
  args.x = x;
  args.quantized = &codes;
  args.rows = 1;
  args.y = y;
  args.bias = bias;
  kernels_.matmul[static_cast<size_t>(w.packing)](args, groups[0], groups[1]);
}

QuantizedRows HostStage::CodesOf(uint32_t row, uint32_t column) const {
  QuantizedRows codes = quantized_;
  codes.codes += uint64_t{row} * codes.code_stride + column;
  codes.blocks += (uint64_t{row} * codes.code_stride + column) / kBlockColumns;
  return codes;
}

// kInput and its codes -> kBranch.
void HostStage::Experts(const LayerSpec& spec, const HostLayerWeights& weights) {
  Route(spec, weights);

  // Gate and up of every visit, activated.
  const auto activate = ActivationOf(spec.activation);
  int64_t groups = 0;
  for (const VisitedExpert& expert : visited_) groups += expert.gate.Groups();
  pool_.ParallelFor(groups, [&](int64_t begin, int64_t end, int) {
    int64_t first = 0;
    for (const VisitedExpert& expert : visited_) {
      const int64_t last = first + expert.gate.Groups();
      const int64_t from = std::max(begin, first) - first;
      const int64_t to = std::min(end, last) - first;
      first = last;
      if (from >= to) continue;
      const uint32_t range[2] = {static_cast<uint32_t>(from), static_cast<uint32_t>(to)};
      for (uint32_t i = expert.begin; i < expert.end; ++i) {
        const Visit& visit = visits_[i];
        const float* x = Floats(kInput) + uint64_t{visit.row} * layout_.input_stride;
        const uint64_t offset = uint64_t{visit.row} * layout_.ff_stride + visit.column;
        float* gate = Floats(kGate) + offset;
        float* up = Floats(kUp) + offset;
        MultiplyRow(expert.gate, x, CodesOf(visit.row, 0), expert.gate_bias, range, gate);
        MultiplyRow(expert.up, x, CodesOf(visit.row, 0), expert.up_bias, range, up);
        const uint32_t column = range[0] * kGroupRows;
        if (spec.experts.weigh_input) {  // the products are linear in it
          for (uint32_t c = column; c < range[1] * kGroupRows; ++c) {
            gate[c] *= visit.weight;
            up[c] *= visit.weight;
          }
        }
        activate(gate + column, up + column, (range[1] - range[0]) * kGroupRows, gate + column);
      }
    }
  });

  // Codes of what down reads. The input's are not needed any more.
  pool_.ParallelFor(static_cast<int64_t>(visited_.size()), [&](int64_t begin, int64_t end, int) {
    for (int64_t e = begin; e < end; ++e) {
      const VisitedExpert& expert = visited_[static_cast<size_t>(e)];
      if (!expert.down.Quantized()) continue;
      for (uint32_t i = expert.begin; i < expert.end; ++i) {
        const Visit& visit = visits_[i];
        const QuantizedRows codes = CodesOf(visit.row, visit.column);
        kernels_.quantize(Floats(kGate) + uint64_t{visit.row} * layout_.ff_stride + visit.column,
                          expert.down.n_in, codes.codes, codes.blocks);
      }
    }
  });

  // Down, weighed and added up. A thread owns columns of all rows, and of the scratch row.
  pool_.ParallelFor(
      (model_.config.n_embd + kGroupRows - 1) / kGroupRows, [&](int64_t begin, int64_t end, int) {
        const uint32_t range[2] = {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
        const uint32_t from = range[0] * kGroupRows;
        const uint32_t to = range[1] * kGroupRows;
        float* scratch = Floats(kExpertOut);
        for (size_t row = 0; row < rows_.size(); ++row) {
          float* sum = Floats(kBranch) + row * layout_.embd_stride;
          std::fill(sum + from, sum + to, 0.0f);
        }
        for (const VisitedExpert& expert : visited_) {
          for (uint32_t i = expert.begin; i < expert.end; ++i) {
            const Visit& visit = visits_[i];
            const float* x = Floats(kGate) + uint64_t{visit.row} * layout_.ff_stride + visit.column;
            MultiplyRow(expert.down, x, CodesOf(visit.row, visit.column), expert.down_bias, range, scratch);
            float* sum = Floats(kBranch) + uint64_t{visit.row} * layout_.embd_stride;
            const float weight = spec.experts.weigh_input ? 1.0f : visit.weight;
            for (uint32_t c = from; c < to; ++c) sum[c] += weight * scratch[c];
          }
        }
      });
}

}  // namespace spillway::cpu
