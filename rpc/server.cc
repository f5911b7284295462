// gRPC server set-up. SO_REUSEPORT is off so that two processes on one port are an error, not a coin toss.
#include "rpc/server.h"

#include <arpa/inet.h>
#include <grpcpp/health_check_service_interface.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "engine/base/status.h"

namespace spillway::rpc {

void SilenceLibraryLog() { setenv("GRPC_VERBOSITY", "NONE", 0); }

absl::StatusOr<HostPort> ParseHostPort(const std::string& address) {
  const size_t colon = address.rfind(':');
  HostPort result;
  const char* end = address.data() + address.size();
  uint32_t port = 0;
  bool valid = colon != std::string::npos && colon > 0 && colon + 1 < address.size();
  if (valid) {
    const auto [rest, error] = std::from_chars(address.data() + colon + 1, end, port);
    valid = error == std::errc() && rest == end && port <= 65535;
  }
  if (valid) {
    result.host = address.substr(0, colon);
    if (result.host.size() > 2 && result.host.front() == '[' && result.host.back() == ']') {
      result.host = result.host.substr(1, result.host.size() - 2);
    } else {
      valid = result.host.find(':') == std::string::npos;
    }
  }
  if (!valid) return InvalidArgument("address \"{}\" is not HOST:PORT (port 0 to 65535)", address);
  result.port = static_cast<uint16_t>(port);
  return result;
}

bool IsLoopback(const std::string& host) {
  if (host == "localhost") return true;
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

namespace {

// gRPC only says that binding failed; the system says why.
std::string BindFailure(const HostPort& where) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(where.port);
  const std::string host = where.host == "localhost" ? "127.0.0.1" : where.host;
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) return "the address cannot be bound";
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return std::strerror(errno);
  const int one = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  const bool bound = bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  const std::string reason = bound ? "the address cannot be bound" : std::strerror(errno);
  close(fd);
  return reason;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options) {
  SPILLWAY_ASSIGN_OR_RETURN(const HostPort where, ParseHostPort(options.address));
  if (!options.insecure && !IsLoopback(where.host)) {
    return FailedPrecondition(
        "listener {}: {} is reachable from other machines without encryption; bind to 127.0.0.1, or say "
        "--insecure={} if the network is trusted",
        options.name, options.address, options.name);
  }
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(options.address, grpc::InsecureServerCredentials(), &port);
  for (grpc::Service* service : options.services) builder.RegisterService(service);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, options.max_threads);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             static_cast<int>(options.min_ping_interval.count()));
  // A peer that vanished without a word is noticed, and its streams end.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 20000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // A window of several fragments from the start: with gRPC's 64 KiB a 1 MiB fragment waits for round trips.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 4 << 20);
  std::unique_ptr<Server> server(new Server);
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr || port == 0) {
    return Unavailable("listener {}: cannot listen on {}: {}", options.name, options.address,
                       BindFailure(where));
  }
  server->port_ = static_cast<uint16_t>(port);
  const bool bracket = where.host.find(':') != std::string::npos;
  server->address_ =
      bracket ? fmt::format("[{}]:{}", where.host, port) : fmt::format("{}:{}", where.host, port);
  server->server_->GetHealthCheckService()->SetServingStatus("liveness", true);
  server->SetReady(false);
  return server;
}

Server::~Server() { Shutdown(std::chrono::milliseconds(0)); }

void Server::SetReady(bool ready) {
  grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService();
  health->SetServingStatus("readiness", ready);
  health->SetServingStatus("", ready);
}

void Server::Shutdown(std::chrono::milliseconds deadline) {
  if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now() + deadline);
}

}  // namespace spillway::rpc
