// These tests are about names whose lookup takes long. Their process has a getaddrinfo() of its own.
#include "net/exchange.h"

#include <gtest/gtest.h>
#include <netdb.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace {

// While a test holds it, lookups do not end, but for a time that no test should take.
class Gate {
 public:
  void hold() {
    const std::lock_guard lock(mutex_);
    is_held_ = true;
  }
  // Returns when no lookup runs any more.
  void open() {
    std::unique_lock lock(mutex_);
    is_held_ = false;
    change_.notify_all();
    change_.wait(lock, [this] { return num_inside_ == 0; });
  }
  void pass() {
    std::unique_lock lock(mutex_);
    ++num_inside_;
    change_.wait_for(lock, std::chrono::seconds(10), [this] { return !is_held_; });
    --num_inside_;
    change_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable change_;
  bool is_held_ = false;  // guarded by mutex_
  int num_inside_ = 0;    // guarded by mutex_
};
Gate gate;

}  // namespace

extern "C" int getaddrinfo(const char*, const char*, const addrinfo*, addrinfo**) {
  gate.pass();
  return EAI_NONAME;
}

namespace quire::net {
namespace {

class Nothing final : public AnswerSink {
 public:
  Status on_head(const AnswerHead&) override { return {}; }
  Status on_body(std::string_view) override { return {}; }
};

// Returns how an exchange ends whose name is still being looked up.
Status ask_slowly(const ExchangeOptions& options) {
  gate.hold();
  Nothing sink;
  const auto start = std::chrono::steady_clock::now();
  const Status status = exchange(parse_url("http://slow.example/").value(), {}, options, sink);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  gate.open();
  return status;
}

TEST(Exchange, ALookupThatTakesLongTimesOut) {
  const Status status = ask_slowly({.connect_timeout_ms = 50});
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "slow.example:80: no answer within 50 ms");
  EXPECT_EQ(ask_slowly({.total_timeout_ms = 50}).code(), StatusCode::kUnavailable);
}

TEST(Exchange, ALookupThatTakesLongIsStopped) {
  EXPECT_EQ(ask_slowly({.is_stopped = [] { return true; }}).code(), StatusCode::kCancelled);
}

TEST(Exchange, ANameThatIsNotKnown) {
  Nothing sink;
  const Status status = exchange(parse_url("http://none.example/").value(), {}, {}, sink);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("none.example:80: "), std::string::npos) << status.message();
}

}  // namespace
}  // namespace quire::net
