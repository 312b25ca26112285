#include "server/openai/prepare.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <memory>

#include "base/nearest_name.h"
#include "engine/adapters/adapter_registry.h"
#include "server/json/json_body.h"
#include "server/media/chat_images.h"
#include "server/openai/answer_rule.h"
#include "server/openai/chat_messages.h"
#include "server/openai/chunk_writer.h"
#include "server/openai/prompt_input.h"

namespace quire::server {
namespace {

namespace json = boost::json;

int32_t to_int32(int64_t x) {
  return static_cast<int32_t>(std::clamp<int64_t>(x, std::numeric_limits<int32_t>::min(),
                                                  std::numeric_limits<int32_t>::max()));
}

// Returns the largest number of tokens that this request may generate: the smallest of what the
// request, the model and the server allow. The engine limits it to the context.
int32_t resolve_max_tokens(const RequestFields& f, Endpoint endpoint,
                           const PrepareContext& context) {
  constexpr int32_t kCompletionsDefault = 16;
  std::optional<int64_t> asked = f.max_completion_tokens ? f.max_completion_tokens : f.max_tokens;
  if (!asked && endpoint == Endpoint::kCompletions) asked = kCompletionsDefault;
  int64_t limit = asked.value_or(std::numeric_limits<int32_t>::max());
  if (const auto model_max = context.model.defaults.max_tokens)
    limit = std::min<int64_t>(limit, *model_max);
  if (const auto server_max = context.options.max_tokens_override) {
    limit = std::min<int64_t>(limit, *server_max);
  }
  return to_int32(limit);
}

// Tokenizes each word as it stands at the start of a text and after a space. Byte-level tokenizers
// have different tokens for the two, and often a different number of them.
ApiCheck tokenize_bad_words(const std::vector<std::string>& words, const TextCodec& codec,
                            std::vector<std::vector<TokenId>>& out) {
  for (const std::string& word : words) {
    const size_t start = word.find_first_not_of(' ');
    const std::string stripped = start == std::string::npos ? "" : word.substr(start);
    std::optional<std::vector<TokenId>> plain;
    for (const std::string_view prefix : {"", " "}) {
      Result<std::vector<TokenId>> ids = codec.encode(std::string(prefix) + stripped, false);
      if (!ids.ok()) return from_status(ids.status());
      if (ids->empty()) {
        if (!plain) return field_error("bad_words", "expected words that have tokens");
        continue;
      }
      if (plain && *ids == *plain) continue;
      if (!plain) plain = *ids;
      out.push_back(std::move(ids).value());
    }
  }
  return std::nullopt;
}

ApiCheck resolve_token_lists(const RequestFields& f, const PrepareContext& context,
                             SamplingParams& p) {
  const int32_t vocab_size = context.model.vocab_size;
  for (const TokenId id : f.stop_token_ids) {
    if (id >= vocab_size) {
      return field_error("stop_token_ids",
                         fmt::format("expected token ids in [0, {}), got {}", vocab_size, id));
    }
  }
  p.stop_token_ids = f.stop_token_ids;
  p.eos_token_ids = context.model.eos_token_ids;
  p.logit_bias = f.logit_bias;
  p.allowed_token_ids = f.allowed_token_ids;
  p.stop = f.stop;
  return tokenize_bad_words(f.bad_words, *context.model.codec, p.bad_words);
}

void resolve_distribution(const RequestFields& f, const SamplingDefaults& defaults,
                          SamplingParams& p) {
  p = with_defaults(std::move(p), defaults);
  const auto ask = [](const std::optional<double>& asked, float& value) {
    if (asked) value = static_cast<float>(*asked);
  };
  ask(f.temperature, p.temperature);
  ask(f.top_p, p.top_p);
  ask(f.min_p, p.min_p);
  if (f.top_k) p.top_k = to_int32(*f.top_k);
  ask(f.repetition_penalty, p.repetition_penalty);
  ask(f.presence_penalty, p.presence_penalty);
  ask(f.frequency_penalty, p.frequency_penalty);
  if (p.greedy()) {
    p.temperature = 0.0f;
    p.top_p = 1.0f;
    p.top_k = 0;
    p.min_p = 0.0f;
  } else {
    p.temperature = std::max(p.temperature, SamplingParams::kMinTemperature);
  }
}

// The model's default penalties do not apply to a beam search. Penalties in the request itself are
// refused later.
void resolve_beam_search(const RequestFields& f, GenerationRequest& generation) {
  if (!f.use_beam_search.value_or(false)) return;
  generation.beam_search =
      BeamSearchParams{.length_penalty = static_cast<float>(f.length_penalty.value_or(1)),
                       .early_stopping = f.early_stopping};
  SamplingParams& p = generation.params;
  if (!f.repetition_penalty) p.repetition_penalty = 1;
  if (!f.presence_penalty) p.presence_penalty = 0;
  if (!f.frequency_penalty) p.frequency_penalty = 0;
}

void resolve_logprobs(const RequestFields& f, Endpoint endpoint, SamplingParams& p) {
  if (endpoint == Endpoint::kChat) {
    if (f.logprobs_wanted.value_or(false)) p.logprobs = to_int32(f.top_logprobs.value_or(0));
  } else if (f.logprobs_count) {
    p.logprobs = to_int32(*f.logprobs_count);
  }
  p.logprob_token_ids = f.logprob_token_ids;
  if (f.prompt_logprobs) {
    p.prompt_logprobs = to_int32(*f.prompt_logprobs);
  } else if (endpoint == Endpoint::kCompletions && f.echo.value_or(false)) {
    p.prompt_logprobs = p.logprobs;  // the echoed prompt has log-probabilities too
  }
}

json::object template_kwargs(const RequestFields& f, const PrepareContext& context) {
  json::object kwargs = context.options.default_chat_template_kwargs;
  if (f.reasoning_effort) {
    kwargs["reasoning_effort"] = *f.reasoning_effort;
    kwargs["enable_thinking"] = *f.reasoning_effort != "none";
  }
  for (const auto& [name, value] : f.chat_template_kwargs) kwargs[name] = value;
  return kwargs;
}

ApiResult<std::string> request_id_of(const HttpRequest& request, const RequestFields& f,
                                     const PrepareContext& context) {
  if (f.request_id) {
    if (!is_request_id(*f.request_id)) {
      return field_error("request_id", "expected 1 to 128 characters of A-Z a-z 0-9 . _ : -");
    }
    return *f.request_id;
  }
  const auto header = request.header("X-Request-Id");
  return header && is_request_id(*header) ? std::string(*header) : context.random_id;
}

ApiResult<int32_t> priority_of(const HttpRequest& request, const RequestFields& f,
                               const PrepareContext& context) {
  int64_t priority = f.priority.value_or(0);
  if (const auto header = request.header("X-Vllm-Priority"); header && !f.priority) {
    const auto [end, ec] =
        std::from_chars(header->data(), header->data() + header->size(), priority);
    if (ec != std::errc() || end != header->data() + header->size()) {
      return field_error("priority", "expected an integer in the X-Vllm-Priority header");
    }
  }
  if (priority != 0 && !context.options.priority_scheduling) {
    return field_error("priority", "expected 0: this server does not schedule by priority");
  }
  return to_int32(priority);
}

ApiResult<std::vector<PromptInfo>> chat_prompt(RequestFields& f, ResponseShape& shape,
                                               const PrepareContext& context) {
  ApiResult<RenderedChat> chat = render_chat(f, context);
  if (!chat.ok()) return chat.error();
  const ReplyFormat& format = context.options.reply_format;
  if (format.reasoning != nullptr) {
    const std::string_view continued =
        f.continue_final_message.value_or(false) ? chat.value().continued : std::string_view();
    shape.reply.starts_in_reasoning =
        starts_in_reasoning(*format.reasoning, chat.value().prompt, continued);
  }
  shape.role = chat.value().response_role;
  shape.chat_echo = chat.value().echo;
  Result<std::vector<TokenId>> ids =
      context.model.codec->encode(chat.value().prompt, f.add_special_tokens.value_or(false));
  if (!ids.ok()) return from_status(ids.status());
  std::vector<PromptInfo> prompts;
  prompts.push_back({std::move(ids).value(), std::move(chat.value().prompt)});
  const ChatImages& images = chat.value().images;
  if (!images.empty() && f.truncate_prompt_tokens)
    return field_error("truncate_prompt_tokens", "expected none with images, which cannot be cut");
  if (context.model.images != nullptr) {
    PromptInfo& prompt = prompts.front();
    ApiResult<std::vector<MediaSpan>> media =
        place_images(images, *context.model.images, prompt.token_ids);
    if (!media.ok()) return media.error();
    prompt.media = std::move(media).value();
  }
  return prompts;
}

bool wants_tool_calls(const RequestFields& f) {
  return !f.tools.empty() && f.tool_choice != ToolChoice::kNone;
}

// Warns the client that calls of this model cannot be told from text.
void warn_of_unread_tool_calls(const RequestFields& f, const PrepareContext& context,
                               std::string& warning) {
  if (!wants_tool_calls(f) || context.options.reply_format.dialect != nullptr) return;
  add_warning(
      "tools: the model's chat template tells no known format of tool calls, so that calls come "
      "as text (--tool-call-parser)",
      warning);
}

// Counts the calls in all messages.
int32_t count_calls(const json::array& messages) {
  size_t count = 0;
  for (const json::value& message : messages) {
    const auto* const object = message.if_object();
    const auto* const calls = object != nullptr ? object->if_contains("tool_calls") : nullptr;
    if (calls != nullptr && calls->is_array()) count += calls->get_array().size();
  }
  return to_int32(static_cast<int64_t>(count));
}

void shape_from_fields(const RequestFields& f, Endpoint endpoint, const PrepareContext& context,
                       ResponseShape& shape) {
  shape.endpoint = endpoint;
  shape.model = f.model.value_or(context.model.names.front());
  shape.created_s = context.created_s;
  shape.n = to_int32(f.n.value_or(1));
  shape.best_of = to_int32(f.best_of.value_or(shape.n));
  shape.stream = f.stream.value_or(false);
  shape.timings = f.return_timings.value_or(false);
  shape.include_usage =
      f.include_usage.value_or(false) || shape.timings || context.options.force_include_usage;
  shape.continuous_usage =
      shape.stream && shape.include_usage &&
      (f.continuous_usage_stats.value_or(false) || context.options.force_include_usage);
  shape.stream_interval =
      std::max(to_int32(f.stream_interval.value_or(1)), context.options.stream_interval);
  shape.tokens_as_ids =
      f.return_tokens_as_token_ids.value_or(context.options.return_tokens_as_token_ids);
  shape.return_token_ids = f.return_token_ids.value_or(false);
  shape.return_prompt_text = f.return_prompt_text.value_or(false);
  shape.echo = endpoint == Endpoint::kCompletions && f.echo.value_or(false);
  shape.has_prediction = f.prediction.has_value();
  shape.draft_metrics = context.options.per_request_spec_decode_metrics;
  shape.prompt_tokens_details = context.options.enable_prompt_tokens_details;
  shape.codec = context.model.codec;
  if (endpoint != Endpoint::kChat) return;
  ReplyShape& reply = shape.reply;
  reply.reads_calls = wants_tool_calls(f) && context.options.reply_format.dialect != nullptr;
  reply.syntax =
      reply.reads_calls ? context.model.reply_syntax : context.model.reply_syntax_without_calls;
  if (reply.reads_calls) reply.tools = std::make_shared<ToolTypes>(f.tools);
  reply.shows_special_tokens = !f.skip_special_tokens.value_or(true);
  reply.include_reasoning = f.include_reasoning.value_or(true);
  reply.parallel_tool_calls = f.parallel_tool_calls.value_or(true);
  reply.names_tool = f.tool_choice == ToolChoice::kNamed;
  reply.num_earlier_calls = count_calls(f.messages);
}

// Returns the text that echo repeats of a truncated prompt. It shows special tokens only where the
// prompt's text had them.
std::string text_of_cut_prompt(const PromptInfo& prompt, const TextCodec& codec) {
  std::string text = codec.decode(prompt.token_ids, true);
  if (prompt.text.find(text) != std::string::npos) return text;
  return codec.decode(prompt.token_ids, false);
}

ApiCheck check_length(const PromptInfo& prompt, const ServedModel& model) {
  const auto length = static_cast<int64_t>(prompt.token_ids.size());
  if (length == 0) return field_error("prompt", "expected at least one token, got an empty prompt");
  const bool is_source = model.max_source_len > 0;
  // The engine always generates one token.
  const int64_t room = is_source ? model.max_source_len : model.max_model_len - 1;
  if (length <= room) return std::nullopt;
  // Clients that cut their prompts and try again recognize the error by the first words of vLLM's
  // and OpenAI's message.
  ApiError error = api_error(
      400, fmt::format("This model's maximum context length is {} tokens, so a prompt has at most "
                       "{}; got {}",
                       is_source ? room : model.max_model_len, room, length));
  error.param = "input_tokens";
  return error;
}

// A KV handover belongs to one prompt.
ApiCheck check_handover(const RequestFields& f, const ResponseShape& shape) {
  const bool moves_kv = f.kv_transfer.hands_over || f.kv_transfer.handover != nullptr;
  if (!moves_kv || shape.prompts.size() == 1) return std::nullopt;
  return field_error("kv_transfer_params",
                     fmt::format("expected one prompt, got {}", shape.prompts.size()));
}

ApiCheck check_num_choices(const RequestFields& f, int32_t n, const ServerLimits& limits) {
  const bool list =
      f.prompt.is_array() && !f.prompt.get_array().empty() && !f.prompt.get_array()[0].is_number();
  const uint64_t num_prompts = list ? f.prompt.get_array().size() : 1;
  const uint64_t choices = num_prompts * static_cast<uint64_t>(n);
  if (choices <= limits.max_choices) return std::nullopt;
  return field_error(n > 1 ? "n" : "prompt", fmt::format("expected n x prompts <= {}, got {}",
                                                         limits.max_choices, choices));
}

// Every choice of a completion repeats the prompt's log-probabilities in the answer, before the
// check of the answer's size could count them.
ApiCheck check_prompt_logprobs(const ResponseShape& shape, const PrepareContext& context) {
  if (shape.stream || !shape.num_prompt_logprobs) return std::nullopt;
  constexpr uint64_t kEntryBytes =
      768;  // of a listed token, as JSON in memory; measured, rounded up
  const int32_t listed = *shape.num_prompt_logprobs;
  const auto entries = static_cast<uint64_t>((listed < 0 ? context.model.vocab_size : listed) + 1);
  const auto copies = static_cast<uint64_t>(shape.endpoint == Endpoint::kChat ? 1 : shape.n);
  uint64_t tokens = 0;
  for (const PromptInfo& prompt : shape.prompts) tokens += prompt.token_ids.size();
  const uint64_t bytes = tokens * copies * entries * kEntryBytes;
  const uint64_t most = context.options.limits.answer_bytes;
  if (bytes <= most) return std::nullopt;
  ApiError error = api_error(
      413, fmt::format("prompt_logprobs: {} log-probabilities of {} prompt tokens, in {} choices "
                       "each, take about {} MiB; this server holds {} MiB of an answer "
                       "(--max-answer-size)",
                       entries, tokens, copies, bytes >> 20, most >> 20));
  error.param = "prompt_logprobs";
  return error;
}

// Returns the tokens of the prediction, at most as many as an answer can have.
ApiResult<std::vector<TokenId>> tokenize_prediction(const std::string& text,
                                                    const PrepareContext& context) {
  Result<std::vector<TokenId>> ids = context.model.codec->encode(text, false);
  if (!ids.ok()) return from_status(ids.status());
  ids->resize(std::min(ids->size(), static_cast<size_t>(context.model.max_model_len)));
  return std::move(ids).value();
}

// The answer's grammar decides when the answer ends.
void drop_min_tokens(RequestFields& f, std::string& warning) {
  if (f.min_tokens.value_or(0) <= 0) return;
  add_warning("min_tokens has no effect: the answer's grammar says when it ends", warning);
  f.min_tokens.reset();
}

// Makes one engine request for each prompt.
ApiCheck build_requests(RequestFields& f, int32_t priority, const std::optional<AnswerRule>& rule,
                        const PrepareContext& context, PreparedCall& call) {
  if (rule) drop_min_tokens(f, call.warning);
  for (PromptInfo& prompt : call.shape.prompts) {
    if (truncate_prompt(f, context.model, prompt.token_ids)) {
      prompt.text = text_of_cut_prompt(prompt, *context.model.codec);
    }
    if (ApiCheck error = check_length(prompt, context.model)) return error;
    ApiResult<SamplingParams> params = resolve_sampling(f, call.shape.endpoint, context);
    if (!params.ok()) return params.error();
    call.shape.num_logprobs = params.value().logprobs;
    if (!params.value().logprob_token_ids.empty()) call.shape.num_logprobs = -1;  // all of them
    call.shape.num_prompt_logprobs = params.value().prompt_logprobs;
    GenerationRequest generation;
    generation.external_id = call.shape.id;
    if (f.max_tokens == 0) generation.kind = RequestKind::kPool;  // only the echoed prompt
    generation.prompt_token_ids = prompt.token_ids;
    generation.media = prompt.media;
    generation.params = std::move(params).value();
    if (f.prediction) {
      ApiResult<std::vector<TokenId>> ids = tokenize_prediction(*f.prediction, context);
      if (!ids.ok()) return ids.error();
      generation.params.prediction_token_ids = std::move(ids).value();
    }
    resolve_beam_search(f, generation);
    if (rule) generation.structured_outputs = rule_of_prompt(*rule, call.shape, context);
    ApiResult<std::optional<ReasoningBudget>> budget = reasoning_budget(f, call.shape, context);
    if (!budget.ok()) return budget.error();
    generation.reasoning_budget = std::move(budget).value();
    generation.num_choices = call.shape.best_of;
    // Choices are ranked by their log-probabilities, so the engine must return these.
    if (call.shape.best_of > call.shape.n && !generation.params.logprobs)
      generation.params.logprobs = 0;
    generation.wants_text_ends = call.shape.reply.syntax != nullptr;
    generation.priority = priority;
    generation.adapter = call.adapter;
    generation.hands_over_kv = f.kv_transfer.hands_over;
    generation.handover = f.kv_transfer.handover;
    generation.cache_keys.salt = f.cache_salt.value_or("");
    generation.arrival_us = context.arrival_us;
    if (context.options.request_timeout_ms) {
      generation.timeout_us = *context.options.request_timeout_ms * 1000;
    }
    call.requests.push_back(std::move(generation));
  }
  return check_prompt_logprobs(call.shape, context);
}

}  // namespace

bool is_request_id(std::string_view text) {
  return !text.empty() && text.size() <= 128 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == ':' || c == '-';
  });
}

