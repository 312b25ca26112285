#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <string_view>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "engine/observe/engine_stats.h"
#include "facade/model_bundle.h"
#include "quire/commands.h"
#include "quire/engine_flags.h"
#include "quire/launcher.h"
#include "quire/models_folder.h"
#include "quire/otlp_flags.h"
#include "quire/process_watch.h"
#include "quire/serve_flags.h"
#include "quire/served_model.h"
#include "quire/serving_process.h"
#include "quire/settings/settings.h"
#include "quire/vllm_flags.h"
#include "server/adapters/adapter_routes.h"
#include "server/heap_trimmer.h"
#include "server/http_server.h"

namespace quire::cli {
namespace {

// A model may load for minutes, and nobody waits for those signals before the server runs. While
// this object lives, either signal ends the process at once with the exit code of a killed process
// (128 + its number). Nothing is lost, since files of the weight cache are renamed into place when
// they are whole.
class StopWhileLoading {
 public:
  explicit StopWhileLoading(const sigset_t& signals)
      : watcher_([this, signals] {
          constexpr timespec kPoll = {.tv_sec = 0, .tv_nsec = 50'000'000};
          while (!loaded_) {
            const int signal = sigtimedwait(&signals, nullptr, &kPoll);
            if (signal <= 0) continue;
            fmt::print(stderr, "\n{}: stopped while loading\n", strsignal(signal));
            _exit(128 + signal);
          }
        }) {}
  ~StopWhileLoading() {
    loaded_ = true;
    watcher_.join();
  }
  StopWhileLoading(const StopWhileLoading&) = delete;
  StopWhileLoading& operator=(const StopWhileLoading&) = delete;

 private:
  std::atomic<bool> loaded_ = false;
  std::thread watcher_;
};

// This exit code means that the process has nothing left to serve with: the GPU is lost or the
// engine has failed.
constexpr int kExitEngineDied = 3;

void reload(HttpServer& server) {
  const Status status = server.reload();
  if (status.ok())
    log_info(
        "hangup: the files of keys and certificates and the folder of models, if there are any, "
        "have been read again");
  if (!status.ok()) log_warn("hangup: {}; the old content stays in use", status.message());
}

// Calls say_ready() once the process can also stop cleanly. The first signal makes the server
// unready, and running requests are finished within the timeout; the second signal stops it at
// once.
void wait_and_drain(const sigset_t& signals, HttpServer& server, server::ModelHost& models,
                    int64_t timeout_s, const std::function<void()>& say_ready) {
  // The thread starts here, because there may be no memory for a thread when the drain begins.
  std::promise<bool> wanted;
  std::promise<void> started;
  std::thread drain([&, is_wanted = wanted.get_future()]() mutable {
    server::keep_memory_for_the_end();
    started.set_value();
    if (!is_wanted.get()) return;
    models.drain(timeout_s * 1'000'000);
    server.wait_idle(5'000);  // the last bytes of the last answers are still being sent
    kill(getpid(), SIGTERM);
  });
  started.get_future().wait();
  say_ready();
  int signal = 0;
  for (sigwait(&signals, &signal); signal == SIGHUP; sigwait(&signals, &signal)) reload(server);
  if (!models.healthy()) {
    wanted.set_value(false);
    drain.join();
    server.begin_drain();
    server.wait_idle(5'000);  // requests have got their errors, which clients still have to read
    server.stop();
    return;
  }
  log_info("{}: refusing new requests, finishing {} running ones within {} s", strsignal(signal),
           models.num_running(), timeout_s);
  server.begin_drain();
  wanted.set_value(true);
  // The next signal comes from the drain thread when it has finished, or from a user who wants no
  // wait.
  do sigwait(&signals, &signal);
  while (signal == SIGHUP);
  models.drain(0);
  drain.join();
  server.stop();
}

// Checks the chat template before the weights are read, so that a template that does not show how
// tool calls are written fails early.
Status check_template_tells_tool_calls(const ServeFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const ModelBundle bundle,
                         open_model(flags.engine.model, flags.engine.chat_template));
  if (reply_format(flags, bundle).dialect != nullptr) return {};
  return invalid_argument(
      "--enable-auto-tool-choice: the chat template of {} does not show how calls are written; "
      "expected --tool-call-parser too",
      bundle.name);
}

// Applies vLLM's --model and --tokenizer.
Status apply_vllm_names(ServeFlags& flags) {
  if (!flags.model.empty() && !flags.engine.model.empty() && flags.model != flags.engine.model) {
    return invalid_argument("expected one model, got {} and --model {}", flags.engine.model,
                            flags.model);
  }
  if (!flags.model.empty()) flags.engine.model = flags.model;
  if (!flags.tokenizer.empty() && flags.tokenizer != flags.engine.model) {
    return invalid_argument("--tokenizer: expected the model itself ({}), got {}",
                            flags.engine.model, flags.tokenizer);
  }
  return {};
}

// Reads the environment variables that vLLM's users set. Quire's own variables are flags
// (settings/settings.h) and take precedence.
void read_environment(ServerOptions& server) {
  const char* const key = std::getenv("VLLM_API_KEY");
  if (server.api_keys.empty() && key != nullptr && *key != '\0') server.api_keys.push_back(key);
  const char* const dev_mode = std::getenv("VLLM_SERVER_DEV_MODE");
  if (dev_mode != nullptr && std::string_view(dev_mode) == "1") server.enable_dev_endpoints = true;
}

// Logs that requests can come.
void say_ready(const ServeFlags& flags, const std::string& what, uint16_t port, int64_t took_us) {
  log_info("serving {} on {} after {:.2f} s", what,
           flags.server.uds.empty() ? url_of(flags.server.host, port, flags.server.tls)
                                    : flags.server.uds,
           static_cast<double>(took_us) * 1e-6);
}

// Returns the exit code: 0, or kExitEngineDied.
Result<int> serve_folder(const sigset_t& signals, const ServeFlags& flags) {
  const SteadyClock clock;
  const int64_t start_us = clock.now_us();
  QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<server::ModelShelf> models,
                         open_models_folder(flags));
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<HttpServer> server,
                         HttpServer::create(flags.server, models, flags.extras));
  QUIRE_RETURN_IF_ERROR(server->start());
  wait_and_drain(signals, *server, *models, flags.shutdown_timeout_s, [&] {
    say_ready(flags, fmt::format("{} models of {}", models->list().size(), flags.models.directory),
              server->port(), clock.now_us() - start_us);
  });
  log_info("stopped");
  return 0;
}

Result<int> serve_one(const sigset_t& signals, const sigset_t& stop_signals, ServeFlags& flags) {
  const SteadyClock clock;
  const int64_t start_us = clock.now_us();
  flags.engine.on_progress = loading_bar();
  flags.engine.engine.on_death = [] { kill(getpid(), SIGTERM); };
  auto stop_while_loading = std::make_unique<StopWhileLoading>(stop_signals);
  QUIRE_ASSIGN_OR_RETURN(const RunningModel running, start_model(flags.engine));
  stop_while_loading.reset();
  flags.server.reply_format = reply_format(flags, running.bundle);
  if (running.bundle.tokenizer == nullptr) {
    log_warn("{} has no tokenizer; only /v1/completions with token ids will work",
             running.bundle.name);
  }
  QUIRE_ASSIGN_OR_RETURN(ServedModel served, served_model(flags, running));
  QUIRE_RETURN_IF_ERROR(server::check_adapter_names(served));
  const auto models = server::host_one_model(std::move(served), flags.server);
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<HttpServer> server,
                         HttpServer::create(flags.server, models, flags.extras));
  QUIRE_RETURN_IF_ERROR(server->start());
  fmt::print(stderr, "{}", running.plan.memory.table());
  wait_and_drain(signals, *server, *models, flags.shutdown_timeout_s, [&] {
    say_ready(flags, running.bundle.name, server->port(), clock.now_us() - start_us);
  });
  if (!running.engine->healthy()) return kExitEngineDied;
  log_info("stopped");
  return 0;
}

