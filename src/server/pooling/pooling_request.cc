#include "server/pooling/pooling_request.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <optional>
#include <utility>

#include "chat/pair_prompt.h"
#include "engine/adapters/adapter_registry.h"
#include "engine/async_engine.h"
#include "server/json/json_body.h"
#include "server/json/json_members.h"
#include "server/ollama/ollama_request.h"
#include "server/openai/prompt_input.h"
#include "tokenizer/cut_text.h"

namespace quire::server {
namespace {

namespace json = boost::json;

// The fields of all pooling routes, including those that are accepted without effect.
constexpr std::string_view kNames[] = {"model",
                                       "input",
                                       "user",
                                       "request_id",
                                       "priority",
                                       "cache_salt",
                                       "add_special_tokens",
                                       "truncate_prompt_tokens",
                                       "truncation_side",
                                       "encoding_format",
                                       "dimensions",
                                       "normalize",
                                       "use_activation",
                                       "task",
                                       "prompt_name",
                                       "instruction",
                                       "texts",
                                       "inputs",
                                       "input_type",
                                       "output_dimension",
                                       "embedding_types",
                                       "truncate",
                                       "max_tokens",
                                       "text_1",
                                       "text_2",
                                       "data_1",
                                       "data_2",
                                       "queries",
                                       "items",
                                       "query",
                                       "documents",
                                       "top_n",
                                       "return_documents",
                                       "keep_alive",
                                       "options"};

// Returns null when the field is absent or null.
const json::value* find_field(const json::object& body, std::string_view name) {
  const json::value* const value = body.if_contains(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

// Returns the prompt that goes before texts, for a model whose files name prompts. It is chosen by
// the name in the request, by Cohere's input_type, or else it is the default.
ApiResult<std::string> read_prompt(const json::object& body, const SentenceTexts& texts) {
  const json::value* wanted = find_field(body, "prompt_name");
  if (wanted == nullptr) wanted = find_field(body, "task");
  if (wanted != nullptr) {
    const std::string* const prompt =
        wanted->is_string() ? texts.find(std::string_view(wanted->get_string())) : nullptr;
    if (prompt != nullptr) return *prompt;
    std::string list;
    for (const auto& [name, text] : texts.prompts)
      list.append(list.empty() ? "one of " : ", ").append(name);
    const std::string got =
        wanted->is_string() ? in_quotes(wanted->get_string()) : std::string(describe(*wanted));
    return field_error("prompt_name", fmt::format("expected {}, got {}", list, got));
  }
  const json::value* const type = find_field(body, "input_type");
  const std::string_view use =
      type != nullptr && type->is_string() ? std::string_view(type->get_string()) : "";
  if (const std::string* const named = texts.find(use)) return *named;
  if (use == "search_query") return std::string(texts.of_query());
  return std::string(use == "search_document" ? texts.of_document() : texts.by_default());
}

// Returns the instruction for a reranker whose pairs are written as a chat.
ApiResult<std::string> read_instruction(const json::object& body, const ServedModel& model) {
  const json::value* const instruction = find_field(body, "instruction");
  if (instruction == nullptr) return std::string();
  if (!model.pairs_are_chats) return unsupported_field("instruction", "this model reads none");
  if (instruction->is_string()) return std::string(instruction->get_string());
  return field_error("instruction",
                     fmt::format("expected a string, got {}", describe(*instruction)));
}

// Encodes a pair with the tokenizer or with the model's chat template.
Result<EncodedPair> encode_pair_for(const ServedModel& model, const TextPair& pair) {
  if (!model.pairs_are_chats)
    return model.codec->encode_pair(pair.query, pair.document, pair.max_tokens);
  const PairCodec codec{
      .render =
          [&](json::array messages) {
            return model.render_chat({.messages = std::move(messages),
                                      .add_generation_prompt = model.texts.pairs_begin_answers});
          },
      .encode = [&](std::string_view text) { return model.codec->encode(text, false); },
      .decode = [&](std::span<const TokenId> ids) { return model.codec->decode(ids, false); }};
  QUIRE_ASSIGN_OR_RETURN(std::vector<TokenId> ids, encode_pair(pair, codec));
  return EncodedPair{.ids = std::move(ids)};
}

class Preparation {
 public:
  Preparation(const json::object& body, PoolingRoute route, const PrepareContext& context)
      : body_(body), context_(context), info_(context.model.engine->model_info().pooling) {
    call_.route = route;
  }

  ApiResult<PreparedPooling> run() {
    if (ApiCheck error = read_common()) return *error;
    ApiCheck error;
    switch (call_.route) {
      case PoolingRoute::kEmbeddings:
      case PoolingRoute::kPooling:
      case PoolingRoute::kClassify:
        error = read_inputs();
        break;
      case PoolingRoute::kCohereEmbed:
        error = read_cohere();
        break;
      case PoolingRoute::kScore:
        error = read_score();
        break;
      case PoolingRoute::kRerank:
        error = read_rerank();
        break;
      case PoolingRoute::kOllamaEmbed:
        error = read_ollama();
        break;
    }
    if (error) return *error;
    return std::move(call_);
  }

 private:
  const json::value* find(std::string_view name) const { return find_field(body_, name); }

  ApiCheck read_flag(std::string_view name, bool& out) const {
    return server::read_flag(body_, name, out);
  }

  ApiCheck read_integer(std::string_view name, int64_t min, int64_t max,
                        std::optional<int64_t>& out) const {
    const json::value* const value = find(name);
    if (value == nullptr) return std::nullopt;
    if (!value->is_int64() || value->get_int64() < min || value->get_int64() > max) {
      return field_error(
          name, fmt::format("expected an integer in [{}, {}], got {}", min, max, describe(*value)));
    }
    out = value->get_int64();
    return std::nullopt;
  }

  // Reads one of `choices` and returns its index.
  ApiCheck read_choice(std::string_view name, std::span<const std::string_view> choices,
                       std::optional<size_t>& out) const {
    const json::value* const value = find(name);
    if (value == nullptr) return std::nullopt;
    std::string list;
    for (size_t i = 0; i < choices.size(); ++i) {
      if (value->is_string() && std::string_view(value->get_string()) == choices[i]) {
        out = i;
        return std::nullopt;
      }
      list.append(i == 0 ? "" : ", ").append(choices[i]);
    }
    return field_error(
        name, fmt::format("expected one of {}, got {}", list,
                          value->is_string() ? in_quotes(value->get_string()) : describe(*value)));
  }

  ApiCheck read_common() {
    UnknownFields unknown(context_.options.strict_fields);
    for (const auto& member : body_) {
      const std::string_view name{member.key().data(), member.key().size()};
      if (std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames)) continue;
      if (ApiCheck error = unknown.add(name)) return error;
    }
    call_.warning = unknown.warning();
    if (const json::value* const model = find("model")) {
      if (!model->is_string())
        return field_error("model", fmt::format("expected a string, got {}", describe(*model)));
      const std::string name = model_name(*model);
      ApiResult<std::shared_ptr<const Adapter>> adapter = find_adapter(name, context_.model);
      if (!adapter.ok()) return adapter.error();
      adapter_ = std::move(adapter).value();
    }
    call_.model = adapter_ == nullptr ? context_.model.names.front() : adapter_->name;
    call_.created_s = context_.created_s;
    constexpr std::array kIds = {"embd", "embd", "pool", "classify", "score", "rerank", "embd"};
    call_.id = fmt::format("{}-{}", kIds[static_cast<size_t>(call_.route)], context_.random_id);
    if (ApiCheck error = read_flag("add_special_tokens", add_special_tokens_)) return error;
    if (ApiCheck error = read_flag("normalize", params_.use_activation)) return error;
    if (ApiCheck error = read_flag("use_activation", params_.use_activation)) return error;
    if (ApiCheck error = read_integer("truncate_prompt_tokens", -1, 1 << 24, truncate_))
      return error;
    if (ApiCheck error = read_choice("truncation_side", kSides, side_)) return error;
    if (const json::value* const salt = find("cache_salt"); salt && salt->is_string())
      cache_salt_ = salt->get_string();
    return read_task();
  }

  std::string model_name(const json::value& model) const {
    std::string name(model.get_string());
    return call_.route == PoolingRoute::kOllamaEmbed
               ? ollama_model_name(std::move(name), context_.model)
               : name;
  }

  // Returns the task that Cohere's input_type stands for, for models that are trained for several
  // tasks.
  static std::string_view task_of(std::string_view input_type) {
    constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
        {"search_query", "retrieval.query"},
        {"search_document", "retrieval.passage"},
        {"classification", "classification"},
        {"clustering", "separation"}};
    for (const auto& [type, task] : kTypes) {
      if (type == input_type) return task;
    }
    return {};
  }

  // Reads the task that embeddings are for, and finds its adapter.
  ApiCheck read_embedding_task() {
    const std::vector<NamedAdapter> tasks = context_.model.adapters == nullptr
                                                ? std::vector<NamedAdapter>()
                                                : context_.model.adapters->tasks();
    if (tasks.empty() && !context_.model.texts.prompts.empty()) {
      ApiResult<std::string> prompt = read_prompt(body_, context_.model.texts);
      if (!prompt.ok()) return prompt.error();
      instruction_ = std::move(prompt).value();
      return std::nullopt;
    }
    const json::value* const wanted = find("task");
    const json::value* const type = find("input_type");
    std::string_view name;
    if (wanted != nullptr) {
      if (wanted->is_string()) name = wanted->get_string();
    } else if (adapter_ != nullptr) {
      name = adapter_->name;
    } else if (type != nullptr && type->is_string()) {
      name = task_of(type->get_string());
    }
    const auto task = std::ranges::find(tasks, name, &NamedAdapter::name);
    if (task == tasks.end()) {
      if (wanted == nullptr) return std::nullopt;
      std::string list = tasks.empty() ? "none: the model has no tasks" : "one of";
      for (const NamedAdapter& one : tasks)
        list.append(&one == tasks.data() ? " " : ", ").append(one.name);
      return field_error("task",
                         fmt::format("expected {}, got {}", list,
                                     wanted->is_string() ? in_quotes(name) : describe(*wanted)));
    }
    if (adapter_ != nullptr && adapter_->name != name) {
      return field_error("task", fmt::format("expected the task of model {}, got {}",
                                             in_quotes(adapter_->name), in_quotes(name)));
    }
    ApiResult<std::shared_ptr<const Adapter>> adapter =
        find_adapter(std::string(name), context_.model);
    if (!adapter.ok()) return adapter.error();
    adapter_ = std::move(adapter).value();
    instruction_ = *task->instruction;
    return std::nullopt;
  }

  ApiCheck read_task() {
    params_.task = info_.embedding_size > 0 ? PoolingTask::kEmbed : PoolingTask::kClassify;
    const bool embeds = call_.route == PoolingRoute::kEmbeddings ||
                        call_.route == PoolingRoute::kCohereEmbed ||
                        call_.route == PoolingRoute::kOllamaEmbed;
    if (embeds) {
      params_.task = PoolingTask::kEmbed;
      if (ApiCheck error = read_embedding_task()) return error;
    }
    if (call_.route == PoolingRoute::kClassify) params_.task = PoolingTask::kClassify;
    if (call_.route == PoolingRoute::kPooling) {
      std::optional<size_t> task;
      if (ApiCheck error = read_choice("task", kTasks, task)) return error;
      if (task) params_.task = static_cast<PoolingTask>(*task);
    }
    if (!info_.supports(params_.task)) {
      return api_error(400, fmt::format("the model {} has no {}", in_quotes(call_.model),
                                        is_classification(params_.task) ? "labels" : "embeddings"));
    }
    std::optional<int64_t> dimensions;
    const char* const name =
        call_.route == PoolingRoute::kCohereEmbed ? "output_dimension" : "dimensions";
    if (ApiCheck error = read_integer(name, 1, std::max(info_.embedding_size, 1), dimensions))
      return error;
    params_.dimensions = static_cast<int32_t>(dimensions.value_or(0));
    return std::nullopt;
  }

  // Returns how many tokens a text may keep, which is the smaller of the two limits; 0: it is not
  // cut.
  int64_t most_tokens() const {
    const int64_t context = context_.model.max_model_len;
    if (!truncate_) return 0;
    return *truncate_ < 0 ? context : std::min(*truncate_, context);
  }

  ApiCheck add(std::vector<TokenId> ids, int32_t first_type_1_token, const std::string& where) {
    const int64_t limit = context_.model.max_model_len;
    if (ids.empty()) return field_error(where, "expected at least one token, got an empty text");
    if (std::ssize(ids) > limit) {
      return field_error(where,
                         fmt::format("This model's maximum context length is {} tokens; got {}. "
                                     "truncate_prompt_tokens: -1 cuts longer texts",
                                     limit, ids.size()));
    }
    PoolingParams params = params_;
    params.first_type_1_token = first_type_1_token;
    call_.num_prompt_tokens += std::ssize(ids);
    GenerationRequest& request = call_.requests.emplace_back();
    request.external_id = call_.id;
    request.prompt_token_ids = std::move(ids);
    request.kind = RequestKind::kPool;
    request.pooling = std::make_shared<const PoolingParams>(params);
    request.params.max_tokens = 0;
    request.adapter = adapter_;
    request.cache_keys.salt = cache_salt_;
    request.arrival_us = context_.arrival_us;
    if (context_.options.request_timeout_ms)
      request.timeout_us = *context_.options.request_timeout_ms * 1000;
    return std::nullopt;
  }

  // Adds a text with its special tokens. A long text is cut without touching these.
  ApiCheck add_text(std::string_view given, const std::string& where) {
    const std::string text = instruction_ + std::string(given);
    Result<std::vector<TokenId>> ids = context_.model.codec->encode(text, add_special_tokens_);
    if (!ids.ok()) return from_status(ids.status());
    const int64_t most = most_tokens();
    if (most == 0 || std::ssize(*ids) <= most) return add(std::move(*ids), -1, where);
    Result<std::vector<TokenId>> bare = context_.model.codec->encode(text, false);
    if (!bare.ok()) return from_status(bare.status());
    const CutSide side = side_ == 0 ? CutSide::kLeft : CutSide::kRight;
    Result<std::vector<TokenId>> kept = cut_text(std::move(*ids), *bare, most, side);
    if (!kept.ok()) return field_error(where, kept.status().message());
    return add(std::move(*kept), -1, where);
  }

  ApiCheck add_tokens(const json::value& list, const std::string& where) {
    ApiResult<std::vector<TokenId>> ids = read_token_ids(list, where, context_.model.vocab_size);
    if (!ids.ok()) return ids.error();
    std::vector<TokenId> kept = std::move(ids).value();
    const int64_t most = most_tokens();
    if (most > 0 && std::ssize(kept) > most) {
      const auto excess = std::ssize(kept) - most;
      side_ == 0 ? void(kept.erase(kept.begin(), kept.begin() + excess))
                 : kept.resize(static_cast<size_t>(most));
    }
    return add(std::move(kept), -1, where);
  }

  ApiCheck add_pair(const std::string& first, const std::string& second, const std::string& where) {
    Result<EncodedPair> pair = encode_pair_for(context_.model, {.query = first,
                                                                .document = second,
                                                                .instruction = instruction_,
                                                                .max_tokens = most_tokens()});
    if (!pair.ok()) return from_status(pair.status());
    return add(std::move(pair->ids), pair->first_type_1_token, where);
  }

  ApiCheck check_count(size_t count, std::string_view where) const {
    const auto most = static_cast<size_t>(context_.options.limits.max_choices);
    if (count == 0) return field_error(where, "expected at least one text, got an empty list");
    if (count > most)
      return field_error(where, fmt::format("expected at most {} texts, got {}", most, count));
    return std::nullopt;
  }

  ApiCheck read_inputs() {
    std::optional<size_t> format;
    if (ApiCheck error = read_choice("encoding_format", kFormats, format)) return error;
    call_.format = static_cast<VectorFormat>(format.value_or(0));
    const json::value* const input = find("input");
    if (input == nullptr) return field_error("input", "expected a text or a list, got none");
    if (input->is_string()) return add_text(input->get_string(), "input");
    if (!input->is_array()) {
      return field_error("input", fmt::format("expected a string, a list of strings, a list of "
                                              "token ids or a list of such lists, got {}",
                                              describe(*input)));
    }
    const json::array& list = input->get_array();
    if (!list.empty() && list.front().is_number()) return add_tokens(*input, "input");
    if (ApiCheck error = check_count(list.size(), "input")) return error;
    for (size_t i = 0; i < list.size(); ++i) {
      const std::string where = fmt::format("input.{}", i);
      ApiCheck error =
          list[i].is_string() ? add_text(list[i].get_string(), where) : add_tokens(list[i], where);
      if (error) return error;
    }
    return std::nullopt;
  }

  // Reads a request of Ollama's form. By default long texts are cut at their end.
  ApiCheck read_ollama() {
    bool truncates = true;
    if (ApiCheck error = read_flag("truncate", truncates)) return error;
    if (truncates) truncate_ = -1;
    side_ = 1;
    return read_inputs();
  }

  // Reads a request of Cohere's form. By default long texts are cut at their end.
  ApiCheck read_cohere() {
    std::optional<size_t> truncate;
    if (ApiCheck error = read_choice("truncate", kTruncates, truncate)) return error;
    if (truncate.value_or(2) != 0) truncate_ = -1;
    side_ = truncate == 1 ? 0 : 1;
    if (const json::value* const types = find("embedding_types")) {
      const bool only_float = types->is_array() && types->get_array().size() == 1 &&
                              types->get_array()[0].is_string() &&
                              types->get_array()[0].get_string() == "float";
      if (!only_float)
        return unsupported_field("embedding_types",
                                 "expected [\"float\"]: the others are not here");
    }
    if (ApiCheck error = read_texts("texts", call_.texts)) return error;
    for (size_t i = 0; i < call_.texts.size(); ++i) {
      if (ApiCheck error = add_text(call_.texts[i], fmt::format("texts.{}", i))) return error;
    }
    return std::nullopt;
  }

  // Reads a string, a list of strings, or a list of objects with "text".
  ApiCheck read_texts(std::string_view name, std::vector<std::string>& out) const {
    const json::value* const value = find(name);
    if (value == nullptr) return field_error(name, "expected a text or a list of texts, got none");
    if (value->is_string()) {
      out.emplace_back(value->get_string());
      return std::nullopt;
    }
    if (!value->is_array()) {
      return field_error(
          name, fmt::format("expected a text or a list of texts, got {}", describe(*value)));
    }
    if (ApiCheck error = check_count(value->get_array().size(), name)) return error;
    for (const json::value& item : value->get_array()) {
      const json::value* text = &item;
      if (item.is_object() && item.get_object().contains("text")) text = &item.at("text");
      if (!text->is_string())
        return field_error(name, fmt::format("expected texts in the list, got {}", describe(item)));
      out.emplace_back(text->get_string());
    }
    return std::nullopt;
  }

  ApiCheck read_score() {
    for (const auto& [first, second] : kScoreNames) {
      if (find(first) == nullptr) continue;
      std::vector<std::string> queries, documents;
      if (ApiCheck error = read_texts(first, queries)) return error;
      if (ApiCheck error = read_texts(second, documents)) return error;
      if (queries.size() != 1 && queries.size() != documents.size()) {
        return field_error(first, fmt::format("expected one text or as many as {} has ({}), got {}",
                                              second, documents.size(), queries.size()));
      }
      return add_scores(queries, documents, second);
    }
    return field_error("text_1",
                       "expected text_1 and text_2, queries and documents, or data_1 "
                       "and data_2, got none");
  }

  ApiCheck read_rerank() {
    const json::value* const query = find("query");
    if (query == nullptr || !query->is_string()) return field_error("query", "expected a text");
    if (ApiCheck error = read_texts("documents", call_.texts)) return error;
    std::optional<int64_t> top_n;
    if (ApiCheck error = read_integer("top_n", 0, 1 << 24, top_n)) return error;
    call_.top_n = static_cast<size_t>(top_n.value_or(0));
    if (ApiCheck error = read_flag("return_documents", call_.returns_documents)) return error;
    return add_scores({std::string(query->get_string())}, call_.texts, "documents");
  }

  // A model of embeddings computes each text once; a classifier reads pairs.
  ApiCheck add_scores(const std::vector<std::string>& queries,
                      const std::vector<std::string>& documents, std::string_view name) {
    if (info_.embedding_size > 0) {
      call_.num_queries = queries.size();
      instruction_ = context_.model.texts.of_query();
      for (const std::string& query : queries) {
        if (ApiCheck error = add_text(query, "query")) return error;
      }
      instruction_ = context_.model.texts.of_document();
      for (size_t i = 0; i < documents.size(); ++i) {
        if (ApiCheck error = add_text(documents[i], fmt::format("{}.{}", name, i))) return error;
      }
      return std::nullopt;
    }
    if (info_.num_labels != 1) {
      return api_error(400, fmt::format("scores need a model with one label, and {} has {}",
                                        in_quotes(call_.model), info_.num_labels));
    }
    ApiResult<std::string> instruction = read_instruction(body_, context_.model);
    if (!instruction.ok()) return instruction.error();
    instruction_ = std::move(instruction).value();
    for (size_t i = 0; i < documents.size(); ++i) {
      const std::string& query = queries[queries.size() == 1 ? 0 : i];
      if (ApiCheck error = add_pair(query, documents[i], fmt::format("{}.{}", name, i)))
        return error;
    }
    return std::nullopt;
  }

  static constexpr std::string_view kSides[] = {"left", "right"};
  static constexpr std::string_view kFormats[] = {"float", "base64", "bytes"};
  static constexpr std::string_view kTasks[] = {"embed", "classify", "token_embed",
                                                "token_classify"};
  static constexpr std::string_view kTruncates[] = {"NONE", "START", "END"};
  static constexpr std::pair<std::string_view, std::string_view> kScoreNames[] = {
      {"text_1", "text_2"}, {"queries", "documents"}, {"data_1", "data_2"}};

  const json::object& body_;
  const PrepareContext& context_;
  const PoolingInfo info_;
  PreparedPooling call_;
  PoolingParams params_;
  bool add_special_tokens_ = true;
  std::optional<int64_t> truncate_;
  std::optional<size_t> side_;              // index of kSides; nullopt: as "right"
  std::shared_ptr<const Adapter> adapter_;  // of `model` or `task`; null: none
  std::string instruction_;                 // goes before each text
  std::string cache_salt_;
};

}  // namespace

PoolingRoute pooling_route_of(std::string_view path) {
  if (path.ends_with("/embeddings")) return PoolingRoute::kEmbeddings;
  if (path == "/api/embed" || path == "/api/embed/") return PoolingRoute::kOllamaEmbed;
  if (path.ends_with("/embed")) return PoolingRoute::kCohereEmbed;
  if (path.ends_with("/pooling")) return PoolingRoute::kPooling;
  if (path.ends_with("/classify")) return PoolingRoute::kClassify;
  if (path.ends_with("/score")) return PoolingRoute::kScore;
  return PoolingRoute::kRerank;
}

ApiResult<PreparedPooling> prepare_pooling(const HttpRequest& request,
                                           const PrepareContext& context) {
  ApiResult<json::object> body = parse_body(request, context.options.limits);
  if (!body.ok()) return body.error();
  return Preparation(body.value(), pooling_route_of(request.path), context).run();
}

}  // namespace quire::server