namespace {

ApiError no_such_model(const std::string& model, const ServedModel& served) {
  std::vector<std::string> names = served.names;
  if (served.adapters != nullptr) {
    for (const LoadedAdapterInfo& adapter : served.adapters->list())
      names.push_back(adapter.source.name);
  }
  ApiError error = api_error(404, fmt::format("the model {} does not exist{}", in_quotes(model),
                                              did_you_mean(model, names)));
  error.param = "model";
  return error;
}

}  // namespace

ApiResult<std::shared_ptr<const Adapter>> find_adapter(const std::optional<std::string>& model,
                                                       const ServedModel& served) {
  if (!model || model->empty() || served.is_named(*model)) return std::shared_ptr<const Adapter>();
  if (served.adapters != nullptr) {
    if (std::shared_ptr<const Adapter> adapter = served.adapters->find(*model)) return adapter;
  }
  return no_such_model(*model, served);
}

ApiCheck check_model(const std::optional<std::string>& model, const ServedModel& served) {
  const ApiResult<std::shared_ptr<const Adapter>> adapter = find_adapter(model, served);
  return adapter.ok() ? std::nullopt : ApiCheck(adapter.error());
}

ApiResult<SamplingParams> resolve_sampling(const RequestFields& f, Endpoint endpoint,
                                           const PrepareContext& context) {
  SamplingParams p;
  p.max_tokens = resolve_max_tokens(f, endpoint, context);
  p.min_tokens = to_int32(f.min_tokens.value_or(0));
  resolve_distribution(f, context.model.defaults, p);
  resolve_logprobs(f, endpoint, p);
  if (f.seed) p.seed = static_cast<uint64_t>(*f.seed);
  if (f.num_speculative_tokens) p.num_speculative_tokens = to_int32(*f.num_speculative_tokens);
  p.ignore_eos = f.ignore_eos.value_or(false);
  p.include_stop_str_in_output = f.include_stop_str_in_output.value_or(false);
  p.skip_special_tokens = f.skip_special_tokens.value_or(true);
  p.spaces_between_special_tokens = f.spaces_between_special_tokens.value_or(true);
  if (ApiCheck error = resolve_token_lists(f, context, p)) return *error;
  const Status status = p.validate(context.model.vocab_size, context.options.max_logprobs);
  if (!status.ok()) return from_status(status);
  return p;
}

