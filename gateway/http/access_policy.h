// Which requests a server on this machine takes from web browsers. A page of any site may send requests to
// loopback, and one whose name is made to resolve to 127.0.0.1 (DNS rebinding) may read the answers too; the
// Host and Origin fields, which pages cannot forge, tell them from local programs. Knows no sockets.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace spillway::gateway {

struct RequestHead;

struct AccessOptions {
  std::vector<std::string> hosts;    // further names this server is reached by
  std::vector<std::string> origins;  // of pages that may use it: "https://chat.example", "null"; "*" = all
};

// What is wrong with an entry of AccessOptions; "" = nothing.
std::string CheckAllowedHost(const std::string& host);
std::string CheckAllowedOrigin(const std::string& origin);

// Immutable; thread-safe.
class AccessPolicy {
 public:
  // `on_loopback`: the server is bound to loopback, so only names of loopback are right. Otherwise anybody
  // may reach it under names it does not know, and only origins are checked.
  AccessPolicy(const AccessOptions& options, bool on_loopback);

  // Why a request is refused and what the operator can do; "" = it is not.
  std::string WhyRefused(const RequestHead& head) const;
  // Header lines that let the page which sent a permitted request read the answer; "" when none did.
  std::string CorsHeaders(const RequestHead& head) const;
  // A browser asks what a page may send. Answered by PreflightHeaders and nothing else.
  static bool IsPreflight(const RequestHead& head);
  static std::string PreflightHeaders(const RequestHead& head);

 private:
  bool AllowsHost(const std::string& host) const;
  bool AllowsOrigin(const std::string& origin) const;

  const bool on_loopback_;
  std::vector<std::string> hosts_;    // as telemetry::HostName gives them
  std::vector<std::string> origins_;  // lower case
  bool any_origin_ = false;
};

}  // namespace spillway::gateway
