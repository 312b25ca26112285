// A Deadline is a point in time after which a connection does something else. Deadlines move with
// every write. So a running timer is left alone where possible, and checks the deadline again when
// it fires.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

namespace quire::server {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  // `on_passed` is called on the executor when the deadline has passed.
  Deadline(const boost::asio::any_io_executor& executor, std::function<void()> on_passed)
      : timer_(executor), on_passed_(std::move(on_passed)) {}

  // Moves the deadline to `ms` milliseconds from this moment. `keep_alive` is held while a timer is
  // running.
  void set(int64_t ms, std::shared_ptr<void> keep_alive) {
    if (is_cancelled_) return;
    deadline_ = Clock::now() + std::chrono::milliseconds(ms);
    if (!is_out_ || deadline_ < expiry_) wait(std::move(keep_alive));
  }
  // Ends the deadline for good. A timer that has fired, and whose handler has not run yet, does
  // nothing then.
  void cancel() {
    is_cancelled_ = true;
    timer_.cancel();
  }

 private:
  void wait(std::shared_ptr<void> keep_alive) {
    expiry_ = deadline_;
    is_out_ = true;
    timer_.expires_at(expiry_);
    timer_.async_wait(
        [this, keep_alive = std::move(keep_alive)](const boost::system::error_code& ec) {
          if (!ec && !is_cancelled_) on_timer(keep_alive);
        });
  }
  void on_timer(const std::shared_ptr<void>& keep_alive) {
    is_out_ = false;
    if (Clock::now() < deadline_) {
      wait(keep_alive);
    } else {
      on_passed_();
    }
  }

  boost::asio::steady_timer timer_;
  const std::function<void()> on_passed_;
  Clock::time_point deadline_;
  Clock::time_point expiry_;  // when the timer fires
  bool is_out_ = false;
  bool is_cancelled_ = false;
};

}  // namespace quire::server