ApiResult<RenderedChat> render_chat(RequestFields& f, const PrepareContext& context) {
  if (!context.model.render_chat || (!context.model.has_chat_template && !f.chat_template)) {
    return api_error(400, "the model has no chat template; use /v1/completions or --chat-template");
  }
  if (f.chat_template && !context.options.trust_request_chat_template) {
    return field_error("chat_template",
                       "expected none: this server does not trust templates of requests "
                       "(--trust-request-chat-template)");
  }
  ApiResult<ChatMessages> messages =
      normalize_messages(std::move(f.messages), {.reads_images = context.model.images != nullptr,
                                                 .in_parts = context.model.chat_content_in_parts});
  if (!messages.ok()) return messages.error();
  ApiResult<ChatImages> images = load_images(messages.value().images, context.model.images.get());
  if (!images.ok()) return images.error();
  ChatRenderRequest request;
  request.messages = std::move(messages.value().messages);
  if (f.tool_choice != ToolChoice::kNone) request.tools = std::move(f.tools);
  request.documents = std::move(f.documents);
  request.continue_final_message = f.continue_final_message.value_or(false);
  request.add_generation_prompt =
      f.add_generation_prompt.value_or(true) && !request.continue_final_message;
  request.template_kwargs = template_kwargs(f, context);
  request.template_source = std::move(f.chat_template);
  Result<std::string> prompt = context.model.render_chat(request);
  if (!prompt.ok()) {
    // Every error of a template is an error about this conversation.
    return api_error(400, "chat template: " + prompt.status().message());
  }
  RenderedChat rendered;
  rendered.images = std::move(images).value();
  rendered.continued = messages.value().last_content;
  ApiResult<std::string> written =
      write_images_out(rendered.images, context.model.images.get(), std::move(prompt).value());
  if (!written.ok()) return written.error();
  rendered.prompt = std::move(written).value();
  rendered.response_role = request.add_generation_prompt ? "assistant" : messages.value().last_role;
  if (f.echo.value_or(false) && messages.value().last_role == rendered.response_role) {
    rendered.echo = messages.value().last_content;
  }
  return rendered;
}

