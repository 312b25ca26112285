#include "comm/socket.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

namespace quire {
namespace {

// Calls `work` on a thread that a signal reaches while it waits. The signal's handler does nothing,
// and system calls are not restarted after it.
template <typename F>
void run_with_a_signal(F work) {
  struct sigaction ignore {};
  struct sigaction before {};
  ignore.sa_handler = [](int) {};
  ASSERT_EQ(::sigaction(SIGUSR1, &ignore, &before), 0);
  std::thread thread(work);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  ::pthread_kill(thread.native_handle(), SIGUSR1);
  thread.join();
  ::sigaction(SIGUSR1, &before, nullptr);
}

TEST(Socket, ASignalDoesNotEndTheWaitForAConnection) {
  const auto listener = listen_on(0);
  ASSERT_TRUE(listener.ok());
  run_with_a_signal([&] {
    const int64_t deadline_us = deadline_in_ms(400);
    EXPECT_EQ(accept_one(*listener, deadline_us).status().code(), StatusCode::kDeadlineExceeded);
    EXPECT_GE(deadline_in_ms(0), deadline_us);
  });
}

// A listener whose queue is full does not answer, so that connections to it stay in progress.
TEST(Socket, AConnectionInProgressIsNotConnected) {
  const Socket listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(listener.fd(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(listener.fd(), 0), 0);
  const uint16_t port = port_of(listener);
  std::vector<Socket> queued;
  while (queued.size() < 16) {
    Result<Socket> socket = connect_to("127.0.0.1", port, deadline_in_ms(200));
    if (!socket.ok()) break;
    queued.push_back(*std::move(socket));
  }
  ASSERT_LT(queued.size(), 16u) << "the queue does not become full";
  run_with_a_signal([&] {
    const Status status = connect_to("127.0.0.1", port, deadline_in_ms(400)).status();
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  });
}

TEST(Socket, TooManyOpenFilesAreReported) {
  const auto listener = listen_on(0);
  ASSERT_TRUE(listener.ok());
  const auto client = connect_to("127.0.0.1", port_of(*listener), deadline_in_ms(5000));
  ASSERT_TRUE(client.ok());
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::dup(listener->fd());  // the lowest number that is free
  ::close(next);
  const rlimit full{.rlim_cur = static_cast<rlim_t>(next), .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &full), 0);
  const Status status = accept_one(*listener, deadline_in_ms(5000)).status();
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("accept"), std::string::npos) << status.message();
  EXPECT_TRUE(accept_one(*listener, deadline_in_ms(5000)).ok());
}

TEST(Frames, TooLongOnesAreNotSent) {
  const auto listener = listen_on(0);
  ASSERT_TRUE(listener.ok());
  const auto client = connect_to("127.0.0.1", port_of(*listener), deadline_in_ms(5000));
  ASSERT_TRUE(client.ok());
  const auto size = static_cast<size_t>(kMaxFrameBytes) + 1;
  void* const bytes =
      ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(bytes, MAP_FAILED);
  const std::span payload(static_cast<const std::byte*>(bytes), size);
  EXPECT_EQ(send_frame(*client, 1, payload, deadline_in_ms(200)).code(),
            StatusCode::kInvalidArgument);
  ::munmap(bytes, size);
  std::byte byte{};
  const auto server = accept_one(*listener, deadline_in_ms(5000));
  ASSERT_TRUE(server.ok());
  EXPECT_EQ(receive_all(*server, {&byte, 1}, deadline_in_ms(50)).code(),
            StatusCode::kDeadlineExceeded);
}

TEST(Frames, OnesThatAreLongerThanExpectedAreRefused) {
  const auto listener = listen_on(0);
  ASSERT_TRUE(listener.ok());
  const auto client = connect_to("127.0.0.1", port_of(*listener), deadline_in_ms(5000));
  const auto server = accept_one(*listener, deadline_in_ms(5000));
  ASSERT_TRUE(client.ok() && server.ok());
  const std::vector<std::byte> payload(100);
  ASSERT_TRUE(send_frame(*client, 1, payload, deadline_in_ms(1000)).ok());
  Frame frame;
  EXPECT_EQ(receive_frame(*server, frame, deadline_in_ms(1000), 99).code(), StatusCode::kDataLoss);
  EXPECT_TRUE(frame.payload.empty());
}

}  // namespace
}  // namespace quire
