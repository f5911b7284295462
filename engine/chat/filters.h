// The filters' two tables, joined in filters.cc: those for single values and those for sequences.
#pragma once

#include <span>
#include <string_view>

#include "engine/chat/value.h"

namespace spillway::jinja {

struct FilterEntry {
  std::string_view name;
  Value (*body)(Context&, const Value& input, const Arguments&);
};

std::span<const FilterEntry> ListFilters();

}  // namespace spillway::jinja
