#include "quire/llm.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <boost/json.hpp>
#include <chrono>
#include <semaphore>
#include <utility>

#include "chat/pair_prompt.h"
#include "engine/observe/engine_stats.h"
#include "engine/output/similarity.h"
#include "facade/batch/request_batch.h"
#include "facade/model_bundle.h"
#include "facade/model_images.h"
#include "facade/running_llm.h"
#include "tokenizer/cut_text.h"

namespace quire {
namespace {

EngineArgs to_engine_args(const LLMOptions& options) {
  EngineArgs args;
  args.model = options.model;
  args.chat_template = options.chat_template;
  args.max_images = options.max_images;
  args.device = options.device;
  args.weight_cache_dir = options.cache_dir;
  args.dtype = options.dtype;
  args.kv_cache_dtype = options.kv_cache_dtype;
  args.isa = options.isa;
  args.num_threads = options.num_threads;
  args.block_size = options.block_size;
  args.engine.scheduler.max_model_len = options.max_model_len;
  args.engine.scheduler.max_num_seqs = options.max_num_seqs;
  args.engine.scheduler.max_num_batched_tokens = options.max_num_batched_tokens;
  args.engine.scheduler.step_time.max_step_us = int64_t{1000} * options.max_step_ms;
  args.engine.kv.enable_prefix_caching = options.enable_prefix_caching;
  if (options.kv_cache_bytes > 0) args.engine.kv_cache_bytes = options.kv_cache_bytes;
  if (options.num_kv_blocks > 0) args.engine.num_blocks = options.num_kv_blocks;
  args.lora = {.enabled = options.max_adapters > 0,
               .max_loras = options.max_adapters,
               .max_lora_rank = options.max_lora_rank};
  args.engine.log_interval_us = 0;
  args.on_progress = options.on_progress;
  return args;
}

// Adds a delta to the output of its request.
void append(OutputDelta delta, RequestOutput& output) {
  auto move_all = [](auto& from, auto& to) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  };
  move_all(delta.prompt_logprobs, output.prompt_logprobs);
  if (delta.choice_index == 0 && delta.num_cached_tokens > 0)
    output.num_cached_tokens = delta.num_cached_tokens;
  ChoiceOutput& choice = output.choices[static_cast<size_t>(delta.choice_index)];
  choice.text += delta.text;
  move_all(delta.token_ids, choice.token_ids);
  move_all(delta.logprobs, choice.logprobs);
  if (delta.finish_reason) {
    choice.finish_reason = to_string(*delta.finish_reason);
    choice.stop_reason = std::move(delta.stop_reason);
  }
}

// The prompt of one request: its tokens, and where the embeddings of images stand for them.
struct Prompt {
  std::vector<TokenId> token_ids;
  std::vector<MediaSpan> media{};
};

// Returns a message in the form for chat templates: images are parts before the text. `in_parts`:
// the text is a part too, since the template prints only parts (ModelChat::wants_parts).
boost::json::object template_message(const ChatMessage& message, bool in_parts) {
  if (message.images.empty() && !in_parts)
    return {{"role", message.role}, {"content", message.content}};
  boost::json::array parts(message.images.size(), boost::json::object{{"type", "image"}});
  parts.push_back(boost::json::object{{"type", "text"}, {"text", message.content}});
  return {{"role", message.role}, {"content", std::move(parts)}};
}

// The settings of one call for all of its requests.
struct Wish {
  const SamplingParams& params;
  const LLM::TextRule rule;
  std::shared_ptr<const Adapter> adapter = nullptr;
  int32_t num_choices = 1;  // or number of beams
  std::optional<BeamSearchParams> beam_search = {};
};

}  // namespace

struct LLM::Impl {
  RunningModel model;
  std::shared_ptr<const ImageInput> images = {};  // null: the model reads no images
  bool wants_parts = false;                       // the chat template wants parts

