#include "quire/bench/load_generator.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/json.hpp>
#include <boost/system/system_error.hpp>
#include <chrono>
#include <cstdlib>

#include "quire/bench/load_plan.h"

namespace quire::bench {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
namespace json = boost::json;
using tcp = asio::ip::tcp;
using SteadyTime = std::chrono::steady_clock;

double seconds_between(SteadyTime::time_point from, SteadyTime::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// StreamMeter cuts a byte stream into SSE events and keeps the times that matter.
class StreamMeter {
 public:
  StreamMeter(RequestRecord& record, SteadyTime::time_point sent) : record_(record), sent_(sent) {}

  void feed(std::string_view bytes) {
    const auto now = SteadyTime::now();
    pending_ += bytes;
    size_t end;
    while ((end = pending_.find("\n\n")) != std::string::npos) {
      on_event(std::string_view(pending_).substr(0, end), now);
      pending_.erase(0, end + 2);
    }
  }
  bool done() const { return done_; }

 private:
  void on_event(std::string_view event, SteadyTime::time_point now) {
    constexpr std::string_view kData = "data: ";
    if (!event.starts_with(kData)) return;
    event.remove_prefix(kData.size());
    if (event == "[DONE]") {
      done_ = true;
      return;
    }
    boost::system::error_code ec;
    const json::value value = json::parse(event, ec);
    const json::object* chunk = ec ? nullptr : value.if_object();
    if (chunk == nullptr) {
      record_.error = "a chunk is not a JSON object";
      return;
    }
    if (const json::value* error = chunk->if_contains("error"))
      record_.error = json::serialize(*error);
    if (const json::value* usage = chunk->if_contains("usage"); usage && usage->is_object()) {
      record_.output_tokens = count(usage->get_object(), "completion_tokens");
      record_.input_tokens = count(usage->get_object(), "prompt_tokens");
    }
    const json::value* choices = chunk->if_contains("choices");
    if (choices && choices->is_array() && !choices->get_array().empty()) on_chunk(now);
  }

  static int32_t count(const json::object& usage, std::string_view key) {
    const json::value* n = usage.if_contains(key);
    return n && n->is_int64() ? static_cast<int32_t>(n->get_int64()) : 0;
  }

  void on_chunk(SteadyTime::time_point now) {
    if (record_.ttft_s == 0.0) {
      record_.ttft_s = seconds_between(sent_, now);
    } else {
      record_.itl_s.push_back(seconds_between(last_chunk_, now));
    }
    last_chunk_ = now;
    record_.e2el_s = seconds_between(sent_, now);
  }

  RequestRecord& record_;
  SteadyTime::time_point sent_;
  SteadyTime::time_point last_chunk_;
  std::string pending_;
  bool done_ = false;
};

http::request<http::string_body> http_post(const LoadOptions& options, const std::string& body) {
  http::request<http::string_body> request{
      http::verb::post, options.chat ? "/v1/chat/completions" : "/v1/completions", 11};
  request.set(http::field::host, options.host);
  request.set(http::field::content_type, "application/json");
  request.set(http::field::connection, "close");
  if (!options.api_key.empty())
    request.set(http::field::authorization, "Bearer " + options.api_key);
  request.body() = body;
  request.prepare_payload();
  return request;
}

// Returns the message of an OpenAI error body; empty when the body is something else.
std::string error_message(const std::string& body) {
  boost::system::error_code ec;
  const json::value value = json::parse(body, ec);
  const json::value* error =
      ec || !value.is_object() ? nullptr : value.get_object().if_contains("error");
  if (error == nullptr) return {};
  if (error->is_string()) return std::string(error->get_string());
  const json::value* message =
      error->is_object() ? error->get_object().if_contains("message") : nullptr;
  return message && message->is_string() ? std::string(message->get_string()) : std::string();
}

std::string refusal(unsigned status, const std::string& body) {
  const std::string message = error_message(body);
  return message.empty() ? fmt::format("HTTP {}", status)
                         : fmt::format("HTTP {}: {}", status, message);
}

// Returns the error's text without the place in a library's sources that what() ends with.
std::string text_of(const std::exception& error) {
  const auto* const system = dynamic_cast<const boost::system::system_error*>(&error);
  return system != nullptr ? system->code().message() : error.what();
}

asio::awaitable<void> exchange(const LoadOptions& options, const tcp::endpoint& server,
                               const std::string& body, RequestRecord& record) {
  beast::tcp_stream stream(co_await asio::this_coro::executor);
  stream.expires_after(std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(options.timeout_s)));
  co_await stream.async_connect(server, asio::use_awaitable);
  stream.socket().set_option(tcp::no_delay(true));
  const auto sent = SteadyTime::now();
  co_await http::async_write(stream, http_post(options, body), asio::use_awaitable);

  beast::flat_buffer buffer;
  http::response_parser<http::buffer_body> parser;
  parser.body_limit(boost::none);
  co_await http::async_read_header(stream, buffer, parser, asio::use_awaitable);
  const bool answers = parser.get().result_int() == 200;
  StreamMeter meter(record, sent);
  std::string refused;  // the beginning of an error's body, as far as its message may reach
  char chunk[16384];
  while (!parser.is_done() && !meter.done() && refused.size() < sizeof chunk) {
    parser.get().body().data = chunk;
    parser.get().body().size = sizeof chunk;
    beast::error_code ec;
    co_await http::async_read_some(stream, buffer, parser,
                                   asio::redirect_error(asio::use_awaitable, ec));
    if (ec && ec != http::error::need_buffer) throw beast::system_error(ec);
    const std::string_view bytes(chunk, sizeof chunk - parser.get().body().size);
    answers ? meter.feed(bytes) : void(refused += bytes);
  }
  if (!answers) {
    record.error = refusal(parser.get().result_int(), refused);
    co_return;
  }
  if (!meter.done() && record.error.empty()) record.error = "the stream ended without [DONE]";
}

// Run is what the concurrent requests of one run share. One thread uses it.
struct Run {
  const LoadOptions& options;
  const LoadPlan& plan;
  const tcp::endpoint server;
  LoadResult result;
  SteadyTime::time_point start = SteadyTime::now();
  size_t next = 0;
  int32_t num_running = 0;
  int32_t num_finished = 0;
};

asio::awaitable<void> one_request(Run& run, size_t index) {
  RequestRecord& record = run.result.requests[index];
  record.input_tokens = run.options.chat ? 0 : run.plan.workload.requests[index].input_tokens;
  record.start_s = seconds_between(run.start, SteadyTime::now());
  run.result.max_concurrent_requests =
      std::max(run.result.max_concurrent_requests, ++run.num_running);
  try {
    co_await exchange(run.options, run.server, run.plan.bodies[index], record);
  } catch (const std::exception& e) {
    record.error = text_of(e);
  }
  --run.num_running;
  ++run.num_finished;
  if (run.options.progress) {
    run.options.progress(run.num_finished, static_cast<int32_t>(run.plan.bodies.size()));
  }
}

// A client is one of the max_concurrency coroutines. It takes the next request once its last one
// has ended and the next one's start time has come.
asio::awaitable<void> client(Run& run) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  while (run.next < run.plan.bodies.size()) {
    const size_t index = run.next++;
    timer.expires_at(run.start +
                     std::chrono::nanoseconds(run.plan.workload.requests[index].arrival_ns));
    co_await timer.async_wait(asio::use_awaitable);
    co_await one_request(run, index);
  }
}

