// LoadModel: file → architecture → config → tensors.
#include "engine/model/config.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <utility>

#include "engine/base/status.h"
#include "engine/model/architecture.h"

namespace spillway {
namespace {

absl::Status Fill(Model* model) {
  const GgufFile& file = *model->file;
  if (file.tensors().empty()) {
    return InvalidArgument("the file holds a vocabulary only (no tensors); a model with weights is needed");
  }
  SPILLWAY_ASSIGN_OR_RETURN(const std::optional<std::string> name, file.GetString("general.architecture"));
  if (!name) return InvalidArgument("key general.architecture is missing");
  SPILLWAY_ASSIGN_OR_RETURN(const model::Architecture* architecture, model::FindArchitecture(*name));
  SPILLWAY_ASSIGN_OR_RETURN(model->config, model::ReadConfig(file, *architecture));
  return model::BindTensors(*architecture, model);
}

}  // namespace

bool HasRecurrent(const ModelConfig& config, uint32_t begin, uint32_t end) {
  const auto layers = config.layers.begin();
  return std::any_of(layers + begin, layers + end, [](const LayerSpec& layer) { return layer.Recurrent(); });
}

absl::StatusOr<Model> LoadModel(const std::string& path) {
  SPILLWAY_ASSIGN_OR_RETURN(std::unique_ptr<GgufFile> file, GgufFile::Open(path));
  return LoadModel(std::move(file));
}

absl::StatusOr<Model> LoadModel(std::unique_ptr<GgufFile> file) {
  Model model;
  model.file = std::move(file);
  if (const absl::Status status = Fill(&model); !status.ok()) {
    return MakeStatus(status.code(), "{}: {}", model.file->path(), MessageOf(status));
  }
  return model;
}

double LayerSpec::Temperature(uint32_t position) const {
  if (temperature_scale == 0.0f) return 1.0;
  const uint32_t steps = (position + temperature_offset) / temperature_length;
  return 1.0 + temperature_scale * std::log(1.0 + steps);
}

namespace {

// The pair whose wave length turns `beta` times within the original context.
double CorrectionDim(const RopeSpec& rope, double beta) {
  return rope.n_rot * std::log(rope.yarn.n_ctx_orig / (beta * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(static_cast<double>(rope.freq_base)));
}

// Share of the interpolated frequency in pair i: 0 for high frequencies, 1 for low ones.
double Interpolated(const RopeSpec& rope, size_t i) {
  if (rope.yarn.n_ctx_orig == 0) return 1.0;
  const double low = std::max(0.0, std::floor(CorrectionDim(rope, rope.yarn.beta_fast)));
  const double high = std::min(rope.n_rot - 1.0, std::ceil(CorrectionDim(rope, rope.yarn.beta_slow)));
  return std::clamp((static_cast<double>(i) - low) / std::max(0.001, high - low), 0.0, 1.0);
}

}  // namespace

std::vector<float> RopeFrequencies(const Model& model, const LayerSpec& layer, uint32_t n_ctx) {
  const RopeSpec& rope = layer.rope;
  const bool long_context = model.rope_freqs_long != nullptr && n_ctx > rope.long_from_ctx;
  const GgufTensor* divisors = long_context ? model.rope_freqs_long : model.rope_freqs;
  std::vector<float> frequencies(rope.n_rot / 2);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(rope.n_rot);
    double frequency = std::pow(static_cast<double>(rope.freq_base), exponent);
    const double share = Interpolated(rope, i);
    frequency *= rope.freq_scale * share + (1.0 - share);
    if (divisors != nullptr) {
      float divisor;
      std::memcpy(&divisor, divisors->data.data() + i * sizeof(float), sizeof(divisor));
      frequency /= divisor;
    }
    frequencies[i] = static_cast<float>(frequency);
  }
  return frequencies;
}

}  // namespace spillway
