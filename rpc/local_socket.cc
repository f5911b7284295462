// A message is its length in four little-endian bytes and its protobuf encoding.
#include "rpc/local_socket.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "engine/base/status.h"
#include "rpc/server.h"

namespace spillway::rpc {

namespace {

constexpr size_t kLengthBytes = 4;
constexpr size_t kBufferBytes = size_t{64} << 10;
constexpr size_t kMaxWaitingBytes = size_t{256} << 20;
constexpr int kHandshakeMilliseconds = 500;
constexpr size_t kTokenBytes = 32;
constexpr char kWelcome = '+';

std::string RandomHex() {
  unsigned char bytes[kTokenBytes / 2];
  std::string hex;
  if (getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes)) return hex;
  for (const unsigned char byte : bytes) hex += fmt::format("{:02x}", byte);
  return hex;
}

// The address of an abstract name: no file, gone with its owner.
socklen_t Address(const std::string& name, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  const size_t length = std::min(name.size(), sizeof address->sun_path - 1);
  std::memcpy(address->sun_path + 1, name.data(), length);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

bool SameUser(int fd) {
  ucred peer = {};
  socklen_t size = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return peer.uid == geteuid() || peer.uid == 0;
}

bool WaitFor(int fd, short events, int milliseconds) {
  pollfd poll_fd = {fd, events, 0};
  int ready = 0;
  do {
    ready = poll(&poll_fd, 1, milliseconds);
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

// Exactly `size` bytes within the handshake's time each; they come at once or never.
std::optional<std::string> ReadHandshake(int fd, size_t size) {
  std::string text(size, '\0');
  for (size_t got = 0; got < size;) {
    if (!WaitFor(fd, POLLIN, kHandshakeMilliseconds)) return std::nullopt;
    const ssize_t n = recv(fd, text.data() + got, size - got, 0);
    if (n <= 0) return std::nullopt;
    got += static_cast<size_t>(n);
  }
  return text;
}

bool WriteHandshake(int fd, std::string_view text) {
  return send(fd, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
}

}  // namespace

LocalSocket::LocalSocket(int fd) : fd_(fd), buffer_(kBufferBytes), flusher_([this] { Flush(); }) {}

LocalSocket::~LocalSocket() {
  Close();
  flusher_.join();
  close(fd_);
}

void LocalSocket::Close() {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    closed_ = true;
  }
  changed_.notify_all();
  shutdown(fd_, SHUT_RDWR);
}

size_t LocalSocket::SendNow(std::string_view bytes) {
  size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t n = send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return sent;
    if (n < 0) return bytes.size();  // the peer is gone: who receives hears of it
    sent += static_cast<size_t>(n);
  }
  return sent;
}

void LocalSocket::Send(const google::protobuf::MessageLite& message) {
  bool too_much = false;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    const size_t size = message.ByteSizeLong();
    message_.resize(kLengthBytes + size);
    for (size_t i = 0; i < kLengthBytes; ++i) message_[i] = static_cast<char>(size >> (8 * i));
    message.SerializeWithCachedSizesToArray(reinterpret_cast<uint8_t*>(message_.data() + kLengthBytes));
    const size_t sent = waiting_.empty() ? SendNow(message_) : 0;
    if (sent == message_.size()) return;
    waiting_.append(message_, sent);
    too_much = waiting_.size() - waiting_sent_ > kMaxWaitingBytes;
  }
  changed_.notify_all();
  if (too_much) Close();
}

void LocalSocket::Flush() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return closed_ || !waiting_.empty(); });
    if (closed_) return;
    lock.unlock();
    WaitFor(fd_, POLLOUT, -1);  // shutdown ends it
    lock.lock();
    waiting_sent_ += SendNow(std::string_view(waiting_).substr(waiting_sent_));
    // What was sent gives its memory back, also while a slow peer never lets the rest run dry; half at a
    // time, so that a byte is moved once.
    if (waiting_sent_ < waiting_.size() / 2) continue;
    waiting_.erase(0, waiting_sent_);
    waiting_sent_ = 0;
  }
}

// Until at least `bytes` lie in the buffer; false when the peer closed before.
absl::StatusOr<bool> LocalSocket::Fill(size_t bytes) {
  if (begin_ == end_) begin_ = end_ = 0;
  if (begin_ + bytes > buffer_.size()) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    if (bytes > buffer_.size()) buffer_.resize(bytes);
  }
  while (end_ - begin_ < bytes) {
    const ssize_t n = recv(fd_, buffer_.data() + end_, buffer_.size() - end_, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != ECONNRESET) return Unavailable("local plane: {}", std::strerror(errno));
    if (n <= 0) return false;
    end_ += static_cast<size_t>(n);
  }
  return true;
}