  // Returns the adapter of this name; null for an empty name.
  Result<std::shared_ptr<const Adapter>> find_adapter(const std::string& name) const {
    std::shared_ptr<const Adapter> adapter;
    if (name.empty()) return adapter;
    if (model.adapters != nullptr) adapter = model.adapters->find(name);
    if (adapter == nullptr)
      return not_found("there is no adapter '{}'; load_adapter() loads one", name);
    return adapter;
  }

  Result<std::string> render_chat(const std::vector<ChatMessage>& messages) const {
    if (!model.bundle.has_chat_template()) {
      return invalid_argument("{}: the model has no chat template; use generate",
                              model.bundle.name);
    }
    boost::json::array list;
    for (const ChatMessage& message : messages) {
      list.push_back(template_message(message, wants_parts));
    }
    return model.bundle.chat->render({.messages = std::move(list)});
  }

  Result<GenerationRequest> request_of(Prompt prompt, const Wish& wish) const {
    const auto prompt_len = static_cast<int64_t>(prompt.token_ids.size());
    const bool is_source = model.engine->model_info().media.text_source.any();
    if (!is_source && prompt_len >= model.max_model_len) {
      return invalid_argument("prompt: expected fewer than {} tokens (--max-model-len), got {}",
                              model.max_model_len, prompt_len);
    }
    GenerationRequest request;
    request.external_id = "llm";
    request.prompt_token_ids = std::move(prompt.token_ids);
    request.media = std::move(prompt.media);
    request.params = wish.params;
    if (request.params.eos_token_ids.empty())
      request.params.eos_token_ids = model.bundle.generation.eos_token_ids;
    request.num_choices = wish.num_choices;
    request.structured_outputs = wish.rule;
    request.adapter = wish.adapter;
    request.beam_search = wish.beam_search;
    request.arrival_us = model.engine->clock().now_us();
    return request;
  }

  static RequestOutput empty_output(std::vector<TokenId> prompt_token_ids, int32_t num_choices) {
    RequestOutput output;
    output.prompt_token_ids = std::move(prompt_token_ids);
    output.choices.resize(static_cast<size_t>(num_choices));
    for (int32_t i = 0; i < num_choices; ++i) output.choices[static_cast<size_t>(i)].index = i;
    return output;
  }

  static Result<RequestOutput> collect(RequestOutput output, OutputStream& stream) {
    while (auto delta = stream.pop()) {
      if (!delta->status.ok()) return delta->status;
      append(std::move(*delta), output);
    }
    return output;
  }

  // Runs all requests together, so that they share steps.
  Result<std::vector<RequestOutput>> run_all(const std::vector<std::string>& prompts,
                                             const Wish& wish) const {
    std::vector<RequestOutput> outputs;
    RequestBatch batch(*model.engine,
                       [&](size_t i, OutputDelta delta) { append(std::move(delta), outputs[i]); });
    for (const std::string& prompt : prompts) {
      QUIRE_ASSIGN_OR_RETURN(std::vector<TokenId> ids, encode(prompt, /*add_special_tokens=*/true));
      QUIRE_ASSIGN_OR_RETURN(const GenerationRequest request, request_of({ids}, wish));
      outputs.push_back(empty_output(std::move(ids), wish.num_choices));
      QUIRE_RETURN_IF_ERROR(batch.add(request));
    }
    QUIRE_RETURN_IF_ERROR(batch.finish());
    return outputs;
  }

  // Runs one request. It calls `on_text` for every piece of text, and often enough in between that
  // the caller can stop a long prompt.
  Result<RequestOutput> run_one(Prompt prompt, const Wish& wish, const OnText& on_text) const {
    constexpr std::chrono::milliseconds kPatience{50};
    // The engine's thread shares it, since it may call once more after the stream is destroyed.
    const auto news = std::make_shared<std::counting_semaphore<>>(0);
    QUIRE_ASSIGN_OR_RETURN(GenerationRequest request, request_of(prompt, wish));
    QUIRE_ASSIGN_OR_RETURN(const auto stream,
                           model.engine->submit(std::move(request), [news] { news->release(); }));
    RequestOutput output = empty_output(std::move(prompt.token_ids), 1);
    if (!on_text) return collect(std::move(output), *stream);
    while (!stream->done()) {
      auto delta = stream->try_pop();
      if (delta && !delta->status.ok()) return delta->status;
      const bool is_news = delta && !delta->text.empty();
      if ((is_news || !delta) && !on_text(is_news ? delta->text : std::string())) stream->abort();
      if (delta) append(std::move(*delta), output);
      if (!delta) (void)news->try_acquire_for(kPatience);
    }
    return output;
  }

