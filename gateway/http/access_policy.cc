#include "gateway/http/access_policy.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>

#include "gateway/http/request_reader.h"

namespace spillway::gateway {
namespace {

constexpr size_t kMaxQuotedBytes = 128;
constexpr char kAnyOrigin[] = "*";

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = Lower(c);
  return lower;
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || IsDigit(c) || c == '-' || c == '_' || c == '.' || c == ':';
}

bool Contains(const std::vector<std::string>& list, const std::string& entry) {
  return std::find(list.begin(), list.end(), entry) != list.end();
}

// What a client sent, fit for a log line and for a message.
std::string Quoted(std::string_view text) {
  std::string quoted(text.substr(0, kMaxQuotedBytes));
  for (char& c : quoted) {
    if (c <= 0x20 || c >= 0x7f || c == '"' || c == '\\' || c == '\'') c = '?';
  }
  return quoted;
}

// "http://localhost:3000" → "localhost:3000"; "" when it is not scheme://authority.
std::string_view AuthorityOf(std::string_view origin) {
  const size_t end = origin.find("://");
  if (end == 0 || end == std::string_view::npos) return "";
  const std::string_view authority = origin.substr(end + 3);
  return authority.find_first_of("/?#@") == std::string_view::npos ? authority : "";
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
  std::string lower = Lower(name);
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

std::string CheckAllowedHost(const std::string& host) {
  if (!HostName(host).empty()) return "";
  return fmt::format("'{}' is no host name; give it without scheme and path, such as chat.example", host);
}

std::string CheckAllowedOrigin(const std::string& origin) {
  if (origin == kAnyOrigin || origin == "null" || !HostName(AuthorityOf(origin)).empty()) return "";
  return fmt::format("'{}' is no origin; give https://chat.example without a path, null, or *", origin);
}

AccessPolicy::AccessPolicy(const AccessOptions& options, bool on_loopback) : on_loopback_(on_loopback) {
  for (const std::string& host : options.hosts) hosts_.push_back(HostName(host));
  for (const std::string& origin : options.origins) origins_.push_back(Lower(origin));
  any_origin_ = Contains(origins_, kAnyOrigin);
}

bool AccessPolicy::AllowsHost(const std::string& host) const {
  // Old clients send none or an empty one; every browser sends a name.
  if (!on_loopback_ || host.empty()) return true;
  const std::string name = HostName(host);
  return !name.empty() && (IsLoopbackName(name) || Contains(hosts_, name));
}

bool AccessPolicy::AllowsOrigin(const std::string& origin) const {
  if (origin.empty() || any_origin_) return true;
  return IsLoopbackName(HostName(AuthorityOf(origin))) || Contains(origins_, Lower(origin));
}

std::string AccessPolicy::WhyRefused(const RequestHead& head) const {
  if (!AllowsHost(head.host)) {
    return fmt::format(
        "Host '{0}' is not a name of this machine's loopback, which is all this server answers to, so that "
        "no "
        "web page reaches it through DNS; use http://127.0.0.1, or start it with --allowed-host {0}",
        Quoted(head.host));
  }
  if (!AllowsOrigin(head.origin)) {
    return fmt::format(
        "web pages of origin '{0}' may not use this server; start it with --allowed-origin {0} to permit "
        "them",
        Quoted(head.origin));
  }
  return "";
}

std::string AccessPolicy::CorsHeaders(const RequestHead& head) const {
  if (head.origin.empty()) return "";
  return fmt::format(
      "Access-Control-Allow-Origin: {}\r\nVary: Origin\r\n"
      "Access-Control-Expose-Headers: x-request-id, Retry-After, x-should-retry\r\n",
      any_origin_ ? kAnyOrigin : head.origin);
}

bool AccessPolicy::IsPreflight(const RequestHead& head) {
  return head.method == "OPTIONS" && !head.origin.empty() && !head.preflight_method.empty();
}

std::string AccessPolicy::PreflightHeaders(const RequestHead& head) {
  // What the page asks for is granted by name: "*" would leave out Authorization.
  const std::string headers =
      head.preflight_headers.empty()
          ? ""
          : fmt::format("Access-Control-Allow-Headers: {}\r\n", head.preflight_headers);
  return headers +
         "Access-Control-Allow-Methods: GET, HEAD, POST\r\nAccess-Control-Allow-Private-Network: true\r\n"
         "Access-Control-Max-Age: 600\r\n";
}

}  // namespace spillway::gateway
