// What the gateway tells about its model file, read from the header.
#pragma once

#include "engine/gguf/reader.h"
#include "gateway/http/served_model.h"

namespace spillway::gateway {

ModelFacts ReadModelFacts(const GgufFile& file);

}  // namespace spillway::gateway
