// The small HTTP listener for metrics and health: GET only, Connection: close, one thread, everything
// bounded. Knows nothing of what it serves but the registry.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "engine/base/status.h"
#include "telemetry/host_name.h"
#include "telemetry/registry.h"

namespace spillway::telemetry {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;
using Request = http::request<http::empty_body>;

constexpr size_t kMaxRequestBytes = 8 * 1024;
constexpr size_t kMaxConnections = 64;
constexpr std::chrono::seconds kConnectionTime{5};  // from accepted to closed, however slow the peer is
constexpr std::chrono::milliseconds kAcceptRetry{100};
constexpr char kText[] = "text/plain; charset=utf-8";

struct HostPort {
  std::string host, port;
};

absl::StatusOr<HostPort> SplitAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon + 1 == address.size()) {
    return InvalidArgument("metrics address \"{}\" is not HOST:PORT", address);
  }
  HostPort parts{address.substr(0, colon), address.substr(colon + 1)};
  if (parts.host.size() > 1 && parts.host.front() == '[' && parts.host.back() == ']') {
    parts.host = parts.host.substr(1, parts.host.size() - 2);
  }
  return parts;
}

}  // namespace

// Shared by the server and its connections (which end before the io_context does); everything but `mutex` and
// what it guards is confined to the one thread.
struct HealthServer::Impl {
  explicit Impl(Registry& r) : registry(r), acceptor(context), retry(context) {}

  absl::Status Listen(const std::string& address);
  void Accept();
  void Release();
  HttpPage Answer(const Request& request);
  HttpPage Page(const std::string& path);

  Registry& registry;
  size_t connections = 0;
  bool accepting = false;
  bool stopping = false;  // above `context`: connections that end with it still ask
  asio::io_context context{1};
  tcp::acceptor acceptor;
  asio::steady_timer retry;
  uint16_t port = 0;
  bool on_loopback = false;
  std::thread thread;

  std::mutex
      mutex;  // held while a callback runs: once a setter has returned, the old callback is not running
  std::function<std::string()> readiness;
  std::map<std::string, std::function<HttpPage()>> pages;
};

namespace {

// One request, one answer, closed. Owned by its pending operation; confined to the server's thread.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Answer = std::function<HttpPage(const Request&)>;
  Connection(tcp::socket socket, Answer answer, std::function<void()> closed)
      : socket_(std::move(socket)),
        deadline_(socket_.get_executor()),
        answer_(std::move(answer)),
        closed_(std::move(closed)) {}
  ~Connection() { closed_(); }

  void Start() {
    deadline_.expires_after(kConnectionTime);
    deadline_.async_wait([weak = weak_from_this()](error_code error) {
      const auto self = weak.lock();
      if (error || self == nullptr) return;
      error_code ignored;
      self->socket_.close(ignored);
    });
    Read();
  }

 private:
  void Read() {
    socket_.async_read_some(asio::buffer(bytes_) + filled_,
                            [self = shared_from_this()](error_code error, size_t n) {
                              if (!error) self->OnBytes(n);  // else the peer left or its time is up
                            });
  }

  void OnBytes(size_t n) {
    filled_ += n;
    error_code error;
    parsed_ += parser_.put(asio::const_buffer(bytes_.data() + parsed_, filled_ - parsed_), error);
    if (parser_.is_header_done()) return Send(answer_(parser_.get()));
    const bool incomplete = error == http::error::need_more || !error;
    if (incomplete && filled_ < bytes_.size()) return Read();
    Send(incomplete ? HttpPage{431, kText, "request too large\n"}
                    : HttpPage{400, kText, "malformed request\n"});
  }

  void Send(const HttpPage& page) {
    const auto reason = http::obsolete_reason(static_cast<http::status>(page.status));
    output_ = fmt::format(
        "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nCache-Control: no-store\r\n"
        "X-Content-Type-Options: nosniff\r\n{}Connection: close\r\nContent-Length: {}\r\n\r\n{}",
        page.status, std::string_view(reason.data(), reason.size()), page.content_type,
        page.status == 405 ? "Allow: GET\r\n" : "", page.body.size(), page.body);
    asio::async_write(socket_, asio::buffer(output_),
                      [self = shared_from_this()](error_code, size_t) { self->Finish(); });
  }

  // Closing while the peer is still sending resets the connection and may lose the answer; so the rest is
  // read and dropped until the peer closes or the time is up.
  void Finish() {
    error_code ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
    Discard();
  }
  void Discard() {
    socket_.async_read_some(asio::buffer(bytes_), [self = shared_from_this()](error_code error, size_t) {
      if (!error) self->Discard();
    });
  }

