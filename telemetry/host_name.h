// Names in the Host fields of HTTP requests. A web page whose name was made to resolve to loopback (DNS
// rebinding) still sends its own name, so a listener on loopback that wants only loopback's keeps it out.
#pragma once

#include <string>
#include <string_view>

namespace spillway::telemetry {

// The name in a Host field: lower case, without port, brackets and final dot. "" when it is malformed.
std::string HostName(std::string_view host);
// localhost, *.localhost, 127.0.0.0/8, ::1, as HostName gives them.
bool IsLoopbackName(const std::string& name);

}  // namespace spillway::telemetry
