#include "quire/route.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "gateway/endpoints_file.h"
#include "gateway/gateway.h"
#include "quire/commands.h"
#include "quire/flag_checks.h"
#include "quire/otlp_flags.h"
#include "quire/serving_process.h"

namespace quire::cli {
namespace {

struct RouteFlags {
  gateway::GatewayOptions options;
  std::vector<std::string> backends;
  std::string backends_file;
  std::vector<std::string> prefill_backends;
  int64_t prefill_timeout_ms = 600'000;
  std::string routing = "prefix-aware";
  int64_t health_interval_ms = 1'000;
  int64_t health_timeout_ms = 2'000;
  int64_t connect_timeout_ms = 2'000;
  int64_t shutdown_timeout_s = 30;
};

void add_prefill_flags(CLI::App& verb, RouteFlags& flags) {
  verb.add_option("--prefill-backend", flags.prefill_backends,
                  "A server that only computes prompts, as http://HOST:PORT; the other servers "
                  "continue from its KV (docs/prefill_decode.md). May be given several times")
      ->take_all();
  verb.add_option("--prefill-bytes", flags.options.prefill_bytes,
                  "Requests with fewer bytes skip the prefill servers")
      ->transform(byte_size())
      ->capture_default_str();
  verb.add_option("--prefill-timeout-ms", flags.prefill_timeout_ms,
                  "Longest time in milliseconds for the answer of a prefill server; then another "
                  "server computes the whole request")
      ->check(in_range(10, 86'400'000))
      ->capture_default_str();
}

// Adds the flags that choose the server of a request and watch the health of servers.
void add_balance_flags(CLI::App& verb, RouteFlags& flags) {
  verb.add_option(
          "--routing", flags.routing,
          "How the server of a request is chosen: prefix-aware (the one that got the beginning of "
          "the prompt before, unless it has much more load than others), least-requests, "
          "least-tokens, power-of-two, session (by the header x-session-id), round-robin or random")
      ->capture_default_str();
  verb.add_option("--imbalance-requests", flags.options.router.imbalance_requests,
                  "prefix-aware: a server is overloaded with this many more requests than the "
                  "least loaded one, if --imbalance-ratio says so too")
      ->check(at_least(0))
      ->capture_default_str();
  verb.add_option("--imbalance-ratio", flags.options.router.imbalance_ratio,
                  "prefix-aware: a server is overloaded with this many times the requests of the "
                  "least loaded one, if --imbalance-requests says so too")
      ->check(between(1, 1e6))
      ->capture_default_str();
  verb.add_option("--health-interval-ms", flags.health_interval_ms,
                  "Time between health checks, in milliseconds")
      ->check(in_range(10, 3'600'000))
      ->capture_default_str();
  verb.add_option("--health-timeout-ms", flags.health_timeout_ms,
                  "Longest time in milliseconds for the answer to a health check")
      ->check(in_range(10, 3'600'000))
      ->capture_default_str();
  verb.add_option("--health-failures", flags.options.health.failures,
                  "Failed health checks in a row after which a server gets no requests; one failed "
                  "request also suffices")
      ->check(in_range(1, 1000))
      ->capture_default_str();
  verb.add_option("--connect-timeout-ms", flags.connect_timeout_ms,
                  "Longest time in milliseconds to connect to a server")
      ->check(in_range(10, 3'600'000))
      ->capture_default_str();
}

void add_route_flags(CLI::App& verb, RouteFlags& flags) {
  verb.add_option(
          "--backend", flags.backends,
          "A server to which requests may go, as http://HOST:PORT; may be given several times")
      ->take_all();
  verb.add_option("--backends-file", flags.backends_file,
                  "File with the servers, one per line or in the format of llm-d's file discovery; "
                  "it is read again when it changes");
  add_prefill_flags(verb, flags);
  verb.add_option("--host", flags.options.server.host, "Address to listen on")
      ->capture_default_str();
  verb.add_option("--port", flags.options.server.port, "TCP port; 0 for any free one")
      ->check(in_range(0, 65535))
      ->capture_default_str();
  add_tls_flags(verb, flags.options.server.tls, "Encryption");
  add_otlp_flags(verb, flags.options.otlp);
  add_log_flag(verb, "Logging");
  add_balance_flags(verb, flags);
  verb.add_option("--max-connections", flags.options.server.limits.max_connections,
                  "Largest number of open connections of clients; more are refused with 503")
      ->check(at_least(1))
      ->capture_default_str();
  verb.add_option("--max-body-size", flags.options.server.limits.body_bytes,
                  "Largest request body, for example 32MiB; larger ones are refused with 413")
      ->transform(byte_size())
      ->capture_default_str();
  verb.add_option("--shutdown-timeout", flags.shutdown_timeout_s,
                  "Seconds that running requests have to finish after the first SIGTERM")
      ->check(in_range(0, 86'400))
      ->capture_default_str();
}

Result<std::vector<gateway::BackendAddress>> parse_backends(const std::vector<std::string>& urls) {
  std::vector<gateway::BackendAddress> addresses;
  for (const std::string& url : urls) {
    QUIRE_ASSIGN_OR_RETURN(addresses.emplace_back(), gateway::parse_backend(url));
  }
  return addresses;
}

Result<std::vector<gateway::BackendAddress>> given_backends(const RouteFlags& flags) {
  if (flags.backends.empty() == flags.backends_file.empty())
    return invalid_argument("expected either --backend or --backends-file");
  if (!flags.backends_file.empty()) return gateway::read_endpoints_file(flags.backends_file);
  return parse_backends(flags.backends);
}

// FileWatch notices when a file changes.
class FileWatch {
 public:
  explicit FileWatch(std::string path) : path_(std::move(path)) { (void)changed(); }
  bool changed() {
    struct stat info {};
    if (path_.empty() || stat(path_.c_str(), &info) != 0) return false;
    const Seen now{info.st_ino, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
    return std::exchange(seen_, now) != now;
  }

 private:
  struct Seen {
    ino_t inode = 0;
    off_t size = 0;
    time_t s = 0;
    long ns = 0;
    friend bool operator==(const Seen&, const Seen&) = default;
  };
  const std::string path_;
  Seen seen_;
};

void follow_file(const std::string& path, gateway::Gateway& gateway) {
  Result<std::vector<gateway::BackendAddress>> addresses = gateway::read_endpoints_file(path);
  if (!addresses.ok()) {
    log_warn("{}; the backends stay as they are", addresses.status().message());
    return;
  }
  log_info("{}: {} backends", path, addresses->size());
  gateway.set_backends(std::move(*addresses));
}

// Serves until the first signal. Running requests are then finished within the timeout, or until a
// second signal.
void serve_until_stopped(const sigset_t& signals, const RouteFlags& flags,
                         gateway::Gateway& gateway, FileWatch& file) {
  constexpr timespec kPoll = {.tv_sec = 0, .tv_nsec = 500'000'000};
  int signal = 0;
  while ((signal = sigtimedwait(&signals, nullptr, &kPoll)) <= 0) {
    if (file.changed()) follow_file(flags.backends_file, gateway);
  }
  log_info("signal {}: refusing new requests, finishing running ones within {} s", signal,
           flags.shutdown_timeout_s);
  gateway.begin_drain();
  constexpr timespec kNow = {.tv_sec = 0, .tv_nsec = 0};
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::seconds(flags.shutdown_timeout_s);
  while (std::chrono::steady_clock::now() < end && !gateway.wait_idle(50)) {
    if (sigtimedwait(&signals, nullptr, &kNow) > 0) break;
  }
}

Status run_route(RouteFlags& flags) {
  set_log_level(LogLevel::kInfo);
  QUIRE_ASSIGN_OR_RETURN(flags.options.router.routing, parse_routing(flags.routing));
  if (reads_speed(flags.options.router.routing)) {
    return invalid_argument(
        "--routing: expected a policy that does not need the speed of the servers, got {}",
        flags.routing);
  }
  FileWatch file(flags.backends_file);
  QUIRE_ASSIGN_OR_RETURN(std::vector<gateway::BackendAddress> addresses, given_backends(flags));
  QUIRE_ASSIGN_OR_RETURN(std::vector<gateway::BackendAddress> prefill,
                         parse_backends(flags.prefill_backends));
  flags.options.prefill_timeout = std::chrono::milliseconds(flags.prefill_timeout_ms);
  flags.options.health.interval = std::chrono::milliseconds(flags.health_interval_ms);
  flags.options.health.timeout = std::chrono::milliseconds(flags.health_timeout_ms);
  flags.options.connect_timeout = std::chrono::milliseconds(flags.connect_timeout_ms);
  read_otlp_environment(flags.options.otlp);
  const sigset_t signals = block_stop_signals();
  raise_descriptor_limit();
  gateway::Gateway gateway(flags.options);
  QUIRE_RETURN_IF_ERROR(gateway.start());
  const size_t count = addresses.size();
  gateway.set_backends(std::move(addresses));
  gateway.set_prefill_backends(std::move(prefill));
  log_info("routing to {} backends on {}", count,
           url_of(flags.options.server.host, gateway.port(), flags.options.server.tls));
  serve_until_stopped(signals, flags, gateway, file);
  gateway.stop();
  log_info("stopped");
  return {};
}

}  // namespace

void add_route(CLI::App& app, int& exit_code) {
  CLI::App& verb = *app.add_subcommand(
      "route", "Spread requests over several servers, each to the one that has its prompt cached");
  auto flags = std::make_shared<RouteFlags>();
  add_route_flags(verb, *flags);
  verb.callback([flags, &exit_code] { exit_code = report(run_route(*flags)); });
}

}  // namespace quire::cli
