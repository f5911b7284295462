// The small HTTP listener for metrics and health: GET only, Connection: close, one thread, everything
// bounded. Knows nothing of what it serves but the registry.
#include <spdlog/spdlog.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "engine/base/status.h"
#include "telemetry/registry.h"

namespace spillway::telemetry {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;
using Response = http::response<http::string_body>;

constexpr size_t kMaxRequestBytes = 8 * 1024;
constexpr size_t kMaxConnections = 64;
constexpr std::chrono::seconds kConnectionTime{5};  // from accepted to closed, however slow the peer is
constexpr std::chrono::milliseconds kAcceptRetry{100};

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
  Response Answer(const http::request<http::empty_body>& request);
  HttpPage Page(const std::string& path);

  Registry& registry;
  size_t connections = 0;
  bool accepting = false;
  bool stopping = false;  // above `context`: connections that end with it still ask
  asio::io_context context{1};
  tcp::acceptor acceptor;
  asio::steady_timer retry;
  uint16_t port = 0;
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
  using Answer = std::function<Response(const http::request<http::empty_body>&)>;
  Connection(tcp::socket socket, Answer answer, std::function<void()> closed)
      : stream_(std::move(socket)), answer_(std::move(answer)), closed_(std::move(closed)) {}
  ~Connection() { closed_(); }

  void Start() {
    stream_.expires_after(kConnectionTime);
    parser_.header_limit(kMaxRequestBytes);
    http::async_read_header(
        stream_, buffer_, parser_,
        [self = shared_from_this()](beast::error_code error, size_t) { self->Respond(error); });
  }

 private:
  void Respond(beast::error_code error) {
    if (!error) {
      response_ = answer_(parser_.get());
    } else if (error == http::error::header_limit || error == http::error::buffer_overflow) {
      response_ = Refusal(http::status::request_header_fields_too_large, "request too large\n");
    } else if (error.category() == http::make_error_code(http::error::bad_method).category() &&
               error != http::error::end_of_stream && error != http::error::partial_message) {
      response_ = Refusal(http::status::bad_request, "malformed request\n");
    } else {
      return;  // the peer left or its time is up
    }
    response_.keep_alive(false);
    response_.prepare_payload();
    http::async_write(stream_, response_,
                      [self = shared_from_this()](beast::error_code, size_t) { self->Finish(); });
  }

  // Closing while the peer is still sending resets the connection and may lose the answer; so the rest is
  // read and dropped until the peer closes or the time is up.
  void Finish() {
    beast::error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    Discard();
  }
  void Discard() {
    stream_.async_read_some(asio::buffer(rest_),
                            [self = shared_from_this()](beast::error_code error, size_t) {
                              if (!error) self->Discard();
                            });
  }

  static Response Refusal(http::status status, const char* text) {
    Response response(status, 11);
    response.set(http::field::content_type, "text/plain; charset=utf-8");
    response.body() = text;
    return response;
  }

  beast::tcp_stream stream_;
  beast::flat_buffer buffer_{kMaxRequestBytes};
  http::request_parser<http::empty_body> parser_;
  Response response_;
  std::array<char, 1024> rest_;
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

Response HealthServer::Impl::Answer(const http::request<http::empty_body>& request) {
  HttpPage page;
  const std::string target(request.target().data(), request.target().size());
  const bool get = request.method() == http::verb::get;
  if (!get) {
    page = {405, "text/plain; charset=utf-8", "only GET is served here\n"};
  } else {
    try {
      page = Page(target.substr(0, target.find('?')));
    } catch (const std::exception& e) {
      page = {500, "text/plain; charset=utf-8", std::string(e.what()) + "\n"};
    }
  }
  Response response(static_cast<http::status>(page.status), 11);
  response.set(http::field::content_type, page.content_type);
  response.set(http::field::cache_control, "no-store");
  response.set("X-Content-Type-Options", "nosniff");
  if (!get) response.set(http::field::allow, "GET");
  response.body() = std::move(page.body);
  return response;
}

HttpPage HealthServer::Impl::Page(const std::string& path) {
  constexpr char kText[] = "text/plain; charset=utf-8";
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
