// Which route answers a method and a path. Knows no handlers: routes are named by an enum of the caller.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::gateway {

struct Route {
  std::string_view method;  // GET routes also answer HEAD
  std::string_view path;    // one ending in '/' matches every path that continues it
  int id = 0;
};

struct RouteMatch {
  enum class Kind : uint8_t { kFound, kNoPath, kNoMethod } kind = Kind::kNoPath;
  int id = 0;
  std::string rest;   // of the path, for a route ending in '/'
  std::string allow;  // for kNoMethod: "GET, HEAD"
};

RouteMatch MatchRoute(const std::vector<Route>& routes, std::string_view method, std::string_view path);

// The path of a request target: without query and fragment, percent-decoded. "" when it is malformed.
std::string PathOfTarget(std::string_view target);

}  // namespace spillway::gateway
