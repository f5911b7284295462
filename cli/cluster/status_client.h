// The running cluster as its gateway sees it, as a table and as JSON. The only file of cli/ that speaks gRPC.
#pragma once

#include <absl/status/statusor.h>

#include <nlohmann/json.hpp>
#include <string>

#include "spillway/v1/cluster.pb.h"

namespace spillway::cli {

// admin: host:port of the Cluster service. Unavailable when it does not answer within 5 s.
absl::StatusOr<v1::ClusterStatus> GetClusterStatus(const std::string& admin);

// One row per stage: placement, bytes, layers planned and executed, state, cause, remedy.
std::string StatusTable(const v1::ClusterStatus& status);
nlohmann::ordered_json StatusJson(const v1::ClusterStatus& status);
// One row per stage: queue, compute, serialize and transport of decode hops over the last minute.
std::string HopTable(const v1::ClusterStatus& status);

}  // namespace spillway::cli