absl::StatusOr<bool> LocalSocket::Receive(google::protobuf::MessageLite* message) {
  SPILLWAY_ASSIGN_OR_RETURN(const bool more, Fill(kLengthBytes));
  if (!more) return false;
  size_t size = 0;
  for (size_t i = 0; i < kLengthBytes; ++i)
    size |= size_t{static_cast<uint8_t>(buffer_[begin_ + i])} << (8 * i);
  if (size > static_cast<size_t>(kMaxMessageBytes)) {
    return InvalidArgument("local plane: a message of {} bytes; at most {}", size, kMaxMessageBytes);
  }
  SPILLWAY_ASSIGN_OR_RETURN(const bool whole, Fill(kLengthBytes + size));
  if (!whole) return false;
  const char* const body = buffer_.data() + begin_ + kLengthBytes;
  begin_ += kLengthBytes + size;
  if (!message->ParseFromArray(body, static_cast<int>(size))) {
    return InvalidArgument("local plane: {} bytes that are no message", size);
  }
  return true;
}

absl::StatusOr<std::unique_ptr<LocalListener>> LocalListener::Start() {
  std::unique_ptr<LocalListener> listener(new LocalListener());
  listener->name_ = "spillway-" + RandomHex();
  listener->fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address;
  const socklen_t size = Address(listener->name_, &address);
  if (listener->fd_ < 0 || bind(listener->fd_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener->fd_, 16) != 0) {
    return Unavailable("local plane: {}", std::strerror(errno));
  }
  listener->thread_ = std::thread([raw = listener.get()] { raw->Run(); });
  return listener;
}

LocalListener::~LocalListener() {
  if (thread_.joinable()) {
    shutdown(fd_, SHUT_RDWR);  // accept returns
    thread_.join();
  }
  Reap(/*all=*/true);
  if (fd_ >= 0) close(fd_);
}

std::string LocalListener::Expect(Accepted accepted, Serve serve) {
  std::string token = RandomHex();
  const std::lock_guard lock(mutex_);
  if (!token.empty()) expected_[token] = {std::move(accepted), std::move(serve)};
  return token;
}

void LocalListener::Forget(const std::string& token) {
  const std::lock_guard lock(mutex_);
  expected_.erase(token);
}

void LocalListener::Run() {
  for (;;) {
    const int fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) {
      // Without a descriptor nothing can be accepted; streams go on over gRPC.
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      continue;
    }
    if (fd < 0) return;
    Reap(/*all=*/false);
    Admit(fd);
  }
}

void LocalListener::Admit(int fd) {
  Expected expected;
  std::optional<std::string> token;
  if (SameUser(fd)) token = ReadHandshake(fd, kTokenBytes);
  if (token.has_value()) {
    const std::lock_guard lock(mutex_);
    const auto found = expected_.find(*token);
    if (found != expected_.end()) {
      expected = std::move(found->second);
      expected_.erase(found);
    }
  }
  if (!expected.serve) {
    close(fd);
    return;
  }
  auto socket = std::make_shared<LocalSocket>(fd);
  if (!expected.accepted(socket) || !WriteHandshake(fd, {&kWelcome, 1})) {
    socket->Close();
    return;
  }
  Connection& connection = connections_.emplace_back();
  connection.socket = std::move(socket);
  for (std::thread& thread : connection.threads) {
    thread = std::thread([&connection, serve = expected.serve] {
      serve(*connection.socket);
      connection.running.fetch_sub(1);
    });
  }
}

void LocalListener::Reap(bool all) {
  connections_.remove_if([all](Connection& connection) {
    if (!all && connection.running.load() > 0) return false;
    connection.socket->Close();
    for (std::thread& thread : connection.threads) thread.join();
    return true;
  });
}

absl::StatusOr<std::unique_ptr<LocalSocket>> ConnectLocal(const std::string& name, const std::string& token) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return Unavailable("local plane: {}", std::strerror(errno));
  auto local = std::make_unique<LocalSocket>(fd);
  sockaddr_un address;
  const socklen_t size = Address(name, &address);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), size) != 0) {
    return Unavailable("local plane: {}: {}", name, std::strerror(errno));
  }
  if (!SameUser(fd)) return absl::PermissionDeniedError("local plane: the worker runs as another user");
  const bool sent = WriteHandshake(fd, token);
  const std::optional<std::string> answer = sent ? ReadHandshake(fd, 1) : std::nullopt;
  if (answer != std::string(1, kWelcome)) {
    return absl::PermissionDeniedError("local plane: the worker did not welcome the connection");
  }
  return local;
}

}  // namespace spillway::rpc
