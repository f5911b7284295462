// See model_source.h. The layout of a store: manifests/HOST/NAMESPACE/NAME/TAG are JSON lists of layers,
// blobs/sha256-HEX the layers themselves.
#include "cli/plan/model_source.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "engine/base/status.h"

namespace spillway::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kScheme = "ollama:";
constexpr std::string_view kDefaultHost = "registry.ollama.ai";
constexpr std::string_view kDefaultNamespace = "library";
constexpr std::string_view kMediaType = "application/vnd.ollama.image.";
constexpr char kSystemStore[] = "/usr/share/ollama/.ollama/models";
constexpr size_t kMaxManifestBytes = 1 << 20;
constexpr size_t kMaxListed = 50;

struct Reference {
  std::vector<std::string> folders;  // host, namespace, name
  std::string tag;
};

bool IsSafe(std::string_view part) {
  const auto valid = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-' || c == ':';
  };
  return !part.empty() && part[0] != '.' && std::all_of(part.begin(), part.end(), valid);
}

absl::StatusOr<Reference> ParseReference(std::string_view text) {
  Reference reference;
  reference.tag = "latest";
  std::string_view name = text;
  const size_t colon = name.rfind(':');
  if (colon != std::string_view::npos && name.find('/', colon) == std::string_view::npos) {
    reference.tag = name.substr(colon + 1);
    name = name.substr(0, colon);
  }
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    reference.folders.emplace_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  if (reference.folders.size() == 1) reference.folders.emplace(reference.folders.begin(), kDefaultNamespace);
  if (reference.folders.size() == 2) reference.folders.emplace(reference.folders.begin(), kDefaultHost);
  bool valid = reference.folders.size() == 3 && IsSafe(reference.tag);
  for (const std::string& folder : reference.folders) valid = valid && IsSafe(folder);
  if (!valid)
    return InvalidArgument("ollama:{}: a model is ollama:NAME[:TAG] or ollama:USER/NAME[:TAG]", text);
  return reference;
}

// As Ollama writes it: without the parts that are always the same.
std::string NameOf(const fs::path& manifest) {
  std::vector<std::string> parts;
  for (const fs::path& part : manifest) parts.push_back(part.string());
  const std::string tag = parts.back();
  parts.pop_back();
  if (!parts.empty() && parts.front() == kDefaultHost) parts.erase(parts.begin());
  if (parts.size() > 1 && parts.front() == kDefaultNamespace) parts.erase(parts.begin());
  std::string name;
  for (const std::string& part : parts) name += (name.empty() ? "" : "/") + part;
  return name + ":" + tag;
}

std::vector<std::string> ModelsIn(const std::string& store) {
  std::vector<std::string> names;
  const fs::path manifests = fs::path(store) / "manifests";
  std::error_code error;
  fs::recursive_directory_iterator it(manifests, fs::directory_options::skip_permission_denied, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    std::error_code ignored;
    if (it->is_regular_file(ignored)) names.push_back(NameOf(it->path().lexically_relative(manifests)));
  }
  return names;
}

absl::Status NoSuchModel(std::string_view name, const std::vector<std::string>& stores) {
  std::vector<std::string> names;
  std::string looked;
  for (const std::string& store : stores) {
    looked += (looked.empty() ? "" : ", ") + store;
    for (std::string& found : ModelsIn(store)) names.push_back(std::move(found));
  }
  std::sort(names.begin(), names.end());
  std::string list;
  for (size_t i = 0; i < names.size() && i < kMaxListed; ++i) list += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kMaxListed) list += ", …";
  return NotFound("ollama:{}: no such model in Ollama's store ({}); {}", name, looked,
                  names.empty() ? "there is none at all: `ollama pull` fetches one, or set OLLAMA_MODELS"
                                : "there is: " + list);
}

absl::StatusOr<std::string> ReadManifest(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(stream)), {});
  if (!stream) return NotFound("{}: cannot be read", path.string());
  if (text.size() > kMaxManifestBytes)
    return InvalidArgument("{}: is no manifest of Ollama's", path.string());
  return text;
}

std::string StringIn(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

// The file of the manifest's one model layer.
absl::StatusOr<std::string> BlobOf(const fs::path& store, const fs::path& manifest, std::string_view name) {
  SPILLWAY_ASSIGN_OR_RETURN(const std::string text, ReadManifest(manifest));
  const json parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object() || !parsed.contains("layers") || !parsed["layers"].is_array()) {
    return InvalidArgument("{}: is no manifest of Ollama's: it has no layers", manifest.string());
  }
  std::vector<std::string> models;
  for (const json& layer : parsed["layers"]) {
    if (!layer.is_object()) continue;
    const std::string type = StringIn(layer, "mediaType");
    if (type == std::string(kMediaType) + "model") models.push_back(StringIn(layer, "digest"));
    for (const char* kind : {"adapter", "projector"}) {
      if (type != std::string(kMediaType) + kind) continue;
      return FailedPrecondition(
          "ollama:{}: has a layer '{}' ({}), which is not supported: models are served without adapters and "
          "as text only",
          name, kind, StringIn(layer, "digest"));
    }
  }
  if (models.size() != 1) {
    return FailedPrecondition("ollama:{}: has {} model layers, supported is one: a GGUF file", name,
                              models.size());
  }
  std::string blob = models.front();
  const size_t colon = blob.find(':');
  if (colon != std::string::npos) blob[colon] = '-';
  if (!IsSafe(blob)) return InvalidArgument("{}: '{}' is no digest", manifest.string(), models.front());
  const fs::path path = store / "blobs" / blob;
  std::error_code error;
  if (!fs::exists(path, error)) {
    return NotFound("ollama:{}: its file {} is missing; `ollama pull {}` fetches it again", name,
                    path.string(), name);
  }
  return path.string();
}

}  // namespace

std::vector<std::string> OllamaStores() {
  std::vector<std::string> stores;
  if (const char* models = std::getenv("OLLAMA_MODELS"); models != nullptr && *models != '\0') {
    stores.emplace_back(models);
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    stores.push_back(std::string(home) + "/.ollama/models");
  }
  stores.emplace_back(kSystemStore);
  return stores;
}

absl::StatusOr<ModelSource> FindModel(const std::string& argument, const std::vector<std::string>& stores) {
  if (argument.rfind(kScheme, 0) != 0) return ModelSource{argument, ""};
  const std::string name = argument.substr(kScheme.size());
  SPILLWAY_ASSIGN_OR_RETURN(const Reference reference, ParseReference(name));
  fs::path below = "manifests";
  for (const std::string& folder : reference.folders) below /= folder;
  below /= reference.tag;
  for (const std::string& store : stores) {
    std::error_code error;
    const fs::path manifest = store / below;
    if (!fs::is_regular_file(manifest, error)) continue;
    ModelSource source;
    SPILLWAY_ASSIGN_OR_RETURN(source.path, BlobOf(store, manifest, name));
    source.name = NameOf(below.lexically_relative("manifests"));
    return source;
  }
  return NoSuchModel(name, stores);
}

absl::StatusOr<Model> LoadModelFrom(const ModelSource& source) {
  SPILLWAY_ASSIGN_OR_RETURN(Model model, LoadModel(source.path));
  if (!source.name.empty()) model.config.name = source.name;
  return model;
}

}  // namespace spillway::cli
