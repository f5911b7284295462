// Layers and units as people read them, the same in plans, tables, pages and logs: "0-25" is inclusive, as
// model cards count blocks. Numbers for programs stay half-open.
#pragma once

#include <string>

#include "engine/stage/stage.h"

namespace spillway {

// Layers [begin, end): "0-25", "7", "none".
std::string FormatLayers(uint32_t begin, uint32_t end);

// "embedding + layers 0-11", "layer 12 + head", "head".
std::string DescribeUnits(const StageUnits& units);

}  // namespace spillway
