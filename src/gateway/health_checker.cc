#include "gateway/health_checker.h"

#include <fmt/format.h>

#include <functional>
#include <utility>

#include "base/log.h"

namespace quire::gateway {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;

// A Check is one question to a backend. `on_answer` gets its status, or 0 when there was no answer.
class HealthChecker::Check final : public BackendListener {
 public:
  explicit Check(std::function<void(int status, const std::string& why)> on_answer)
      : on_answer_(std::move(on_answer)) {}
  void on_head(server::HttpResponse head, std::optional<uint64_t>) override {
    status_ = head.status;
  }
  void on_body(std::string_view) override {}
  void on_end() override { on_answer_(status_, {}); }
  void on_failure(const std::string& why) override { on_answer_(0, why); }
  bool wants_more() const override { return true; }

  std::shared_ptr<BackendCall> call;  // owns itself while it runs

 private:
  const std::function<void(int status, const std::string& why)> on_answer_;
  int status_ = 0;
};

HealthChecker::HealthChecker(const asio::any_io_executor& executor, BackendSet& backends,
                             const HealthOptions& options, std::span<char> scratch)
    : executor_(executor),
      backends_(backends),
      options_(options),
      scratch_(scratch),
      timer_(executor),
      resolver_(executor) {}

HealthChecker::~HealthChecker() { stop(); }

void HealthChecker::stop() {
  *is_alive_ = false;
  timer_.cancel();
  resolver_.cancel();
  for (auto& [id, state] : states_) {
    if (state.check != nullptr && state.check->call != nullptr) state.check->call->cancel();
  }
  states_.clear();
}

void HealthChecker::check_all() {
  for (const auto& backend : backends_.all()) check(backend);
  std::erase_if(states_, [&](const auto& entry) {
    for (const auto& backend : backends_.all()) {
      if (backend->id() == entry.first) return false;
    }
    return true;
  });
  timer_.expires_after(options_.interval);
  timer_.async_wait([this, alive = is_alive_](const ErrorCode& ec) {
    if (!ec && *alive) check_all();
  });
}

void HealthChecker::check(const std::shared_ptr<Backend>& backend) {
  const State& state = states_[backend->id()];
  if (state.check != nullptr || state.is_resolving) return;
  if (backend->endpoints.empty()) {
    resolve(backend);
  } else {
    ask(backend);
  }
}

void HealthChecker::resolve(const std::shared_ptr<Backend>& backend) {
  const BackendAddress& address = backend->address();
  ErrorCode ec;
  const auto numeric = asio::ip::make_address(address.host, ec);
  if (!ec) {
    backend->endpoints = {Tcp::endpoint(numeric, address.port)};
    return ask(backend);
  }
  states_[backend->id()].is_resolving = true;
  resolver_.async_resolve(address.host, std::to_string(address.port),
                          [this, alive = is_alive_, backend](
                              const ErrorCode& error, const Tcp::resolver::results_type& found) {
                            if (!*alive) return;
                            states_[backend->id()].is_resolving = false;
                            if (error) return on_silence(backend, error.message());
                            for (const auto& entry : found)
                              backend->endpoints.push_back(entry.endpoint());
                            check(backend);
                          });
}

void HealthChecker::ask(const std::shared_ptr<Backend>& backend) {
  State& state = states_[backend->id()];
  state.check = std::make_shared<Check>(
      [this, alive = is_alive_, backend](int status, const std::string& why) {
        if (!*alive) return;
        const auto check = std::move(states_[backend->id()].check);  // destroyed on return
        states_[backend->id()].check = nullptr;
        if (status == 0) return on_silence(backend, why);
        on_answer(backend, status);
      });
  state.check->call =
      std::make_shared<BackendCall>(executor_, backend, state.check, scratch_,
                                    BackendCall::Options{.connect_timeout = options_.timeout,
                                                         .answer_timeout = options_.timeout});
  const std::shared_ptr<BackendCall> call = state.check->call;
  call->start(fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: quire-route\r\n\r\n",
                          state.has_no_ready ? "/health" : "/ready",
                          backend->address().authority()));
}

void HealthChecker::on_answer(const std::shared_ptr<Backend>& backend, int status) {
  State& state = states_[backend->id()];
  if (status == 404 && !std::exchange(state.has_no_ready, true)) return ask(backend);
  state.num_silent = 0;
  const bool is_ready = status >= 200 && status < 300;
  if (is_ready != backend->is_healthy()) {
    log_info("backend {}: {} (status {})", backend->address().authority(),
             is_ready ? "takes requests" : "takes no requests", status);
  }
  backend->set_healthy(is_ready);
}

void HealthChecker::on_silence(const std::shared_ptr<Backend>& backend, const std::string& why) {
  State& state = states_[backend->id()];
  ++state.num_silent;
  // The host's name may have another address now. When the process has gone, its cache has gone
  // too.
  if (state.num_silent >= options_.failures) backend->endpoints.clear();
  if (!backend->is_healthy() || state.num_silent < options_.failures) return;
  log_warn("backend {}: ejected: {}", backend->address().authority(), why);
  backend->set_healthy(false);
  backends_.forget(*backend);
}

void HealthChecker::suspect(const std::shared_ptr<Backend>& backend) {
  if (backend->is_removed || !*is_alive_) return;
  if (backend->is_healthy()) {
    log_warn("backend {}: ejected: a request failed", backend->address().authority());
    backend->set_healthy(false);
    backends_.forget(*backend);
  }
  check(backend);
}

}  // namespace quire::gateway
