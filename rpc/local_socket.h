// Messages between two processes of one host over a Unix socket: the data plane beside a gRPC stream, which
// stays in charge (docs/adr/0007-local-plane.md). After milliseconds of reading weights everything a hop
// touches is cold, so what counts is how little there is to touch. Knows no frames.
#pragma once

#include <absl/status/statusor.h>
#include <google/protobuf/message_lite.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

namespace spillway::rpc {

// One end. Send and Close are thread-safe; one thread receives at a time.
class LocalSocket {
 public:
  explicit LocalSocket(int fd);  // a connected stream socket; owned
  ~LocalSocket();                // Close
  LocalSocket(const LocalSocket&) = delete;
  LocalSocket& operator=(const LocalSocket&) = delete;

  // Never blocks: what the kernel does not take waits in memory and follows in order. Past 256 MiB of that
  // the socket is closed. Nothing happens after Close.
  void Send(const google::protobuf::MessageLite& message);
  // Waits for the next message. False when the peer closed; InvalidArgument for bytes that are no message.
  absl::StatusOr<bool> Receive(google::protobuf::MessageLite* message);
  // Ends both directions and wakes who waits; what the kernel took already still reaches the peer.
  void Close();

 private:
  size_t SendNow(std::string_view bytes);  // with mutex_; what the kernel took
  void Flush();                            // the flusher's loop
  absl::StatusOr<bool> Fill(size_t bytes);

  const int fd_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  std::string message_;  // being sent; kept for its memory
  std::string waiting_;
  size_t waiting_sent_ = 0;  // of waiting_

  // Of who receives.
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;

  std::thread flusher_;  // last: starts when the rest is there
};

// The worker's side: a listener in the abstract namespace that answers processes of the same user only. What
// may connect is announced by a token on the gRPC stream. Thread-safe.
class LocalListener {
 public:
  // Run on two threads a connection, so that one reads while the other computes; returns when it is over.
  using Serve = std::function<void(LocalSocket&)>;
  // Told before the first Serve, on the accepting thread. False: nobody wants the connection any more.
  using Accepted = std::function<bool(const std::shared_ptr<LocalSocket>&)>;

  static absl::StatusOr<std::unique_ptr<LocalListener>> Start();
  ~LocalListener();  // ends every connection; returns when no thread is left

  const std::string& name() const { return name_; }
  // The token that a client must present, once.
  std::string Expect(Accepted accepted, Serve serve);
  void Forget(const std::string& token);

 private:
  struct Expected {
    Accepted accepted;
    Serve serve;
  };
  struct Connection {
    std::shared_ptr<LocalSocket> socket;
    std::atomic<int> running{2};
    std::thread threads[2];
  };
  LocalListener() = default;
  void Run();
  void Admit(int fd);
  void Reap(bool all);

  std::string name_;
  int fd_ = -1;
  std::mutex mutex_;
  std::unordered_map<std::string, Expected> expected_;
  std::list<Connection> connections_;  // of the accepting thread
  std::thread thread_;
};

// The gateway's side. Unavailable where there is no such listener (another host or network namespace),
// PermissionDenied when it belongs to another user or does not know the token.
absl::StatusOr<std::unique_ptr<LocalSocket>> ConnectLocal(const std::string& name, const std::string& token);

}  // namespace spillway::rpc
