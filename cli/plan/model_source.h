// Which file a model's name on the command line means: a path, or ollama:NAME[:TAG], found in the store that
// Ollama keeps on this machine. Reads files only; nothing is downloaded.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "engine/model/config.h"

namespace spillway::cli {

struct ModelSource {
  std::string path;
  std::string name;  // what it is to be called instead of its file's name; "" = that
};

// Stores that are looked in, in order: $OLLAMA_MODELS, ~/.ollama/models, the system service's.
std::vector<std::string> OllamaStores();

// NotFound says what there is; FailedPrecondition what of the model cannot be served.
absl::StatusOr<ModelSource> FindModel(const std::string& argument, const std::vector<std::string>& stores);

// FindModel and LoadModel, under the name it is to have.
absl::StatusOr<Model> LoadModelFrom(const ModelSource& source);

}  // namespace spillway::cli
