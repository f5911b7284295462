// How a log message becomes the end of a line; separate so that it can be tested.
#pragma once

#include <string>
#include <string_view>

namespace spillway::telemetry {

std::string FormatMessage(std::string_view message);

}  // namespace spillway::telemetry