  tcp::socket socket_;
  asio::steady_timer deadline_;
  std::array<char, kMaxRequestBytes> bytes_;
  size_t filled_ = 0;  // of bytes_
  size_t parsed_ = 0;
  http::request_parser<http::empty_body> parser_;
  std::string output_;
  Answer answer_;
  std::function<void()> closed_;
};

}  // namespace

absl::Status HealthServer::Impl::Listen(const std::string& address) {
  SPILLWAY_ASSIGN_OR_RETURN(const HostPort parts, SplitAddress(address));
  boost::system::error_code error;
  tcp::resolver resolver(context);
  const auto endpoints = resolver.resolve(parts.host, parts.port, tcp::resolver::passive, error);
  if (error || endpoints.empty()) {
    return InvalidArgument("metrics address \"{}\": {}", address, error.message());
  }
  const tcp::endpoint endpoint = *endpoints.begin();
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return Unavailable("cannot listen on {} for metrics: {}", address, error.message());
  port = acceptor.local_endpoint(error).port();
  on_loopback = endpoint.address().is_loopback();
  return absl::OkStatus();
}

void HealthServer::Impl::Accept() {
  if (accepting || connections >= kMaxConnections || !acceptor.is_open()) return;
  accepting = true;
  acceptor.async_accept([this](boost::system::error_code error, tcp::socket socket) {
    accepting = false;
    if (error == asio::error::operation_aborted) return;
    if (error) {  // out of descriptors, mostly: a pause keeps the thread from spinning
      retry.expires_after(kAcceptRetry);
      retry.async_wait([this](boost::system::error_code stopped) {
        if (!stopped) Accept();
      });
      return;
    }
    ++connections;
    std::make_shared<Connection>(
        std::move(socket), [this](const auto& request) { return Answer(request); }, [this] { Release(); })
        ->Start();
    Accept();
  });
}

void HealthServer::Impl::Release() {
  --connections;
  if (!stopping) Accept();
}

HttpPage HealthServer::Impl::Answer(const Request& request) {
  const auto host = request[http::field::host];
  if (on_loopback && !host.empty() && !IsLoopbackName(HostName({host.data(), host.size()}))) {
    return {403, kText, "this listener is bound to loopback and answers only to its names; use 127.0.0.1\n"};
  }
  if (request.method() != http::verb::get) return {405, kText, "only GET is served here\n"};
  const std::string target(request.target().data(), request.target().size());
  try {
    return Page(target.substr(0, target.find('?')));
  } catch (const std::exception& e) {
    return {500, kText, std::string(e.what()) + "\n"};
  }
}

HttpPage HealthServer::Impl::Page(const std::string& path) {
  if (path == "/metrics") return {200, "text/plain; version=0.0.4; charset=utf-8", registry.Render()};
  if (path == "/healthz") return {200, kText, "ok\n"};
  const std::lock_guard lock(mutex);
  if (path == "/readyz") {
    const std::string reason = readiness ? readiness() : "starting";
    return reason.empty() ? HttpPage{200, kText, "ok\n"} : HttpPage{503, kText, reason + "\n"};
  }
  const auto page = pages.find(path);
  if (page == pages.end()) return {404, kText, "not found; there are /metrics /healthz /readyz\n"};
  return page->second();
}

HealthServer::HealthServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

absl::StatusOr<std::unique_ptr<HealthServer>> HealthServer::Start(const std::string& address,
                                                                  Registry& registry) {
  try {
    auto impl = std::make_unique<Impl>(registry);
    SPILLWAY_RETURN_IF_ERROR(impl->Listen(address));
    impl->Accept();
    Impl* raw = impl.get();
    std::unique_ptr<HealthServer> server(new HealthServer(std::move(impl)));
    raw->thread = std::thread([raw] {
      while (!raw->context.stopped()) {
        try {
          raw->context.run();
        } catch (
            const std::exception& e) {  // no memory for a connection: that one is lost, the server goes on
          spdlog::error("event=metrics_connection_failed error=\"{}\"", e.what());
        }
      }
    });
    return server;
  } catch (const std::exception& e) {
    return Unavailable("cannot serve metrics on {}: {}", address, e.what());
  }
}

HealthServer::~HealthServer() {
  impl_->context.stop();
  if (impl_->thread.joinable()) impl_->thread.join();
  impl_->stopping = true;
}

uint16_t HealthServer::port() const { return impl_->port; }

void HealthServer::SetReadiness(std::function<std::string()> readiness) {
  const std::lock_guard lock(impl_->mutex);
  impl_->readiness = std::move(readiness);
}

void HealthServer::AddPage(const std::string& path, std::function<HttpPage()> page) {
  const std::lock_guard lock(impl_->mutex);
  impl_->pages[path] = std::move(page);
}

}  // namespace spillway::telemetry