  PoolingInfo pooling() const { return model.engine->model_info().pooling; }

  // Returns the text to put before the texts of a task.
  Result<std::string> instruction_of(const std::string& task) const {
    const SentenceTexts& texts = model.bundle.texts;
    if (task.empty()) return std::string(texts.by_default());
    for (NamedAdapter& one : tasks()) {
      if (one.name == task) return *std::move(one.instruction);
    }
    if (const std::string* prompt = texts.find(task)) return *prompt;
    const std::vector<std::string> known = task_names();
    return invalid_argument("task: expected {}, got '{}'",
                            known.empty() ? "none: the model has no tasks"
                                          : fmt::format("one of {}", fmt::join(known, ", ")),
                            task);
  }

  std::vector<NamedAdapter> tasks() const {
    return model.adapters == nullptr ? std::vector<NamedAdapter>() : model.adapters->tasks();
  }

  std::vector<std::string> task_names() const {
    std::vector<std::string> names;
    for (NamedAdapter& task : tasks()) names.push_back(std::move(task.name));
    for (const auto& [name, text] : model.bundle.texts.prompts) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
    return names;
  }

  GenerationRequest pooled_request(EncodedPair prompt, PoolingParams params,
                                   std::shared_ptr<const Adapter> adapter = nullptr) const {
    params.first_type_1_token = prompt.first_type_1_token;
    GenerationRequest request;
    request.external_id = "llm";
    request.prompt_token_ids = std::move(prompt.ids);
    request.kind = RequestKind::kPool;
    request.pooling = std::make_shared<const PoolingParams>(params);
    request.params.max_tokens = 0;
    request.adapter = std::move(adapter);
    request.arrival_us = model.engine->clock().now_us();
    return request;
  }

