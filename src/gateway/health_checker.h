// A HealthChecker regularly asks every backend whether it accepts requests: GET /ready, or /health
// where there is no /ready. It is used on the gateway's thread only.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <span>

#include "gateway/backend_call.h"
#include "gateway/backend_set.h"

namespace quire::gateway {

struct HealthOptions {
  std::chrono::milliseconds interval{1'000};
  std::chrono::milliseconds timeout{2'000};
  int32_t failures = 3;  // unanswered checks in a row that eject a backend; one refusal does too
};

class HealthChecker {
 public:
  // `backends` must outlive the checker. `scratch` is that of BackendCall.
  HealthChecker(const boost::asio::any_io_executor& executor, BackendSet& backends,
                const HealthOptions& options, std::span<char> scratch);
  ~HealthChecker();

  void start() { check_all(); }
  void stop();
  // Checks all backends and sets the timer for the next check.
  void check_all();
  // Called when a request has failed. The backend gets no more requests until it has answered a
  // check, which begins at once.
  void suspect(const std::shared_ptr<Backend>& backend);

 private:
  class Check;
  struct State {
    std::shared_ptr<Check> check;  // the running check; shared with its call
    bool is_resolving = false;     // the name of its host is being looked up
    bool has_no_ready = false;     // it answers 404 to /ready
    int32_t num_silent = 0;        // unanswered checks in a row
  };

  void check(const std::shared_ptr<Backend>& backend);
  void resolve(const std::shared_ptr<Backend>& backend);
  void ask(const std::shared_ptr<Backend>& backend);
  void on_answer(const std::shared_ptr<Backend>& backend, int status);
  void on_silence(const std::shared_ptr<Backend>& backend, const std::string& why);

  const boost::asio::any_io_executor executor_;
  BackendSet& backends_;
  const HealthOptions options_;
  const std::span<char> scratch_;
  boost::asio::steady_timer timer_;
  Tcp::resolver resolver_;
  std::map<int32_t, State> states_;  // by the id of the backend
  // Calls that end late read this, because the checker may be gone.
  const std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
};

}  // namespace quire::gateway