ApiResult<PreparedCall> prepare_call(const HttpRequest& request, Endpoint endpoint,
                                     const PrepareContext& context) {
  ApiResult<json::object> body = parse_body(request, context.options.limits);
  if (!body.ok()) return body.error();
  ApiResult<ParsedFields> parsed =
      parse_fields(std::move(body).value(), endpoint, context.options.strict_fields);
  if (!parsed.ok()) return parsed.error();
  ApiResult<PreparedCall> call =
      prepare_fields(std::move(parsed).value(), request, endpoint,
                     endpoint == Endpoint::kChat ? "chatcmpl-" : "cmpl-", context);
  if (call.ok()) {
    call.value().writer = std::make_unique<ChunkWriter>(endpoint, call.value().shape.stream);
  }
  return call;
}

ApiResult<PreparedCall> prepare_fields(ParsedFields parsed, const HttpRequest& request,
                                       Endpoint endpoint, std::string_view id_prefix,
                                       const PrepareContext& context) {
  const ServerLimits& limits = context.options.limits;
  RequestFields& f = parsed.fields;
  ApiResult<std::shared_ptr<const Adapter>> adapter = find_adapter(f.model, context.model);
  if (!adapter.ok()) return adapter.error();

  PreparedCall call;
  call.adapter = std::move(adapter).value();
  call.warning = std::move(parsed.warning);
  if (endpoint == Endpoint::kChat) warn_of_unread_tool_calls(f, context, call.warning);
  shape_from_fields(f, endpoint, context, call.shape);
  const ApiResult<std::optional<AnswerRule>> rule = answer_rule(f, context, call.warning);
  if (!rule.ok()) return rule.error();
  // The markers by which a reply is parsed are special tokens in most vocabularies. The parser
  // leaves the other special tokens out.
  if (call.shape.reply.syntax != nullptr) f.skip_special_tokens = false;
  ApiResult<std::string> id = request_id_of(request, f, context);
  if (!id.ok()) return id.error();
  call.shape.id = std::string(id_prefix) + id.value();
  ApiResult<int32_t> priority = priority_of(request, f, context);
  if (!priority.ok()) return priority.error();
  if (ApiCheck error = check_num_choices(f, call.shape.best_of, limits)) return *error;

  ApiResult<std::vector<PromptInfo>> prompts =
      endpoint == Endpoint::kChat ? chat_prompt(f, call.shape, context)
                                  : read_prompts(f.prompt, f.add_special_tokens.value_or(true),
                                                 context.model, limits.max_prompts);
  if (!prompts.ok()) return prompts.error();
  call.shape.prompts = std::move(prompts).value();
  if (ApiCheck error = check_handover(f, call.shape)) return *error;
  if (ApiCheck error = build_requests(f, priority.value(), rule.value(), context, call)) {
    return *error;
  }
  return call;
}

}  // namespace quire::server
