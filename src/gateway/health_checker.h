// Asks every backend now and then whether it takes requests: GET /ready, or /health where there is
// no /ready. It is used on the gateway's thread alone.
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
  int32_t failures = 3;  // silent ones in a row that it takes to be ejected; a refusal is enough
};

class HealthChecker {
 public:
  // `backends` outlives the checker. `scratch` is that of BackendCall.
  HealthChecker(const boost::asio::any_io_executor& executor, BackendSet& backends,
                const HealthOptions& options, std::span<char> scratch);
  ~HealthChecker();

  void start() { check_all(); }
  void stop();
  // Checks all of them now, and the next time an interval later.
  void check_all();
  // A request has failed: the backend gets no more until it has answered a check, which begins now.
  void suspect(const std::shared_ptr<Backend>& backend);

 private:
  class Check;
  struct State {
    std::shared_ptr<Check> check;  // under way; shared with its call
    bool has_no_ready = false;     // it answers 404 to /ready
    int32_t num_silent = 0;        // checks in a row
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
  std::map<int32_t, State> states_;  // by id of the backend
  // Told to calls that come back late: the checker may be gone.
  const std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
};

}  // namespace quire::gateway
