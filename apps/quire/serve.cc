#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <ctime>
#include <future>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "engine/engine_stats.h"
#include "facade/model_bundle.h"
#include "quire/commands.h"
#include "quire/engine_flags.h"
#include "quire/serve_flags.h"
#include "server/http_server.h"
#include "server/tokenizer_codec.h"

namespace quire::cli {
namespace {

GenerationDefaults generation_defaults(const GenerationConfig& config) {
  return {.temperature = config.temperature,
          .top_p = config.top_p,
          .min_p = config.min_p,
          .repetition_penalty = config.repetition_penalty,
          .top_k = config.top_k,
          .max_tokens = config.max_new_tokens};
}

ChatRenderer chat_renderer(std::shared_ptr<const ModelChat> chat) {
  return [chat = std::move(chat)](const ChatRenderRequest& request) {
    ChatPromptOptions options{.messages = request.messages,
                              .add_generation_prompt = request.add_generation_prompt,
                              .continue_final_message = request.continue_final_message,
                              .template_kwargs = request.template_kwargs};
    if (!request.tools.empty()) options.tools = request.tools;
    if (!request.documents.empty()) options.documents = request.documents;
    return chat->render(std::move(options), request.template_source);
  };
}

ServedModel served_model(const ServeFlags& flags, const RunningModel& running) {
  ServedModel served;
  served.names = flags.served_model_names.empty() ? std::vector{running.bundle.name}
                                                  : flags.served_model_names;
  served.engine = running.engine;
  served.codec = running.bundle.tokenizer
                     ? make_text_codec(running.bundle.tokenizer)
                     : make_ids_only_codec(running.engine->model_info().vocab_size);
  if (running.bundle.chat) served.render_chat = chat_renderer(running.bundle.chat);
  if (flags.generation_config == "auto")
    served.defaults = generation_defaults(running.bundle.generation);
  served.eos_token_ids = running.bundle.generation.eos_token_ids;
  served.root = flags.engine.model.empty() ? running.bundle.name : flags.engine.model;
  served.created_s = std::time(nullptr);
  served.max_model_len = running.max_model_len;
  return served;
}

// Blocks SIGINT and SIGTERM in this thread and all that it starts, so that one place waits for
// them.
sigset_t block_stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return signals;
}

// Until the server runs nobody waits for those signals, and a model may load for minutes: while
// this lives, either ends the process at once with the exit code of one that it killed (128 + its
// number). Nothing is lost: the weight cache's files are renamed into place when they are whole.
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

// A thousand open streams need a thousand descriptors; the usual soft limit is 1024.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) log_warn("cannot raise the limit of open files");
}

// The process has nothing to serve with any more: the GPU is lost or the engine has failed.
constexpr int kExitEngineDied = 3;

// First signal: readiness off, finish what runs within the timeout. Second signal: stop now.
void wait_and_drain(const sigset_t& signals, HttpServer& server, AsyncEngine& engine,
                    int64_t timeout_s) {
  // Started now: when it is wanted there may be no memory for a thread.
  std::promise<bool> wanted;
  std::thread drain([&, is_wanted = wanted.get_future()]() mutable {
    if (!is_wanted.get()) return;
    engine.drain(timeout_s * 1'000'000);
    server.wait_idle(5'000);  // the last bytes of the last answers
    kill(getpid(), SIGTERM);
  });
  int signal = 0;
  sigwait(&signals, &signal);
  if (!engine.healthy()) {
    wanted.set_value(false);
    drain.join();
    server.begin_drain();
    server.wait_idle(5'000);  // requests have got their errors; clients are still to read them
    server.stop();
    return;
  }
  log_info("{}: refusing new requests, finishing {} running ones within {} s", strsignal(signal),
           engine.stats().num_requests_running, timeout_s);
  server.begin_drain();
  wanted.set_value(true);
  sigwait(&signals, &signal);  // the drain is over, or somebody is impatient
  engine.drain(0);
  drain.join();
  server.stop();
}

// Before the weights are read: a template that says nothing ends a long start early.
Result<ToolCallFormat> tool_calls_of_template(const EngineArgs& args) {
  QUIRE_ASSIGN_OR_RETURN(const ModelBundle bundle, open_model(args.model, args.chat_template));
  const ToolCallFormat format =
      bundle.chat == nullptr ? ToolCallFormat::kNone : bundle.chat->tool_call_format();
  if (format != ToolCallFormat::kNone) return format;
  return invalid_argument(
      "--enable-auto-tool-choice: the chat template of {} does not tell how calls are written; "
      "expected --tool-call-parser beside it",
      bundle.name);
}

std::string url_of(const std::string& host, uint16_t port) {
  const bool bare_ipv6 = host.find(':') != host.npos && !host.starts_with('[');
  return bare_ipv6 ? fmt::format("http://[{}]:{}", host, port)
                   : fmt::format("http://{}:{}", host, port);
}

// The exit code: 0, or kExitEngineDied.
Result<int> run_serve(ServeFlags& flags) {
  set_log_level(LogLevel::kInfo);
  const sigset_t signals = block_stop_signals();
  raise_descriptor_limit();
  SteadyClock clock;
  const int64_t start_us = clock.now_us();
  ToolCallFormat& tools = flags.server.reply_format.tools;
  if (flags.server.enable_auto_tool_choice && tools == ToolCallFormat::kNone) {
    QUIRE_ASSIGN_OR_RETURN(tools, tool_calls_of_template(flags.engine));
  }
  QUIRE_RETURN_IF_ERROR(HttpServer::check(flags.server));
  // The engine checks requests again, as it does for every frontend.
  flags.engine.engine.max_logprobs = flags.server.max_logprobs;
  flags.server.priority_scheduling =
      flags.engine.engine.scheduler.policy == SchedulingPolicy::kPriority;
  flags.engine.on_progress = loading_bar();
  flags.engine.engine.on_death = [] { kill(getpid(), SIGTERM); };
  auto stop_while_loading = std::make_unique<StopWhileLoading>(signals);
  QUIRE_ASSIGN_OR_RETURN(const RunningModel running, start_model(flags.engine));
  stop_while_loading.reset();
  if (running.bundle.tokenizer == nullptr) {
    log_warn("{} has no tokenizer: only /v1/completions with token ids will work",
             running.bundle.name);
  }
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<HttpServer> server,
                         HttpServer::create(flags.server, served_model(flags, running)));
  QUIRE_RETURN_IF_ERROR(server->start());
  fmt::print(stderr, "{}", running.plan.memory.table());
  log_info("serving {} on {} after {:.2f} s", running.bundle.name,
           flags.server.uds.empty() ? url_of(flags.server.host, server->port()) : flags.server.uds,
           static_cast<double>(clock.now_us() - start_us) * 1e-6);
  wait_and_drain(signals, *server, *running.engine, flags.shutdown_timeout_s);
  if (!running.engine->healthy()) return kExitEngineDied;
  log_info("stopped");
  return 0;
}

}  // namespace

void add_serve(CLI::App& app, int& exit_code) {
  CLI::App& verb = *app.add_subcommand("serve", "Serve a model to OpenAI clients and browsers");
  auto flags = std::make_shared<ServeFlags>();
  add_model_argument(verb, flags->engine);
  add_serve_flags(verb, *flags);
  add_engine_flags(verb, flags->engine);
  verb.callback([flags, &exit_code] {
    const Result<int> ended = run_serve(*flags);
    exit_code = ended.ok() ? *ended : report(ended.status());
  });
}

}  // namespace quire::cli