  // Returns the tokens of a text. A text that is too long is cut inside of the tokens that the
  // tokenizer puts around it.
  Result<EncodedPair> encode_cut(const std::string& text, bool truncate) const {
    QUIRE_ASSIGN_OR_RETURN(EncodedPair whole, encode_one(text));
    if (!truncate || std::ssize(whole.ids) <= model.max_model_len) return whole;
    QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> bare,
                           encode(text, /*add_special_tokens=*/false));
    QUIRE_ASSIGN_OR_RETURN(
        whole.ids, cut_text(std::move(whole.ids), bare, model.max_model_len, CutSide::kRight));
    return whole;
  }

  Result<EncodedPair> encode_one(const std::string& text) const {
    QUIRE_ASSIGN_OR_RETURN(std::vector<TokenId> ids, encode(text, /*add_special_tokens=*/true));
    return EncodedPair{.ids = std::move(ids)};
  }

  // Returns the embeddings of texts, with the task's text before each.
  Result<std::vector<std::vector<float>>> embed(const std::vector<std::string>& texts,
                                                const EmbedOptions& options) const {
    const PoolingParams params{.use_activation = options.normalize,
                               .dimensions = options.dimensions};
    const bool has_adapter = std::ranges::count(tasks(), options.task, &NamedAdapter::name) > 0;
    QUIRE_ASSIGN_OR_RETURN(const auto adapter, find_adapter(has_adapter ? options.task : ""));
    std::vector<std::vector<float>> rows(texts.size());
    RequestBatch batch(*model.engine, take_rows(rows));
    for (const std::string& text : texts) {
      QUIRE_ASSIGN_OR_RETURN(EncodedPair prompt, encode_cut(text, options.truncate));
      QUIRE_RETURN_IF_ERROR(batch.add(pooled_request(std::move(prompt), params, adapter)));
    }
    QUIRE_RETURN_IF_ERROR(batch.finish());
    return rows;
  }

  // Encodes a pair by the chat template if that writes pairs, or else by the tokenizer.
  Result<EncodedPair> encode_pair(const std::string& query, const std::string& document,
                                  bool truncate) const {
    const int64_t most = truncate ? model.max_model_len : 0;
    const ModelBundle& bundle = model.bundle;
    if (bundle.chat == nullptr || !bundle.chat->writes_pairs())
      return bundle.tokenizer->encode_pair(query, document, most);
    const PairCodec codec{
        .render =
            [&](boost::json::array messages) {
              return bundle.chat->render(
                  {.messages = std::move(messages),
                   .add_generation_prompt = bundle.texts.pairs_begin_answers});
            },
        .encode = [&](std::string_view text) { return encode(std::string(text), false); },
        .decode = [&](std::span<const TokenId> ids) { return bundle.tokenizer->decode(ids, {}); }};
    QUIRE_ASSIGN_OR_RETURN(
        std::vector<TokenId> ids,
        quire::encode_pair({.query = query, .document = document, .max_tokens = most}, codec));
    return EncodedPair{.ids = std::move(ids)};
  }

  // Returns what moves the result of each request of a batch to its row.
  static RequestBatch::Take take_rows(std::vector<std::vector<float>>& rows) {
    return [&rows](size_t i, OutputDelta delta) {
      if (delta.finish_reason) rows[i] = std::move(delta.pooled.values);
    };
  }

  Result<std::vector<InputImage>> load_images(const std::vector<ChatMessage>& messages) const {
    std::vector<InputImage> loaded;
    int64_t num_images = 0;
    for (const ChatMessage& message : messages) num_images += std::ssize(message.images);
    if (images != nullptr) QUIRE_RETURN_IF_ERROR(images->check_number(num_images));
    for (const ChatMessage& message : messages) {
      for (const std::string& file : message.images) {
        if (images == nullptr)
          return invalid_argument("{}: the model reads no images", model.bundle.name);
        QUIRE_ASSIGN_OR_RETURN(InputImage image, images->load_bytes(file));
        loaded.push_back(std::move(image));
      }
    }
    return loaded;
  }

  Result<Prompt> encode_chat(const std::vector<ChatMessage>& messages) const {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<InputImage> loaded, load_images(messages));
    QUIRE_ASSIGN_OR_RETURN(std::string text, render_chat(messages));
    if (images != nullptr) QUIRE_RETURN_IF_ERROR(images->write_out(loaded, text));
    Prompt prompt;
    QUIRE_ASSIGN_OR_RETURN(prompt.token_ids, encode(text, /*add_special_tokens=*/false));
    if (images != nullptr) {
      QUIRE_ASSIGN_OR_RETURN(prompt.media, images->place(loaded, prompt.token_ids));
    }
    return prompt;
  }

  Result<std::vector<TokenId>> encode(const std::string& text, bool add_special_tokens) const {
    if (model.bundle.tokenizer == nullptr) {
      return invalid_argument("{}: the model has no tokenizer", model.bundle.name);
    }
    return model.bundle.tokenizer->encode(text, {.add_special_tokens = add_special_tokens});
  }
};

