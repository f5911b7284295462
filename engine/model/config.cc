// LoadModel: file → architecture → config → tensors.
#include "engine/model/config.h"

#include <cmath>
#include <cstring>
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

std::vector<float> RopeFrequencies(const Model& model, const LayerSpec& layer) {
  const RopeSpec& rope = layer.rope;
  std::vector<float> frequencies(rope.n_rot / 2);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(rope.n_rot);
    double frequency = rope.freq_scale * std::pow(static_cast<double>(rope.freq_base), exponent);
    if (model.rope_freqs != nullptr) {
      float divisor;
      std::memcpy(&divisor, model.rope_freqs->data.data() + i * sizeof(float), sizeof(divisor));
      frequency /= divisor;
    }
    frequencies[i] = static_cast<float>(frequency);
  }
  return frequencies;
}

}  // namespace spillway
