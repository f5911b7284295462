#include "engine/cpu/host_stage.h"

#include <algorithm>
#include <cstring>

#include "engine/base/status.h"
#include "engine/cpu/host_stage_impl.h"

namespace spillway::cpu {

HostStage::HostStage(const Model& model, const StageUnits& units, const StageOptions& options,
                     const Kernels& kernels, HostLayout layout)
    : model_(model),
      units_(units),
      options_(options),
      kernels_(kernels),
      layout_(std::move(layout)),
      pool_(static_cast<int>(options.threads)),
      sequences_(options, model.config.n_vocab, layout_.state_stride > 0) {
  results_.resize(options.max_rows);
  rows_.reserve(options.max_rows);
  runs_.reserve(options.max_rows);
  sampled_.reserve(options.max_rows);
  if (layout_.max_experts > 0) {
    choices_.resize(size_t{options.max_rows} * layout_.max_used_experts);
    visits_.reserve(size_t{options.max_rows} * (layout_.max_used_experts + 1));
    visited_.reserve(layout_.max_experts + 1);
  }
  for (uint32_t i = units.layer_begin; i < units.layer_end; ++i) {
    const LayerSpec& layer = model.config.layers[i];
    if (layer.qk_norm == QkNorm::kAfterRope)
      ones_.resize(std::max<size_t>(ones_.size(), layer.head_dim), 1.0f);
    Rotation rotation{RopeFrequencies(model, layer, options.n_ctx), layer.rope.magnitude};
    size_t index = 0;
    while (index < rotations_.size() && rotations_[index] != rotation) ++index;
    if (index == rotations_.size()) rotations_.push_back(std::move(rotation));
    layer_table_.push_back(static_cast<uint32_t>(index));
  }
}

absl::Status HostStage::Load(Ledger& ledger, const std::function<void(uint64_t)>& progress) {
  SPILLWAY_ASSIGN_OR_RETURN(arena_,
                            ledger.Allocate(Purpose::kWeights, layout_.weight_bytes, "laid-out weights"));
  SPILLWAY_ASSIGN_OR_RETURN(mapped_,
                            ledger.Book(Purpose::kWeights, layout_.mapped_bytes, "mapped embedding"));
  for (size_t slot = 0; slot < kBufferSlots; ++slot) {
    const PlannedBuffer& planned = layout_.buffers[slot];
    SPILLWAY_ASSIGN_OR_RETURN(buffers_[slot],
                              ledger.Allocate(planned.purpose, planned.bytes, "stage buffer"));
  }
  weights_ = LoadHostWeights(layout_, arena_.data(), pool_, progress);
  quantized_.codes = reinterpret_cast<int8_t*>(buffers_[kCodes].data());
  quantized_.blocks = reinterpret_cast<ActivationBlock*>(buffers_[kBlocks].data());
  quantized_.code_stride = layout_.code_stride;
  if (units_.head) {
    sampler_ = std::make_unique<SamplerScratch>(buffers_[kSampling].As<std::byte>(), model_.config.n_vocab);
  }
  return absl::OkStatus();
}

absl::Status HostStage::Open(SequenceId sequence, const SequenceOptions& options) {
  return sequences_.Open(sequence, options);
}

absl::Status HostStage::Fork(SequenceId source, SequenceId target, uint32_t tokens) {
  SPILLWAY_ASSIGN_OR_RETURN(const ForkCopies copies, sequences_.Fork(source, target, tokens));
  if (copies.page) CopyPage(*copies.page);
  if (copies.state) {
    std::copy_n(State(copies.state->source, 0), layout_.state_stride, State(copies.state->target, 0));
  }
  return absl::OkStatus();
}

std::byte* HostStage::Page(uint32_t layer, uint32_t page) {
  const HostLayout::LayerPages& pages = layout_.pages[layer];
  return buffers_[kKv].data() + pages.offset + page * pages.page_bytes;
}

void HostStage::CopyPage(const PageCopy& copy) {
  for (uint32_t layer = 0; layer < units_.Layers(); ++layer) {
    std::memcpy(Page(layer, copy.target), Page(layer, copy.source), layout_.pages[layer].page_bytes);
  }
}

namespace {

absl::StatusOr<std::unique_ptr<Stage>> Create(const Kernels& kernels, const Model& model,
                                              const StageUnits& units, const StageOptions& options,
                                              Ledger& ledger, const std::function<void(uint64_t)>& progress) {
  SPILLWAY_ASSIGN_OR_RETURN(HostLayout layout, LayOutHostStage(model, units, options));
  // Asked before anything is allocated, so that a refusal costs nothing.
  const uint64_t needed = layout.Bytes().Total();
  const uint64_t used = ledger.Allocated().Total();
  if (needed > ledger.budget_bytes() || used > ledger.budget_bytes() - needed) {
    return ResourceExhausted("the stage needs {} bytes; {} of the budget of {} bytes are used", needed, used,
                             ledger.budget_bytes());
  }
  auto stage = std::make_unique<HostStage>(model, units, options, kernels, std::move(layout));
  SPILLWAY_RETURN_IF_ERROR(stage->Load(ledger, progress));
  return std::unique_ptr<Stage>(std::move(stage));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Stage>> CreateHostStage(const Model& model, const StageUnits& units,
                                                       const StageOptions& options, Ledger& ledger,
                                                       std::function<void(uint64_t)> progress) {
  return Create(KernelsFor(DetectIsa()), model, units, options, ledger, progress);
}

absl::StatusOr<std::unique_ptr<Stage>> CreateHostStageOn(Isa isa, const Model& model, const StageUnits& units,
                                                         const StageOptions& options, Ledger& ledger) {
  if (!MachineHas(isa)) return FailedPrecondition("this machine has no {}", IsaName(isa));
  return Create(KernelsFor(isa), model, units, options, ledger, {});
}

}  // namespace spillway::cpu