LLM::LLM(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LLM::~LLM() = default;

Result<std::unique_ptr<LLM>> LLM::load(const LLMOptions& options) {
  return load_llm(to_engine_args(options));
}

Status LLM::load_adapter(const std::string& name, const std::string& path) {
  if (impl_->model.adapters == nullptr)
    return unimplemented("adapters: expected LLMOptions::max_adapters above 0, got 0");
  return impl_->model.adapters->load({name, path}, IfLoaded::kReplace);
}

Status LLM::unload_adapter(const std::string& name) {
  if (impl_->model.adapters == nullptr) return not_found("there is no adapter '{}'", name);
  return impl_->model.adapters->unload(name);
}

std::vector<std::string> LLM::adapters() const {
  std::vector<std::string> names;
  if (impl_->model.adapters == nullptr) return names;
  for (const LoadedAdapterInfo& loaded : impl_->model.adapters->list())
    names.push_back(loaded.source.name);
  return names;
}

Result<std::vector<RequestOutput>> LLM::generate(const std::vector<std::string>& prompts,
                                                 const SamplingParams& params, int32_t num_choices,
                                                 const TextRule& rule, const std::string& adapter) {
  QUIRE_ASSIGN_OR_RETURN(auto found, impl_->find_adapter(adapter));
  return impl_->run_all(prompts, Wish{params, rule, std::move(found), num_choices});
}

Result<std::vector<RequestOutput>> LLM::beam_search(const std::vector<std::string>& prompts,
                                                    int32_t beam_width,
                                                    const SamplingParams& params,
                                                    const BeamSearchParams& rule) {
  return impl_->run_all(prompts, Wish{params, {}, nullptr, beam_width, rule});
}

Result<RequestOutput> LLM::chat(const std::vector<ChatMessage>& messages,
                                const SamplingParams& params, const TextRule& rule,
                                const std::string& adapter) {
  return stream_chat(messages, params, nullptr, rule, adapter);
}

Result<RequestOutput> LLM::stream(const std::string& prompt, const SamplingParams& params,
                                  const OnText& on_text, const TextRule& rule,
                                  const std::string& adapter) {
  QUIRE_ASSIGN_OR_RETURN(auto found, impl_->find_adapter(adapter));
  QUIRE_ASSIGN_OR_RETURN(std::vector<TokenId> ids,
                         impl_->encode(prompt, /*add_special_tokens=*/true));
  return impl_->run_one({std::move(ids)}, {params, rule, std::move(found)}, on_text);
}

Result<RequestOutput> LLM::stream_chat(const std::vector<ChatMessage>& messages,
                                       const SamplingParams& params, const OnText& on_text,
                                       const TextRule& rule, const std::string& adapter) {
  QUIRE_ASSIGN_OR_RETURN(auto found, impl_->find_adapter(adapter));
  QUIRE_ASSIGN_OR_RETURN(Prompt prompt, impl_->encode_chat(messages));
  return impl_->run_one(std::move(prompt), {params, rule, std::move(found)}, on_text);
}

Result<std::vector<std::vector<float>>> LLM::embed(const std::vector<std::string>& texts,
                                                   const EmbedOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const std::string instruction, impl_->instruction_of(options.task));
  std::vector<std::string> prompts;
  prompts.reserve(texts.size());
  for (const std::string& text : texts) prompts.push_back(instruction + text);
  return impl_->embed(prompts, options);
}

Result<std::vector<float>> LLM::score(const std::string& query,
                                      const std::vector<std::string>& documents,
                                      const EmbedOptions& options) {
  const PoolingInfo pooling = impl_->pooling();
  std::vector<float> scores;
  if (pooling.embedding_size > 0) {
    const SentenceTexts& known = impl_->model.bundle.texts;
    const bool asked = !options.task.empty();
    QUIRE_ASSIGN_OR_RETURN(const std::string task, impl_->instruction_of(options.task));
    const std::string before_query = asked ? task : std::string(known.of_query());
    const std::string before_document = asked ? task : std::string(known.of_document());
    std::vector<std::string> texts = {before_query + query};
    for (const std::string& document : documents) texts.push_back(before_document + document);
    QUIRE_ASSIGN_OR_RETURN(const auto rows, impl_->embed(texts, options));
    for (size_t i = 1; i < rows.size(); ++i)
      scores.push_back(static_cast<float>(cosine_similarity(rows[0], rows[i])));
    return scores;
  }
  const auto& tokenizer = impl_->model.bundle.tokenizer;
  if (pooling.num_labels != 1 || tokenizer == nullptr) {
    return invalid_argument(
        "{}: scores need a model of embeddings or of one label, with a tokenizer",
        impl_->model.bundle.name);
  }
  std::vector<std::vector<float>> rows(documents.size());
  RequestBatch batch(*impl_->model.engine, Impl::take_rows(rows));
  for (const std::string& document : documents) {
    QUIRE_ASSIGN_OR_RETURN(EncodedPair pair, impl_->encode_pair(query, document, options.truncate));
    QUIRE_RETURN_IF_ERROR(batch.add(impl_->pooled_request(
        std::move(pair), {.task = PoolingTask::kClassify, .use_activation = options.normalize})));
  }
  QUIRE_RETURN_IF_ERROR(batch.finish());
  for (const std::vector<float>& row : rows) scores.push_back(row.empty() ? 0.0f : row[0]);
  return scores;
}