Result<int> run_serve(ServeFlags& flags) {
  QUIRE_RETURN_IF_ERROR(apply_vllm_names(flags));
  if (const std::optional<int> ended = run_as_rank(flags.engine)) return *ended;
  set_log_level(LogLevel::kInfo);
  const sigset_t stop_signals = block_stop_signals();
  sigset_t signals = stop_signals;
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  server::give_back_large_blocks();
  raise_descriptor_limit();
  std::unique_ptr<ProcessWatch> process_watch;
  if (flags.exit_with_process > 0) {
    QUIRE_ASSIGN_OR_RETURN(process_watch, ProcessWatch::start(flags.exit_with_process));
  }
  read_environment(flags.server);
  read_otlp_environment(flags.extras.otlp);
  if (!flags.without_effect.empty()) {
    log_warn(
        "{}: accepted because vLLM has these flags, but they have no effect here "
        "(docs/vllm-flags.md)",
        fmt::join(flags.without_effect, ", "));
  }
  const bool is_folder = !flags.models.directory.empty();
  if (flags.enable_auto_tool_choice && flags.tool_call_parser == "auto" && !is_folder) {
    QUIRE_RETURN_IF_ERROR(check_template_tells_tool_calls(flags));
  }
  QUIRE_RETURN_IF_ERROR(HttpServer::check(flags.server, flags.extras));
  // The engine checks requests again, as it does for every frontend.
  flags.engine.engine.max_logprobs = flags.server.max_logprobs;
  flags.server.priority_scheduling =
      flags.engine.engine.scheduler.policy == SchedulingPolicy::kPriority;
  flags.engine.probe_when_idle = !is_folder;
  return is_folder ? serve_folder(signals, flags) : serve_one(signals, stop_signals, flags);
}

}  // namespace

void add_serve(CLI::App& app, int& exit_code, const Settings& settings) {
  CLI::App& verb =
      *app.add_subcommand("serve", "Serve a model to OpenAI clients and browsers over HTTP");
  auto flags = std::make_shared<ServeFlags>();
  add_model_argument(verb, flags->engine);
  flags->engine.engine.scheduler.step_time = StepTimeLimit::automatic();
  flags->engine.engine.scheduler.express_tokens = 256;
  add_serve_flags(verb, *flags);
  add_vllm_flags(verb, flags->without_effect);
  take_last_of_repeated(verb);
  verb.callback([flags, &exit_code, &settings, &verb] {
    if (flags->print_config) {
      fmt::print("{}", settings.effective(verb));
      return;
    }
    const Result<int> ended = run_serve(*flags);
    exit_code = ended.ok() ? *ended : report(ended.status());
  });
}

}  // namespace quire::cli