// Returns the first of the host's addresses at which something listens.
Result<tcp::endpoint> find_server(const LoadOptions& options) {
  asio::io_context io;
  boost::system::error_code ec;
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(options.host, std::to_string(options.port), ec);
  if (ec) return unavailable("--host {}: {}", options.host, ec.message());
  tcp::socket socket(io);
  const tcp::endpoint server = asio::connect(socket, found, ec);
  if (ec) {
    return unavailable("cannot connect to {} port {}: {}", options.host, options.port,
                       ec.message());
  }
  return server;
}

Result<std::string> get(const LoadOptions& options, const tcp::endpoint& server,
                        const std::string& target) {
  const auto failed = [&](const std::string& why) {
    return unavailable("http://{}:{}{}: {}", options.host, options.port, target, why);
  };
  try {
    asio::io_context io;
    tcp::socket socket(io);
    socket.connect(server);
    http::request<http::empty_body> request{http::verb::get, target, 11};
    request.set(http::field::host, options.host);
    if (!options.api_key.empty())
      request.set(http::field::authorization, "Bearer " + options.api_key);
    http::write(socket, request);
    beast::flat_buffer buffer;
    http::response<http::string_body> response;
    http::read(socket, buffer, response);
    if (response.result_int() != 200)
      return failed(refusal(response.result_int(), response.body()));
    return std::move(response.body());
  } catch (const std::exception& e) {
    return failed(text_of(e));
  }
}

