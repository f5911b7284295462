#include "gateway/http/router.h"

#include <charconv>

namespace spillway::gateway {

RouteMatch MatchRoute(const std::vector<Route>& routes, std::string_view method, std::string_view path) {
  RouteMatch match;
  for (const Route& route : routes) {
    const bool prefix = route.path.back() == '/';
    const bool path_matches =
        prefix ? path.size() > route.path.size() && path.substr(0, route.path.size()) == route.path
               : path == route.path;
    if (!path_matches) continue;
    if (method == route.method || (method == "HEAD" && route.method == "GET")) {
      match.kind = RouteMatch::Kind::kFound;
      match.id = route.id;
      match.rest = prefix ? std::string(path.substr(route.path.size())) : "";
      return match;
    }
    match.kind = RouteMatch::Kind::kNoMethod;
    if (!match.allow.empty()) match.allow += ", ";
    match.allow += route.method;
    if (route.method == "GET") match.allow += ", HEAD";
  }
  return match;
}

std::string PathOfTarget(std::string_view target) {
  target = target.substr(0, target.find_first_of("?#"));
  if (target.empty() || target.front() != '/') return "";
  std::string path;
  path.reserve(target.size());
  for (size_t i = 0; i < target.size(); ++i) {
    if (target[i] != '%') {
      path += target[i];
      continue;
    }
    unsigned value = 0;
    if (i + 2 >= target.size()) return "";
    const char* begin = target.data() + i + 1;
    const auto [end, status] = std::from_chars(begin, begin + 2, value, 16);
    if (status != std::errc() || end != begin + 2 || value == 0) return "";
    path += static_cast<char>(value);
    i += 2;
  }
  return path;
}

}  // namespace spillway::gateway
