// Python's string formatting: the % operator and the specifications of str.format().
#pragma once

#include <string>
#include <string_view>

#include "engine/chat/value.h"

namespace spillway::jinja {

// text % values: a tuple gives its items, a dict its names, anything else itself.
std::string PercentFormat(Context& context, std::string_view text, const Value& values);
// format(value, spec): fill, alignment, sign, width, thousands, precision and type.
std::string FormatWithSpec(Context& context, const Value& value, std::string_view spec);

}  // namespace spillway::jinja
