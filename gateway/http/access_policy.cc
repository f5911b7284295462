#include "gateway/http/access_policy.h"

#include <fmt/format.h>

#include <algorithm>

#include "gateway/http/request_reader.h"
#include "telemetry/host_name.h"

namespace spillway::gateway {
namespace {

using telemetry::HostName;
using telemetry::IsLoopbackName;

constexpr size_t kMaxQuotedBytes = 128;
constexpr char kAnyOrigin[] = "*";

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
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
