#include "server/route_runner.h"

#include <chrono>
#include <exception>
#include <utility>

#include "base/log.h"
#include "engine/async_engine.h"
#include "server/gate.h"
#include "server/generation/background_calls.h"
#include "server/generation/generation_call.h"
#include "server/http/auth.h"
#include "server/keys/key_book.h"
#include "server/models/requested_model.h"
#include "server/openai/logprob_format.h"
#include "server/pages/engine_control.h"
#include "server/pooling/pooling_call.h"
#include "server/responses/response_store.h"
#include "server/speech/transcription_call.h"
#include "server/telemetry/request_span.h"

namespace quire::server {
namespace {

void refuse(const Door& door, const ApiError& error, const HeaderList& headers,
            ReplyChannel& reply) {
  HttpResponse response = door.refuse(error);
  append_headers(response, headers);
  reply.send(std::move(response));
}

std::shared_ptr<void> ongoing_guard(const ServerState& state, ModelUse hosted,
                                    std::shared_ptr<KeyUse> use) {
  state.num_ongoing->fetch_add(1);
  return {nullptr, [count = state.num_ongoing, hosted = std::move(hosted),
                    use = std::move(use)](void*) mutable {
            use.reset();
            hosted.reset();
            count->fetch_sub(1);
          }};
}

// Returns the model in memory that was used last; null: none is in memory.
const ModelStatus* latest_used(const std::vector<ModelStatus>& all) {
  const ModelStatus* latest = nullptr;
  for (const ModelStatus& status : all) {
    if (status.loaded == nullptr) continue;
    if (latest == nullptr || status.last_use_us > latest->last_use_us) latest = &status;
  }
  return latest;
}

}  // namespace

RouteRunner::RouteRunner(const ServerOptions& options, ServerState& state, WorkerPool& workers)
    : options_(options),
      state_(state),
      workers_(workers),
      no_model_(std::make_shared<const HostedModel>(HostedModel{{}, options})),
      held_answer_bytes_(std::make_shared<std::atomic<uint64_t>>(0)),
      responses_(std::make_shared<ResponseStore>(options.limits.response_store_bytes,
                                                 options.limits.response_ttl_s * 1'000'000)),
      background_(std::make_shared<BackgroundCalls>()) {}

void RouteRunner::run(const Route& route, HttpRequest request, HeaderList headers,
                      std::shared_ptr<ReplyChannel> reply) {
  ModelUse hosted = state_.models->only();
  if (hosted == nullptr && route.model == RouteModel::kNone) hosted = no_model_;
  if (hosted == nullptr)
    return find_model(route, std::move(request), std::move(headers), std::move(reply));
  run_on(std::move(hosted), route, std::move(request), std::move(headers), std::move(reply));
}

void RouteRunner::find_model(const Route& route, HttpRequest request, HeaderList headers,
                             std::shared_ptr<ReplyChannel> reply) {
  auto shared = std::make_shared<HttpRequest>(std::move(request));  // std::function copies
  if (shared->body.size() <= options_.limits.inline_body_bytes)
    return acquire(route, requested_model(*shared), shared, std::move(headers), std::move(reply));
  on_worker(route.door, reply, headers,
            [this, &route, shared, headers, reply]() -> std::function<void()> {
              return [this, &route, name = requested_model(*shared), shared, headers, reply] {
                acquire(route, name, shared, headers, reply);
              };
            });
}

void RouteRunner::acquire(const Route& route, const std::string& name,
                          std::shared_ptr<HttpRequest> request, HeaderList headers,
                          std::shared_ptr<ReplyChannel> reply) {
  if (name.empty()) {
    const std::vector<ModelStatus> all = state_.models->list();
    const bool works = route.kind == RouteKind::kWork;
    if (works && all.size() != 1) {
      return refuse(route.door,
                    field_error("model", fmt::format("expected one of the {} models of this server "
                                                     "(/v1/models), got none",
                                                     all.size())),
                    headers, *reply);
    }
    // A request that only asks about a model does not use it, so its keep-alive time is not
    // extended.
    if (const ModelStatus* const latest = works ? nullptr : latest_used(all)) {
      return run_on(latest->loaded, route, std::move(*request), std::move(headers),
                    std::move(reply));
    }
  }
  // Ollama's clients add a tag to names that have none.
  const bool has_tag = route.path.starts_with("/api/") && name.ends_with(":latest");
  state_.models->acquire(
      has_tag ? name.substr(0, name.rfind(':')) : name,
      [this, &route, request = std::move(request), headers = std::move(headers), reply,
       post = reply->poster()](ApiResult<ModelUse> found) {
        post([this, &route, request, headers, reply, found = std::move(found)]() mutable {
          if (!found.ok()) return refuse(route.door, found.error(), headers, *reply);
          ModelUse hosted = std::move(found).value();
          if (ApiCheck error = check_serves(route, hosted->model))
            return refuse(route.door, *error, headers, *reply);
          run_on(std::move(hosted), route, std::move(*request), std::move(headers), reply);
        });
      });
}

void RouteRunner::run_on(ModelUse hosted, const Route& route, HttpRequest request,
                         HeaderList headers, std::shared_ptr<ReplyChannel> reply) {
  const int64_t arrival_us = state_.models->clock().now_us();
  if (route.mode == RouteMode::kDoor) {
    return route.door.serve(request, context(*hosted, arrival_us), std::move(headers),
                            std::move(reply));
  }
  const bool calls_engine = route.mode == RouteMode::kGeneration ||
                            route.mode == RouteMode::kSpeech || route.mode == RouteMode::kPooling;
  if (!calls_engine) {
    return answer(std::move(hosted), route, std::move(request), std::move(headers),
                  std::move(reply));
  }
  Entry entry{.hosted = std::move(hosted), .headers = std::move(headers), .arrival_us = arrival_us};
  const bool exports = state_.exporter != nullptr && state_.exporter->wants_spans();
  if (exports || options_.log_requests) entry.trace = trace_of(request);
  if (const ApiCheck error = enter(request, entry))
    return refuse(route.door, *error, entry.headers, *reply);
  const auto call = route.mode == RouteMode::kPooling ? &RouteRunner::pool : &RouteRunner::generate;
  (this->*call)(route, std::move(request), std::move(entry), std::move(reply));
}

ApiCheck RouteRunner::enter(HttpRequest& request, Entry& entry) const {
  if (auto report = load_report(request, *entry.hosted->model.engine)) {
    entry.headers.emplace_back("endpoint-load-metrics", std::move(*report));
  }
  if (const auto account = state_.keys == nullptr ? nullptr : state_.keys->find(key_of(request))) {
    if (const auto priority = account->priority(); priority && !request.header("X-Vllm-Priority")) {
      request.headers.emplace_back("X-Vllm-Priority", std::to_string(*priority));
    }
    ApiResult<std::shared_ptr<KeyUse>> use = account->enter(entry.arrival_us, entry.headers);
    if (!use.ok()) return use.error();
    entry.use = std::move(use).value();
  }
  entry.ongoing = ongoing_guard(state_, entry.hosted, entry.use);
  return std::nullopt;
}

// A large body would hold up the other connections of the thread. So would a template in the
// request, whose size says nothing about its work.
bool RouteRunner::on_io_thread(const Route& route, const HttpRequest& request) const {
  if (route.mode == RouteMode::kInline) return true;
  if (route.mode == RouteMode::kWorker || route.mode == RouteMode::kSpeech) return false;
  const bool may_bring_template =
      options_.trust_request_chat_template && route.path != "/v1/completions";
  return !may_bring_template && request.body.size() <= options_.limits.inline_body_bytes;
}

void RouteRunner::on_worker(const Door& door, const std::shared_ptr<ReplyChannel>& reply,
                            const HeaderList& headers,
                            std::function<std::function<void()>()> work) {
  const bool queued = workers_.try_post([post = reply->poster(), work = std::move(work)] {
    try {
      post(work());
    } catch (...) {  // the connection handles it on its strand
      post([failure = std::current_exception()] { std::rethrow_exception(failure); });
    }
  });
  if (queued) return;
  ApiError error = api_error(429, "too many large requests are being read; try again");
  error.retry_after_s = 1;
  refuse(door, error, headers, *reply);
}

template <typename Prepare, typename Proceed>
void RouteRunner::prepare_then(const Route& route, HttpRequest request, const HeaderList& headers,
                               const std::shared_ptr<ReplyChannel>& reply, Prepare prepare,
                               Proceed proceed) {
  if (on_io_thread(route, request)) return proceed(prepare(request));
  auto shared = std::make_shared<HttpRequest>(std::move(request));  // std::function copies
  on_worker(route.door, reply, headers, [prepare, proceed, shared]() -> std::function<void()> {
    auto prepared = std::make_shared<decltype(prepare(*shared))>(prepare(*shared));
    return [proceed, prepared] { proceed(std::move(*prepared)); };
  });
}

void RouteRunner::answer(ModelUse hosted, const Route& route, HttpRequest request,
                         HeaderList headers, std::shared_ptr<ReplyChannel> reply) {
  const auto respond = [this, &route, hosted = std::move(hosted)](const HttpRequest& r) {
    return route.door.answer(r, context(*hosted, 0));
  };
  prepare_then(route, std::move(request), headers, reply, respond,
               [headers, reply](HttpResponse response) {
                 append_headers(response, headers);
                 reply->send(std::move(response));
               });
}

PrepareContext RouteRunner::context(const HostedModel& hosted, int64_t arrival_us) const {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {hosted.options, hosted.model,
          arrival_us,     std::chrono::duration_cast<std::chrono::seconds>(now).count(),
          random_id(),    responses_,
          &state_};
}

void RouteRunner::warn_rarely(const PreparedCall& call) {
  // At most one line is logged per second, so that a client that always sends the same field does
  // not fill the log.
  const int64_t now_s = call.shape.created_s;
  if (last_warning_s_.exchange(now_s) == now_s) return;
  log_warn("{}: {}", call.shape.id, call.warning);
}

void RouteRunner::generate(const Route& route, HttpRequest request, Entry entry,
                           std::shared_ptr<ReplyChannel> reply) {
  const Door& door = route.door;
  // The entry is moved into the function that runs after the preparation.
  const HeaderList headers = entry.headers;
  const ModelUse hosted = entry.hosted;
  const int64_t arrival_us = entry.arrival_us;
  prepare_then(
      route, std::move(request), headers, reply,
      [this, &door, hosted, arrival_us](const HttpRequest& r) {
        return door.prepare(r, context(*hosted, arrival_us));
      },
      [this, &door, entry = std::move(entry), reply](ApiResult<PreparedCall> prepared) {
        if (!prepared.ok()) return refuse(door, prepared.error(), entry.headers, *reply);
        if (std::optional<HttpResponse>& at_once = prepared.value().at_once) {
          append_headers(*at_once, entry.headers);
          return reply->send(std::move(*at_once));
        }
        call_engine(std::move(prepared).value(), entry, reply);
      });
}

// Returns a function that charges the request's key for tokens and builds its span; empty: nobody
// asks for either.
std::function<void(const OutputDelta&)> RouteRunner::watcher_of(const PreparedCall& prepared,
                                                                const Entry& entry) const {
  const Clock& clock = state_.models->clock();
  std::function<void(const OutputDelta&)> charge, span;
  if (entry.use != nullptr) {
    for (const GenerationRequest& r : prepared.requests) {
      entry.use->charge(KeyUse::kPrompt, std::ssize(r.prompt_token_ids), clock.now_us());
    }
    charge = [use = entry.use, &clock](const OutputDelta& delta) {
      use->charge(KeyUse::kOutput, std::ssize(delta.token_ids), clock.now_us());
    };
  }
  if (prepared.speech != nullptr) {
    span = span_of(entry,
                   [&] { return facts_of(*prepared.speech, entry.hosted->model.names.front()); });
  } else if (!prepared.requests.empty()) {
    span = span_of(entry, [&] { return facts_of(prepared); });
  }
  if (charge == nullptr || span == nullptr) return charge != nullptr ? charge : span;
  return [charge, span](const OutputDelta& delta) {
    charge(delta);
    span(delta);
  };
}

template <typename Facts>
std::function<void(const OutputDelta&)> RouteRunner::span_of(const Entry& entry,
                                                             Facts facts) const {
  const bool exports = entry.trace && entry.trace->is_sampled && state_.exporter != nullptr &&
                       state_.exporter->wants_spans();
  if (!entry.trace || (!exports && !options_.log_requests)) return {};
  const auto take = [exporter = exports ? state_.exporter : nullptr,
                     logs = options_.log_requests](Span span) {
    if (logs) log_span(span);
    if (exporter != nullptr) exporter->add(std::move(span));
  };
  return trace_work(take, *entry.trace, facts(), state_.models->clock());
}

void RouteRunner::call_engine(PreparedCall prepared, Entry entry,
                              std::shared_ptr<ReplyChannel> reply) {
  // `options.ongoing` holds the model until the answer has ended.
  AsyncEngine& engine = *entry.hosted->model.engine;
  GenerationCall::Options options{std::move(entry.headers), std::move(entry.ongoing),
                                  options_.limits, held_answer_bytes_};
  options.on_delta = watcher_of(prepared, entry);
  if (!prepared.warning.empty()) {
    options.headers.emplace_back(kWarningHeader, prepared.warning);
    warn_rarely(prepared);
  }
  if (prepared.speech != nullptr) {
    TranscriptionCall::run(std::move(reply), std::move(prepared.speech), engine,
                           std::move(options));
  } else if (prepared.detached != nullptr) {
    background_->run(std::move(reply), std::move(prepared), engine, std::move(options));
  } else {
    GenerationCall::run(std::move(reply), std::move(prepared), engine, std::move(options));
  }
}

void RouteRunner::pool(const Route& route, HttpRequest request, Entry entry,
                       std::shared_ptr<ReplyChannel> reply) {
  // The entry is moved into the function that runs after the preparation.
  const HeaderList headers = entry.headers;
  const ModelUse hosted = entry.hosted;
  const int64_t arrival_us = entry.arrival_us;
  prepare_then(
      route, std::move(request), headers, reply,
      [this, hosted, arrival_us](const HttpRequest& r) {
        return prepare_pooling(r, context(*hosted, arrival_us));
      },
      [this, &door = route.door, entry = std::move(entry),
       reply](ApiResult<PreparedPooling> prepared) {
        if (!prepared.ok()) return refuse(door, prepared.error(), entry.headers, *reply);
        if (entry.use != nullptr) {
          entry.use->charge(KeyUse::kPrompt, prepared.value().num_prompt_tokens,
                            state_.models->clock().now_us());
        }
        const ServedModel& model = entry.hosted->model;
        PoolingCall::Options options{entry.headers, entry.ongoing, model.labels, door.refuse};
        options.on_delta = span_of(entry, [&] { return facts_of(prepared.value()); });
        if (!prepared.value().warning.empty())
          options.headers.emplace_back(kWarningHeader, prepared.value().warning);
        PoolingCall::run(reply, std::move(prepared).value(), *model.engine, std::move(options));
      });
}

}  // namespace quire::server
