#include "gateway/http/server.h"

#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <charconv>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "gateway/http/connection.h"
#include "gateway/http/connection_set.h"

namespace spillway::gateway {
namespace {

namespace net = boost::asio;
using boost::system::error_code;
using net::ip::tcp;

constexpr std::chrono::milliseconds kAcceptRetry{100};  // out of descriptors, mostly: some will come back
constexpr std::chrono::seconds kCutTimeout{5};
constexpr char kServerFull[] = "too many connections";
// Connections past the limit that may be told so at a time; those past them are closed without a word.
constexpr size_t kRefusalsAtOnce = 64;
constexpr size_t kOtherDescriptors = 256;  // of this process: files, gRPC, workers

absl::StatusOr<tcp::endpoint> ParseAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return InvalidArgument("HTTP address '{}' must be host:port", address);
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (host == "localhost") host = "127.0.0.1";
  uint16_t port = 0;
  const char* end = address.data() + address.size();
  const auto [stop, status] = std::from_chars(address.data() + colon + 1, end, port);
  if (status != std::errc() || stop != end) {
    return InvalidArgument("HTTP address '{}': the port must be 0 to 65535", address);
  }
  error_code error;
  const net::ip::address ip = net::ip::make_address(host, error);
  if (error) return InvalidArgument("HTTP address '{}': '{}' is no IP address", address, host);
  return tcp::endpoint(ip, port);
}

absl::Status OpenListener(const tcp::endpoint& endpoint, const std::string& address,
                          tcp::acceptor& acceptor) {
  error_code error;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(net::socket_base::max_listen_connections, error);
  if (!error) return absl::OkStatus();
  return Unavailable("cannot listen on {}: {}", address, error.message());
}

// How many connections the limit of open descriptors leaves room for, after raising it as far as needed and
// allowed. Past it the listener could not even refuse.
size_t RoomForConnections(size_t wanted) {
  const size_t needed = wanted + kRefusalsAtOnce + kOtherDescriptors;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return wanted;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, needed);
  setrlimit(RLIMIT_NOFILE, &limit);
  getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= needed) return wanted;
  const size_t room = std::max<size_t>(limit.rlim_cur, needed - wanted + 1) - (needed - wanted);
  spdlog::warn("event=http_connections_limited wanted={} allowed={} reason=\"open files: ulimit -n is {}\"",
               wanted, room, limit.rlim_cur);
  return room;
}

HttpLimits WithRoom(HttpLimits limits) {
  limits.max_connections = RoomForConnections(limits.max_connections);
  return limits;
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(const HttpOptions& options, const tcp::endpoint& endpoint, RequestHandler& handler)
      : handler_(handler),
        limits_(WithRoom(options.limits)),
        access_(options.access, endpoint.address().is_loopback()),
        threads_wanted_(std::max(1, options.threads)) {}
  ~Impl() { Stop(); }

  absl::Status Start(const tcp::endpoint& endpoint, const std::string& address) {
    SPILLWAY_RETURN_IF_ERROR(OpenListener(endpoint, address, acceptor_));
    port_ = acceptor_.local_endpoint().port();
    Accept();
    for (int i = 0; i < threads_wanted_; ++i) threads_.emplace_back([this] { Run(); });
    return absl::OkStatus();
  }

  uint16_t port() const { return port_; }
  size_t connections() const { return connections_.size(); }

  void Stop() {
    if (threads_.empty() || stopping_.exchange(true)) return;  // never started, or stopped before
    handler_.BeginDrain();
    net::post(acceptor_.get_executor(), [this] {
      error_code ignored;
      acceptor_.close(ignored);
      accept_retry_.cancel();
    });
    for (const auto& connection : connections_.Snapshot()) connection->Drain();
    const auto deadline = std::chrono::steady_clock::now() + limits_.drain_timeout;
    if (!connections_.WaitUntilEmpty(deadline)) {
      spdlog::warn("event=http_drain_timeout connections={}", connections_.size());
      for (const auto& connection : connections_.Snapshot()) connection->Cut();
      connections_.WaitUntilEmpty(std::chrono::steady_clock::now() + kCutTimeout);
    }
    work_.reset();
    io_.stop();
    for (std::thread& thread : threads_) thread.join();
    // Nothing posts to io_ once every connection is closed, whatever the backend still does.
    for (const auto& connection : connections_.Snapshot()) connection->Close();
  }

 private:
  void Run() {
    for (;;) {
      try {
        io_.run();
        return;
      } catch (const std::exception& e) {  // one connection's failure must not end the others
        spdlog::error("event=http_handler_failed reason=\"{}\"", e.what());
      }
    }
  }

  void Accept() {
    acceptor_.async_accept(net::make_strand(io_), [this](error_code error, tcp::socket socket) {
      if (stopping_.load() || error == net::error::operation_aborted) return;
      if (error) return RetryAccept(error);
      const size_t connections = connections_.size();
      if (connections < limits_.max_connections + kRefusalsAtOnce) {
        const auto connection = std::make_shared<Connection>(
            std::move(socket), Connection::Parts{handler_, limits_, access_, connections_});
        connections_.Add(connection);
        if (connections < limits_.max_connections) {
          connection->Start();
        } else {
          connection->StartRefusing(503, kServerFull);
        }
        if (stopping_.load()) connection->Drain();  // Stop may have looked before it was added
      }
      Accept();
    });
  }

  void RetryAccept(error_code error) {
    spdlog::warn("event=http_accept_failed reason=\"{}\"", error.message());
    accept_retry_.expires_after(kAcceptRetry);
    accept_retry_.async_wait([this](error_code cancelled) {
      if (!cancelled && !stopping_.load()) Accept();
    });
  }

  RequestHandler& handler_;
  const HttpLimits limits_;
  const AccessPolicy access_;
  const int threads_wanted_;
  uint16_t port_ = 0;
  std::atomic<bool> stopping_{false};
  ConnectionSet connections_;  // outlives io_, whose handlers may hold connections
  net::io_context io_;
  net::executor_work_guard<net::io_context::executor_type> work_{io_.get_executor()};
  tcp::acceptor acceptor_{net::make_strand(io_)};
  net::steady_timer accept_retry_{acceptor_.get_executor()};
  std::vector<std::thread> threads_;
};

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const HttpOptions& options,
                                                              RequestHandler& handler) {
  SPILLWAY_ASSIGN_OR_RETURN(const tcp::endpoint endpoint, ParseAddress(options.address));
  if (!endpoint.address().is_loopback() && !options.insecure) {
    return InvalidArgument(
        "HTTP address '{}' can be reached from other machines and has no TLS; bind to 127.0.0.1 or allow it "
        "explicitly",
        options.address);
  }
  try {
    auto impl = std::make_unique<Impl>(options, endpoint, handler);
    SPILLWAY_RETURN_IF_ERROR(impl->Start(endpoint, options.address));
    return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
  } catch (const std::exception& e) {  // no threads, no epoll descriptor
    return ResourceExhausted("cannot start the HTTP server on {}: {}", options.address, e.what());
  }
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;
uint16_t HttpServer::port() const { return impl_->port(); }
size_t HttpServer::connections() const { return impl_->connections(); }
void HttpServer::Stop() { impl_->Stop(); }

}  // namespace spillway::gateway
