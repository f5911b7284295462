// Goal: the local plane keeps messages whole and in order, never blocks a sender, and lets nobody in without
// the token. Method: real Unix sockets in one process; hostile peers write raw bytes.
#include "rpc/local_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <future>

#include "spillway/v1/worker.pb.h"

namespace spillway::rpc {
namespace {

struct Pair {
  Pair() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    left = std::make_unique<LocalSocket>(fds[0]);
    right_fd = fds[1];
  }
  LocalSocket& right() {
    if (socket == nullptr) socket = std::make_unique<LocalSocket>(right_fd);
    return *socket;
  }
  std::unique_ptr<LocalSocket> left;
  int right_fd = -1;  // raw until right() is called
  std::unique_ptr<LocalSocket> socket;
};

v1::ForwardReply Reply(uint64_t step, size_t bytes) {
  v1::ForwardReply reply;
  reply.set_step(step);
  reply.set_activations(std::string(bytes, static_cast<char>(step)));
  return reply;
}

TEST(LocalSocket, AReaderThatComesLateGetsEveryMessageInOrder) {
  Pair pair;
  constexpr uint64_t kMessages = 40;  // of 1 MiB: far more than the kernel takes
  for (uint64_t step = 1; step <= kMessages; ++step) pair.left->Send(Reply(step, size_t{1} << 20));
  for (uint64_t step = 1; step <= kMessages; ++step) {
    v1::ForwardReply reply;
    const auto more = pair.right().Receive(&reply);
    ASSERT_TRUE(more.ok() && *more) << more.status();
    ASSERT_EQ(reply.step(), step);
    ASSERT_EQ(reply.activations(), Reply(step, size_t{1} << 20).activations());
  }
}

TEST(LocalSocket, MessagesOfEveryLengthArriveWhole) {
  Pair pair;
  for (uint64_t step = 1; step < 300; ++step) pair.left->Send(Reply(step, step * step % 5000));
  pair.left->Send(v1::ForwardReply());  // no bytes at all
  for (uint64_t step = 1; step < 300; ++step) {
    v1::ForwardReply reply;
    ASSERT_TRUE(*pair.right().Receive(&reply));
    ASSERT_EQ(reply.activations().size(), step * step % 5000);
  }
  v1::ForwardReply empty;
  ASSERT_TRUE(*pair.right().Receive(&empty));
  EXPECT_EQ(empty.step(), 0u);
}

TEST(LocalSocket, WhatTheKernelTookArrivesBeforeTheEnd) {
  Pair pair;
  pair.left->Send(Reply(1, 100));
  pair.left->Close();
  pair.left->Send(Reply(2, 100));  // after the end: nothing
  v1::ForwardReply reply;
  EXPECT_TRUE(*pair.right().Receive(&reply));
  EXPECT_EQ(reply.step(), 1u);
  EXPECT_FALSE(*pair.right().Receive(&reply));
}

TEST(LocalSocket, CloseWakesWhoReceives) {
  Pair pair;
  pair.right();
  auto received = std::async(std::launch::async, [&] {
    v1::ForwardReply reply;
    return *pair.right().Receive(&reply);
  });
  pair.right().Close();
  EXPECT_FALSE(received.get());
}

TEST(LocalSocket, BytesThatAreNoMessageAreNamed) {
  const auto receive = [](const std::string& bytes) {
    Pair pair;
    EXPECT_EQ(write(pair.right_fd, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    shutdown(pair.right_fd, SHUT_WR);
    v1::ForwardReply reply;
    const auto more = pair.left->Receive(&reply);
    close(pair.right_fd);
    return more;
  };
  EXPECT_TRUE(absl::IsInvalidArgument(receive("\xff\xff\xff\xff").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(receive(std::string("\x03\0\0\0\xff\xff\xff", 7)).status()));
  for (const std::string& cut : {std::string(), std::string("\x05"), std::string("\x05\0\0\0ab", 6)}) {
    const auto more = receive(cut);
    ASSERT_TRUE(more.ok()) << more.status();
    EXPECT_FALSE(*more);
  }
}

// A listener whose connections answer each message with itself.
struct Echo {
  std::unique_ptr<LocalListener> listener = *LocalListener::Start();
  std::string Expect() {
    return listener->Expect([](const auto&) { return true; },
                            [](LocalSocket& socket) {
                              static std::mutex reading;
                              for (;;) {
                                const std::lock_guard lock(reading);
                                v1::ForwardReply reply;
                                const auto more = socket.Receive(&reply);
                                if (!more.ok() || !*more) return;
                                socket.Send(reply);
                              }
                            });
  }
};

TEST(LocalListener, ATokenAdmitsOnce) {
  Echo echo;
  const std::string token = echo.Expect();
  const auto first = ConnectLocal(echo.listener->name(), token);
  ASSERT_TRUE(first.ok()) << first.status();
  (*first)->Send(Reply(9, 10));
  v1::ForwardReply reply;
  ASSERT_TRUE(*(*first)->Receive(&reply));
  EXPECT_EQ(reply.step(), 9u);
  EXPECT_TRUE(absl::IsPermissionDenied(ConnectLocal(echo.listener->name(), token).status()));
}

TEST(LocalListener, UnknownForgottenAndShortTokensAreRefused) {
  Echo echo;
  const std::string token = echo.Expect();
  echo.listener->Forget(token);
  EXPECT_TRUE(absl::IsPermissionDenied(ConnectLocal(echo.listener->name(), token).status()));
  EXPECT_FALSE(ConnectLocal(echo.listener->name(), std::string(32, 'x')).ok());
  EXPECT_FALSE(ConnectLocal(echo.listener->name(), "short").ok());
  EXPECT_TRUE(ConnectLocal(echo.listener->name(), echo.Expect()).ok());  // still listening
}

TEST(LocalListener, ThereIsNoneUnderAnotherName) {
  EXPECT_TRUE(absl::IsUnavailable(ConnectLocal("spillway-none", std::string(32, 'x')).status()));
  EXPECT_FALSE(ConnectLocal("", "").ok());
  EXPECT_FALSE(ConnectLocal(std::string(500, 'n'), "").ok());
}

TEST(LocalListener, ItsEndEndsItsConnections) {
  auto echo = std::make_unique<Echo>();
  const auto connected = ConnectLocal(echo->listener->name(), echo->Expect());
  ASSERT_TRUE(connected.ok());
  echo.reset();
  v1::ForwardReply reply;
  EXPECT_FALSE(*(*connected)->Receive(&reply));
}

}  // namespace
}  // namespace spillway::rpc
