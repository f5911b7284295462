#include "telemetry/host_name.h"

#include <arpa/inet.h>

#include <algorithm>

namespace spillway::telemetry {
namespace {

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || IsDigit(c) || c == '-' || c == '_' || c == '.' || c == ':';
}

}  // namespace

std::string HostName(std::string_view host) {
  std::string_view name = host;
  std::string_view rest;
  if (!host.empty() && host.front() == '[') {
    const size_t end = host.find(']');
    if (end == std::string_view::npos) return "";
    name = host.substr(1, end - 1);
    rest = host.substr(end + 1);
  } else if (const size_t colon = host.find(':'); colon == host.rfind(':')) {  // not a bare IPv6 address
    name = host.substr(0, colon);
    rest = host.substr(name.size());
  }
  if (!rest.empty() && (rest.front() != ':' || !std::all_of(rest.begin() + 1, rest.end(), IsDigit)))
    return "";
  if (!name.empty() && name.back() == '.') name.remove_suffix(1);
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), Lower);
  return std::all_of(lower.begin(), lower.end(), IsNameCharacter) ? lower : "";
}

bool IsLoopbackName(const std::string& name) {
  constexpr std::string_view kSuffix = ".localhost";
  if (name == "localhost") return true;
  if (name.size() > kSuffix.size() &&
      std::string_view(name).substr(name.size() - kSuffix.size()) == kSuffix) {
    return true;
  }
  in_addr v4{};
  if (inet_pton(AF_INET, name.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == IN_LOOPBACKNET;
  in6_addr v6{};
  return inet_pton(AF_INET6, name.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

}  // namespace spillway::telemetry