Result<std::vector<TokenId>> LLM::encode(const std::string& text) const {
  return impl_->encode(text, /*add_special_tokens=*/true);
}

Result<std::vector<TokenId>> LLM::encode_chat(const std::vector<ChatMessage>& messages) const {
  QUIRE_ASSIGN_OR_RETURN(Prompt prompt, impl_->encode_chat(messages));
  return std::move(prompt.token_ids);
}

std::string LLM::decode(const std::vector<TokenId>& token_ids) const {
  const auto& tokenizer = impl_->model.bundle.tokenizer;
  return tokenizer == nullptr ? std::string()
                              : tokenizer->decode(token_ids, {.skip_special_tokens = true});
}

SamplingParams LLM::default_params() const {
  const GenerationConfig& config = impl_->model.bundle.generation;
  SamplingParams params = with_defaults({}, config.sampling);
  params.eos_token_ids = config.eos_token_ids;
  params.max_tokens = config.sampling.max_tokens.value_or(impl_->model.max_model_len);
  return params;
}

LLMInfo LLM::info() const {
  const ModelBundle& bundle = impl_->model.bundle;
  const ReasoningStyle* const reasoning =
      bundle.chat == nullptr ? nullptr : bundle.chat->reply_format().reasoning;
  return {.name = bundle.name,
          .max_model_len = impl_->model.max_model_len,
          .has_tokenizer = bundle.tokenizer != nullptr,
          .has_chat_template = bundle.has_chat_template(),
          .reads_images = impl_->images != nullptr,
          .generates = impl_->model.engine->model_info().generates,
          .embedding_size = impl_->pooling().embedding_size,
          .num_labels = impl_->pooling().num_labels,
          .tasks = impl_->task_names(),
          .reasoning_style = reasoning == nullptr ? std::string() : reasoning->name};
}

LLMStats LLM::stats() const {
  const EngineStats stats = impl_->model.engine->stats();
  return {.num_requests_running = stats.num_requests_running,
          .num_requests_waiting = stats.num_requests_waiting,
          .prompt_tokens = stats.prompt_tokens,
          .generation_tokens = stats.generation_tokens,
          .num_preemptions = stats.num_preemptions,
          .prefix_cache_queries = stats.prefix_cache_queries,
          .prefix_cache_hits = stats.prefix_cache_hits,
          .num_kv_blocks = stats.num_kv_blocks,
          .num_kv_blocks_in_use = stats.kv_blocks_in_use,
          .step_us = stats.step_us,
          .step_bound_us = stats.step_bound_us};
}

// LLMFactory makes an LLM from a running model. It is a friend of LLM, so that load_llm() needs no
// public constructor.
struct LLMFactory {
  static std::unique_ptr<LLM> make(LLM::Impl impl) {
    return std::unique_ptr<LLM>(new LLM(std::make_unique<LLM::Impl>(std::move(impl))));
  }
};

Result<std::unique_ptr<LLM>> load_llm(const EngineArgs& args) {
  QUIRE_ASSIGN_OR_RETURN(RunningModel model, start_model(args));
  QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<const ImageInput> images,
                         image_input_of(model, {.max_images = args.max_images}));
  const bool wants_parts =
      images != nullptr && model.bundle.chat != nullptr && model.bundle.chat->wants_parts();
  return LLMFactory::make({std::move(model), std::move(images), wants_parts});
}

}  // namespace quire