Result<std::string> first_model(const LoadOptions& options, const tcp::endpoint& server) {
  QUIRE_ASSIGN_OR_RETURN(const std::string body, get(options, server, "/v1/models"));
  try {
    return std::string(json::parse(body).at("data").at(0).at("id").as_string());
  } catch (const std::exception& e) {
    return unavailable("http://{}:{}/v1/models: expected a list of models: {}", options.host,
                       options.port, text_of(e));
  }
}

// Returns nullopt when the server is not Quire.
std::optional<StepUse> read_step_use(const LoadOptions& options, const tcp::endpoint& server) {
  const Result<std::string> text = get(options, server, "/metrics");
  return text.ok() ? parse_step_use(*text) : std::nullopt;
}

LoadResult run_plan(const LoadOptions& options, const tcp::endpoint& server, const LoadPlan& plan) {
  Run run{.options = options, .plan = plan, .server = server, .result = {}};
  const size_t num_requests = plan.bodies.size();
  run.result.requests.resize(num_requests);
  asio::io_context io(1);
  const size_t num_clients =
      options.max_concurrency > 0 ? static_cast<size_t>(options.max_concurrency) : num_requests;
  run.start = SteadyTime::now();
  for (size_t i = 0; i < std::min(num_clients, num_requests); ++i) {
    asio::co_spawn(io, client(run), asio::detached);
  }
  io.run();
  run.result.duration_s = seconds_between(run.start, SteadyTime::now());
  return std::move(run.result);
}

}  // namespace

Result<LoadResult> run_load(const LoadOptions& options) {
  LoadOptions resolved = options;
  QUIRE_ASSIGN_OR_RETURN(const tcp::endpoint server, find_server(options));
  if (resolved.model.empty()) {
    QUIRE_ASSIGN_OR_RETURN(resolved.model, first_model(options, server));
  }
  if (resolved.num_warmups > 0) {
    LoadOptions warmup = resolved;
    warmup.num_requests = resolved.num_warmups;
    warmup.request_rate = 0.0;
    warmup.seed = resolved.seed + 1;
    warmup.progress = nullptr;
    warmup.trace.reset();
    QUIRE_ASSIGN_OR_RETURN(const LoadPlan plan, plan_load(warmup));
    run_plan(warmup, server, plan);
  }
  if (resolved.trace && resolved.trace->closed_loop && resolved.max_concurrency == 0) {
    resolved.max_concurrency = resolved.trace->closed_loop->concurrency;
  }
  QUIRE_ASSIGN_OR_RETURN(LoadPlan plan, plan_load(resolved));
  const std::optional<StepUse> before = read_step_use(options, server);
  LoadResult result = run_plan(resolved, server, plan);
  const std::optional<StepUse> after = read_step_use(options, server);
  if (before && after) result.steps = since(*before, *after);
  result.sent = sent_workload(std::move(plan.workload), result);
  return result;
}

}  // namespace quire::bench
