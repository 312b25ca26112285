// This is the table of request fields (request_fields.h), with the setters of the fields that are
// more than one plain value.
#include <array>
#include <cmath>
#include <limits>

#include "server/json/json_body.h"
#include "server/json/json_members.h"
#include "server/openai/request_fields.h"
#include "server/openai/structured_fields.h"

namespace quire::server {
namespace {

namespace json = boost::json;
using F = RequestFields;
using Value = json::value;

constexpr uint8_t kC = static_cast<uint8_t>(Endpoint::kCompletions);
constexpr uint8_t kH = static_cast<uint8_t>(Endpoint::kChat);
constexpr uint8_t kBoth = kC | kH;
constexpr size_t kMaxStops = 4;
constexpr size_t kMaxBadWords = 128;
constexpr size_t kMaxIds = 4096;
constexpr size_t kMaxStringBytes = 4096;

ApiCheck read_ids(std::string_view name, const Value& value, size_t max_count,
                  std::vector<TokenId>& out) {
  if (!value.is_array()) return wrong_value(name, "a list of token ids", value);
  if (value.get_array().size() > max_count) {
    return field_error(name, fmt::format("expected at most {} token ids, got {}", max_count,
                                         value.get_array().size()));
  }
  for (const Value& item : value.get_array()) {
    if (!item.is_int64() || item.get_int64() < 0 ||
        item.get_int64() > std::numeric_limits<TokenId>::max()) {
      return wrong_value(name, "token ids >= 0", item);
    }
    out.push_back(static_cast<TokenId>(item.get_int64()));
  }
  return std::nullopt;
}

ApiCheck read_strings(std::string_view name, const Value& value, size_t max_count,
                      std::vector<std::string>& out) {
  if (!value.is_array()) return wrong_value(name, "a list of strings", value);
  if (value.get_array().size() > max_count) {
    return field_error(name, fmt::format("expected at most {} strings, got {}", max_count,
                                         value.get_array().size()));
  }
  for (const Value& item : value.get_array()) {
    if (!item.is_string()) return wrong_value(name, "non-empty strings", item);
    if (item.get_string().empty()) {
      return field_error(name, "expected non-empty strings, got an empty one");
    }
    if (item.get_string().size() > kMaxStringBytes) {
      return field_error(name, fmt::format("expected at most {} bytes in a string, got {}",
                                           kMaxStringBytes, item.get_string().size()));
    }
    out.emplace_back(item.get_string());
  }
  return std::nullopt;
}

ApiCheck set_stop(F& f, Value& value) {
  if (value.is_string()) {
    if (value.get_string().empty()) return field_error("stop", "expected a non-empty string");
    value = json::array{value};
  }
  if (!value.is_array()) return wrong_value("stop", "a string or a list of strings", value);
  return read_strings("stop", value, kMaxStops, f.stop);
}

ApiCheck set_bad_words(F& f, Value& value) {
  return read_strings("bad_words", value, kMaxBadWords, f.bad_words);
}

ApiCheck set_stop_token_ids(F& f, Value& value) {
  return read_ids("stop_token_ids", value, kMaxIds, f.stop_token_ids);
}

ApiCheck set_logprob_token_ids(F& f, Value& value) {
  return read_ids("logprob_token_ids", value, SamplingParams::kMaxLogprobTokenIds,
                  f.logprob_token_ids);
}

ApiCheck set_allowed_token_ids(F& f, Value& value) {
  // The list may name most of a vocabulary. The size of the body bounds it.
  constexpr size_t kUnbounded = std::numeric_limits<size_t>::max();
  if (ApiCheck error =
          read_ids("allowed_token_ids", value, kUnbounded, f.allowed_token_ids.emplace()))
    return error;
  if (f.allowed_token_ids->empty()) {
    return field_error("allowed_token_ids", "expected at least one token id, got an empty list");
  }
  return std::nullopt;
}

ApiCheck set_logit_bias(F& f, Value& value) {
  if (!value.is_object())
    return wrong_value("logit_bias", "an object of token id to number", value);
  for (const auto& [key, bias] : value.get_object()) {
    int64_t id = 0;
    const bool digits = !key.empty() && key.size() <= 10;
    for (const char c : key)
      id = (digits && c >= '0' && c <= '9' && id >= 0) ? id * 10 + (c - '0') : -1;
    if (!digits || id < 0 || id > std::numeric_limits<TokenId>::max()) {
      return field_error("logit_bias", fmt::format("expected token ids as keys, got \"{}\"",
                                                   std::string_view(key.data(), key.size())));
    }
    if (!bias.is_number() || !std::isfinite(bias.to_number<double>())) {
      return wrong_value("logit_bias", "finite numbers", bias);
    }
    const double clamped = std::min(100.0, std::max(-100.0, bias.to_number<double>()));
    f.logit_bias.emplace_back(static_cast<TokenId>(id), static_cast<float>(clamped));
  }
  return std::nullopt;
}

ApiCheck set_prompt(F& f, Value& value) {
  f.prompt = std::move(value);
  return std::nullopt;
}

ApiCheck set_messages(F& f, Value& value) {
  if (!value.is_array()) return wrong_value("messages", "a list of messages", value);
  f.messages = std::move(value.get_array());
  return std::nullopt;
}

ApiCheck set_stream_options(F& f, Value& value) {
  if (!value.is_object()) return wrong_value("stream_options", "an object", value);
  f.has_stream_options = true;
  for (const auto& [key, flag] : value.get_object()) {
    if (flag.is_null()) continue;
    auto* const target = key == "include_usage"            ? &f.include_usage
                         : key == "continuous_usage_stats" ? &f.continuous_usage_stats
                                                           : nullptr;
    if (target == nullptr) continue;  // include_obfuscation and future options
    if (!flag.is_bool()) {
      return wrong_value(fmt::format("stream_options.{}", std::string_view(key.data(), key.size())),
                         "true or false", flag);
    }
    *target = flag.get_bool();
  }
  return std::nullopt;
}

ApiCheck set_tools(F& f, Value& value) {
  if (!value.is_array()) return wrong_value("tools", "a list of tools", value);
  if (value.get_array().empty())
    return field_error("tools", "expected at least one tool, got an empty list");
  for (const Value& tool : value.get_array()) {
    const auto* const object = tool.if_object();
    const auto* const type = object ? object->if_contains("type") : nullptr;
    const auto* const function = object ? object->if_contains("function") : nullptr;
    const auto* const name =
        function && function->is_object() ? function->get_object().if_contains("name") : nullptr;
    const bool other_type = type && !(type->is_string() && type->get_string() == "function");
    if (other_type || name == nullptr || !name->is_string() || name->get_string().empty()) {
      return field_error(
          "tools", "expected each tool as {\"type\": \"function\", \"function\": {\"name\": ...}}");
    }
  }
  f.tools = std::move(value.get_array());
  return std::nullopt;
}

// Reads {"type": "function", "function": {"name": "f"}}.
std::optional<std::string> named_function(const Value& value) {
  const auto* const choice = value.if_object();
  const auto* const type = choice ? choice->if_contains("type") : nullptr;
  const auto* const function = choice ? choice->if_contains("function") : nullptr;
  if (type == nullptr || !type->is_string() || type->get_string() != "function") return {};
  const auto* const object = function != nullptr ? function->if_object() : nullptr;
  const auto* const name = object != nullptr ? object->if_contains("name") : nullptr;
  if (name == nullptr || !name->is_string()) return {};
  return std::string(name->get_string());
}

ApiCheck set_tool_choice(F& f, Value& value) {
  if (value.is_string() && value.get_string() == "none") {
    f.tool_choice = ToolChoice::kNone;
  } else if (value.is_string() && value.get_string() == "auto") {
    f.tool_choice = ToolChoice::kAuto;
  } else if (value.is_string() && value.get_string() == "required") {
    f.tool_choice = ToolChoice::kRequired;
  } else if (const auto name = named_function(value)) {
    f.tool_choice = ToolChoice::kNamed;
    f.tool_choice_name = *name;
  } else {
    return wrong_value("tool_choice",
                       "\"none\", \"auto\", \"required\" or {\"type\": \"function\", \"function\": "
                       "{\"name\": ...}}",
                       value);
  }
  return std::nullopt;
}

ApiCheck set_response_format(F& f, Value& value) {
  auto rule = read_response_format(value);
  if (!rule.ok()) return rule.error();
  f.response_format = std::move(rule).value();
  return std::nullopt;
}

ApiCheck set_structured_outputs(F& f, Value& value) {
  auto rule = read_structured_outputs(value);
  if (!rule.ok()) return rule.error();
  f.structured_outputs = std::move(rule).value();
  return std::nullopt;
}

ApiCheck set_template_kwargs(F& f, Value& value) {
  if (!value.is_object()) return wrong_value("chat_template_kwargs", "an object", value);
  // The server itself passes these names to the template, so a client may not set them.
  static constexpr std::array<std::string_view, 9> kReserved = {"messages",
                                                                "tools",
                                                                "documents",
                                                                "add_generation_prompt",
                                                                "continue_final_message",
                                                                "chat_template",
                                                                "conversation",
                                                                "tokenize",
                                                                "return_dict"};
  for (const auto& member : value.get_object()) {
    for (const std::string_view reserved : kReserved) {
      if (std::string_view(member.key().data(), member.key().size()) == reserved) {
        return field_error("chat_template_kwargs",
                           fmt::format("expected no \"{}\" in it", reserved));
      }
    }
  }
  for (auto& member : value.get_object()) {
    f.chat_template_kwargs[member.key()] = std::move(member.value());
  }
  return std::nullopt;
}

ApiCheck set_documents(F& f, Value& value) {
  if (!value.is_array()) return wrong_value("documents", "a list of documents", value);
  f.documents = std::move(value.get_array());
  return std::nullopt;
}

ApiCheck set_reasoning_effort(F& f, Value& value) {
  static constexpr std::array<std::string_view, 7> kEfforts = {"none", "minimal", "low", "medium",
                                                               "high", "xhigh",   "max"};
  if (value.is_string()) {
    for (const std::string_view effort : kEfforts) {
      if (value.get_string() == effort) {
        f.reasoning_effort = std::string(effort);
        return std::nullopt;
      }
    }
  }
  return wrong_value("reasoning_effort", "one of none, minimal, low, medium, high, xhigh, max",
                     value);
}

ApiCheck set_truncation_side(F& f, Value& value) {
  if (!value.is_string() || (value.get_string() != "left" && value.get_string() != "right")) {
    return wrong_value("truncation_side", "\"left\" or \"right\"", value);
  }
  f.truncation_side = std::string(value.get_string());
  return std::nullopt;
}

ApiCheck set_cache_salt(F& f, Value& value) {
  if (!value.is_string() || value.get_string().empty() ||
      value.get_string().size() > kMaxStringBytes) {
    return field_error(
        "cache_salt",
        fmt::format("expected a string of 1 to {} bytes, got {}", kMaxStringBytes,
                    value.is_string() ? fmt::format("one of {}", value.get_string().size())
                                      : describe(value)));
  }
  f.cache_salt = std::string(value.get_string());
  return std::nullopt;
}

// Reads true, false or "never".
ApiCheck set_early_stopping(F& f, Value& value) {
  if (value.is_bool()) {
    f.early_stopping = value.get_bool() ? EarlyStopping::kYes : EarlyStopping::kNo;
  } else if (value == "never") {
    f.early_stopping = EarlyStopping::kNever;
  } else {
    return wrong_value("early_stopping", "true, false or \"never\"", value);
  }
  return std::nullopt;
}

ApiCheck set_kv_transfer_params(F& f, Value& value) {
  ApiResult<KvTransferParams> params = read_kv_transfer_params(value);
  if (!params.ok()) return params.error();
  f.kv_transfer = std::move(params).value();
  return std::nullopt;
}

// Reads {"type": "content", "content": a string or a list of text parts}.
ApiCheck set_prediction(F& f, Value& value) {
  constexpr std::string_view kWhat =
      "{\"type\": \"content\", \"content\": a string or a list of text parts}";
  if (!value.is_object()) return wrong_value("prediction", kWhat, value);
  const json::object& object = value.get_object();
  const Value* type = object.if_contains("type");
  const Value* content = object.if_contains("content");
  if (type == nullptr || *type != "content" || content == nullptr) {
    return wrong_value("prediction", kWhat, value);
  }
  if (content->is_string()) {
    f.prediction = std::string(content->get_string());
    return std::nullopt;
  }
  if (!content->is_array()) return wrong_value("prediction", kWhat, *content);
  std::string text;
  for (const Value& part : content->get_array()) {
    const Value* words = part.is_object() ? part.get_object().if_contains("text") : nullptr;
    if (words == nullptr || !words->is_string()) return wrong_value("prediction", kWhat, part);
    text += words->get_string();
  }
  f.prediction = std::move(text);
  return std::nullopt;
}

constexpr std::string_view kIds =
    R"({"type":"array","items":{"$ref":"#/components/schemas/TokenId"}})";
constexpr std::string_view kStrings = R"({"type":"array","items":{"type":"string","minLength":1}})";
constexpr std::string_view kObject = R"({"type":"object"})";
constexpr std::string_view kObjects = R"({"type":"array","items":{"type":"object"}})";
constexpr std::string_view kBool = R"({"type":"boolean"})";
constexpr std::string_view kAny = "{}";
constexpr auto kNoEffect = FieldSupport::kNoEffect;
constexpr auto kUnsupported = FieldSupport::kUnsupported;
constexpr auto kNone = std::nullopt;
constexpr double kMaxInt32 = 2147483647.0;

const Field kFields[] = {
    {"model", kBoth, &F::model, "", "null", "Name of the served model; absent: that model."},
    {"prompt", kC, &set_prompt,
     R"({"oneOf":[{"type":"string"},{"type":"array","items":{"type":"string"},"minItems":1},)"
     R"({"type":"array","items":{"$ref":"#/components/schemas/TokenId"},"minItems":1},)"
     R"({"type":"array","items":{"type":"array","items":{"$ref":"#/components/schemas/TokenId"},)"
     R"("minItems":1},"minItems":1}]})",
     "", "Text, token ids, or a list of either."},
    {"messages", kH, &set_messages,
     R"({"type":"array","minItems":1,"items":{"type":"object","required":["role"],"properties":{"role":{"type":"string","minLength":1,"maxLength":64},)"
     R"("content":{"anyOf":[{"type":"string"},{"type":"null"},{"type":"array","items":{"type":"object"}}]}}}})",
     "", "The conversation, oldest message first."},
    {"max_tokens", kC, &F::max_tokens, "", "16", "Most tokens to generate; 0 only with echo.", 0,
     kMaxInt32},
    {"max_tokens", kH, &F::max_tokens, "", "null",
     "Most tokens to generate; absent: what the context leaves.", 1, kMaxInt32},
    {"max_completion_tokens", kH, &F::max_completion_tokens, "", "null",
     "As max_tokens, and goes before it.", 1, kMaxInt32},
    {"min_tokens", kBoth, &F::min_tokens, "", "0", "No EOS or stop before this many tokens.", 0,
     kMaxInt32},
    {"n", kBoth, &F::n, "", "1", "Choices per prompt; beams, with use_beam_search.", 1, 16384},
    {"best_of", kC, &F::best_of, "", "null",
     "Choices generated per prompt; the n with the greatest mean log-probability are the answer.",
     1, 16384},
    {"temperature", kBoth, &F::temperature, "", "1", "Below 1e-5: greedy.", 0, 2},
    {"top_p", kBoth, &F::top_p, "", "1", "Probability mass kept.", 0, 1, true},
    {"top_k", kBoth, &F::top_k, "", "0", "Tokens kept; 0 and -1: all.", -1, kMaxInt32},
    {"min_p", kBoth, &F::min_p, "", "0", "Least probability relative to the best.", 0, 1},
    {"presence_penalty", kBoth, &F::presence_penalty, "", "0", "Per token already generated.", -2,
     2},
    {"frequency_penalty", kBoth, &F::frequency_penalty, "", "0",
     "Per occurrence already generated.", -2, 2},
    {"repetition_penalty", kBoth, &F::repetition_penalty, "", "1", "Divides logits of tokens seen.",
     0, kNone, true},
    {"logit_bias", kBoth, &set_logit_bias,
     R"({"type":"object","additionalProperties":{"type":"number"}})", "null",
     "Token id to bias, clamped to [-100, 100]."},
    {"seed", kBoth, &F::seed, "", "null", "Same seed, same request: same tokens."},
    {"stop", kBoth, &set_stop,
     R"({"oneOf":[{"type":"string","minLength":1},{"type":"array","maxItems":4,"items":{"type":"string","minLength":1}}]})",
     "[]", "Ends the text before the first of these."},
    {"stop_token_ids", kBoth, &set_stop_token_ids, kIds, "[]",
     "Ends at the first of these tokens."},
    {"ignore_eos", kBoth, &F::ignore_eos, "", "false", "Go on after the end-of-sequence token."},
    {"include_stop_str_in_output", kBoth, &F::include_stop_str_in_output, "", "false",
     "Keep the stop string in the text."},
    {"bad_words", kBoth, &set_bad_words, kStrings, "[]", "Texts that are never completed."},
    {"allowed_token_ids", kBoth, &set_allowed_token_ids, kIds, "null",
     "Only these tokens are generated."},
    {"logprobs", kC, &F::logprobs_count, "", "null", "Alternatives per token; -1: the vocabulary.",
     -1, kMaxInt32},
    {"logprobs", kH, &F::logprobs_wanted, "", "false", "Whether to return log-probabilities."},
    {"top_logprobs", kH, &F::top_logprobs, "", "0", "Alternatives per token; needs logprobs.", -1,
     kMaxInt32},
    {"prompt_logprobs", kBoth, &F::prompt_logprobs, "", "null",
     "Alternatives per prompt token; not with stream.", -1, kMaxInt32},
    {"logprob_token_ids", kBoth, &set_logprob_token_ids, kIds, "null",
     "The alternatives per token are these (at most 128) instead of the likeliest; needs "
     "logprobs."},
    {"stream", kBoth, &F::stream, "", "false", "Answer as server-sent events."},
    {"stream_options", kBoth, &set_stream_options,
     R"({"type":"object","properties":{"include_usage":{"type":"boolean"},"continuous_usage_stats":{"type":"boolean"}}})",
     "null", "Usage in the stream; needs stream."},
    {"stream_interval", kBoth, &F::stream_interval, "", "1", "Least tokens per chunk.", 1,
     kMaxInt32},
    {"echo", kBoth, &F::echo, "", "false",
     "Repeat the prompt (chat: the final message of our role) before the answer."},
    {"tools", kH, &set_tools, kObjects, "null", "Functions shown to the model."},
    {"tool_choice", kH, &set_tool_choice,
     R"({"anyOf":[{"type":"string","enum":["none","auto","required"]},{"type":"object"}]})", "null",
     "none: text alone; auto: the model chooses; required or a named function: calls must come."},
    {"parallel_tool_calls", kH, &F::parallel_tool_calls, "", "true",
     "false: only the first tool call is kept; needs a tool-call parser."},
    {"response_format", kBoth, &set_response_format,
     R"({"type":"object","properties":{"type":{"type":"string","enum":["text","json_object","json_schema","structural_tag"]},"json_schema":{"type":"object","properties":{"name":{"type":"string"},"description":{"type":"string"},"schema":{"type":"object"},"strict":{"type":"boolean"}},"required":["name"]}},"required":["type"]})",
     "null", "What the whole answer is: any text, a JSON object, JSON of a schema, tagged text."},
    {"reasoning_effort", kH, &set_reasoning_effort,
     R"({"type":"string","enum":["none","minimal","low","medium","high","xhigh","max"]})", "null",
     "Given to the chat template; sets enable_thinking."},
    {"thinking_token_budget", kH, &F::thinking_token_budget, "", "null",
     "Most tokens of reasoning, after which it is made to end; -1: no limit.", -1, kMaxInt32},
    {"include_reasoning", kH, &F::include_reasoning, "", "true",
     "false: reasoning is left out, with its tokens; needs a reasoning parser."},
    {"add_generation_prompt", kH, &F::add_generation_prompt, "", "true",
     "Open the assistant's turn."},
    {"continue_final_message", kH, &F::continue_final_message, "", "false",
     "Go on with the last message instead of a new one."},
    {"add_special_tokens", kC, &F::add_special_tokens, "", "true",
     "Let the tokenizer add BOS and the like."},
    {"add_special_tokens", kH, &F::add_special_tokens, "", "false",
     "Let the tokenizer add BOS and the like to the rendered text."},
    {"truncate_prompt_tokens", kBoth, &F::truncate_prompt_tokens, "", "null",
     "Cut the prompt to this many tokens; -1: to the context.", -1, kMaxInt32},
    {"truncation_side", kBoth, &set_truncation_side, R"({"type":"string","enum":["left","right"]})",
     "\"left\"", "left keeps the last tokens, right the first."},
    {"chat_template", kH, &F::chat_template, "", "null",
     "Template text; only where the server trusts it."},
    {"chat_template_kwargs", kH, &set_template_kwargs, kObject, "null",
     "More variables for the template."},
    {"documents", kH, &set_documents, kObjects, "null", "Documents for the template."},
    {"cache_salt", kBoth, &set_cache_salt, R"({"type":"string","minLength":1})", "null",
     "Prefix-cache entries are shared only under the same salt."},
    {"priority", kBoth, &F::priority, "", "0", "Lower goes first; needs the priority policy.",
     -2147483648.0, kMaxInt32},
    {"prediction", kH, &set_prediction,
     R"({"type":"object","properties":{"type":{"type":"string","enum":["content"]},"content":{"oneOf":[{"type":"string"},{"type":"array","items":{"type":"object"}}]}},"required":["type","content"]})",
     "null",
     "A text that the answer is expected to repeat in parts: it comes sooner then, and is the "
     "same. "
     "Needs --speculative-config with the method suffix."},
    {"num_speculative_tokens", kBoth, &F::num_speculative_tokens, "", "null",
     "Most drafts of a step that are verified for this request; 0: none.", 0, 64},
    {"request_id", kBoth, &F::request_id, "", "null", "Becomes part of the answer's id."},
    {"return_token_ids", kBoth, &F::return_token_ids, "", "false",
     "Print prompt and output token ids."},
    {"return_tokens_as_token_ids", kBoth, &F::return_tokens_as_token_ids, "", "false",
     "Print tokens of logprobs as token_id:N."},
    {"return_prompt_text", kBoth, &F::return_prompt_text, "", "false", "Print the prompt's text."},
    {"return_timings", kBoth, &F::return_timings, "", "false",
     "Print usage.timings: when the tokens came, measured by the server. A stream then ends with "
     "its usage."},
    {"skip_special_tokens", kBoth, &F::skip_special_tokens, "", "true",
     "Leave special tokens out of the text."},
    {"spaces_between_special_tokens", kBoth, &F::spaces_between_special_tokens, "", "true",
     "Where special tokens are printed: keep the decoder's spaces between two of them."},
    {"user", kBoth, std::monostate{}, R"({"type":"string"})", "null", "No effect.", kNone, kNone,
     false, kNoEffect},
    {"session_id", kBoth, std::monostate{}, R"({"type":"string"})", "null",
     "For routers in front; no effect here.", kNone, kNone, false, kNoEffect},
    {"metadata", kBoth, std::monostate{}, kAny, "null", "No effect.", kNone, kNone, false,
     kNoEffect},
    {"store", kBoth, std::monostate{}, kBool, "false", "Nothing is stored.", kNone, kNone, false,
     kNoEffect},
    {"service_tier", kBoth, std::monostate{}, R"({"type":"string"})", "null", "There is one tier.",
     kNone, kNone, false, kNoEffect},
    {"safety_identifier", kBoth, std::monostate{}, R"({"type":"string"})", "null", "No effect.",
     kNone, kNone, false, kNoEffect},
    {"prompt_cache_key", kBoth, std::monostate{}, R"({"type":"string"})", "null",
     "Prefixes are cached without it.", kNone, kNone, false, kNoEffect},
    {"use_beam_search", kBoth, &F::use_beam_search, "", "false",
     "The n choices are the best texts that a search with n beams finds, best first."},
    {"length_penalty", kBoth, &F::length_penalty, "", "1",
     "With use_beam_search: texts are ranked by the sum of their log-probabilities / length ^ "
     "this.",
     -BeamSearchParams::kMaxLengthPenalty, BeamSearchParams::kMaxLengthPenalty},
    {"early_stopping", kBoth, &set_early_stopping,
     R"({"oneOf":[{"type":"boolean"},{"type":"string","enum":["never"]}]})", "null",
     "With use_beam_search: texts are ranked and the search ends as Hugging Face's does with this "
     "value; null: as vLLM's."},
    {"modalities", kH, std::monostate{}, R"({"type":"array","items":{"type":"string"}})",
     "[\"text\"]", "Text only.", kNone, kNone, false, kNoEffect},
    {"structured_outputs", kBoth, &set_structured_outputs,
     R"({"type":"object","properties":{"json":{},"regex":{"type":"string"},"choice":{"type":"array","items":{"type":"string"}},"grammar":{"type":"string"},"json_object":{"type":"boolean"},"structural_tag":{},"disable_any_whitespace":{"type":"boolean"},"disable_additional_properties":{"type":"boolean"},"whitespace_pattern":{"type":"string"},"any_order":{"type":"boolean"}}})",
     "null",
     "What the whole answer is: one of json, regex, choice, grammar, json_object, "
     "structural_tag."},
    {"kv_transfer_params", kBoth, &set_kv_transfer_params,
     R"({"type":"object","properties":{"do_remote_decode":{"type":"boolean"},"do_remote_prefill":{"type":"boolean"},"remote_engine_id":{"type":["string","null"]},"remote_files":{"type":["array","null"],"items":{"type":"string"}},"remote_num_tokens":{"type":["integer","null"]}}})",
     "null",
     "Prefill and decode on servers of their own: do_remote_decode asks for the KV of the prompt "
     "to "
     "be handed over, and what the answer's kv_transfer_params say goes to the server that "
     "decodes. "
     "Needs --kv-transfer-config."},
    {"suffix", kC, std::monostate{}, R"({"type":"string"})", "null", "Text after the insertion.",
     kNone, kNone, false, kUnsupported},
    {"prompt_embeds", kC, std::monostate{}, kAny, "null", "Embeddings as prompt.", kNone, kNone,
     false, kUnsupported},
    {"repetition_detection", kBoth, std::monostate{}, kObject, "null", "Ends loops.", kNone, kNone,
     false, kUnsupported},
    {"ec_transfer_params", kBoth, std::monostate{}, kObject, "null", "Encoder apart.", kNone, kNone,
     false, kUnsupported},
    {"vllm_xargs", kBoth, std::monostate{}, kObject, "null", "Plugin arguments.", kNone, kNone,
     false, kUnsupported},
    {"functions", kH, std::monostate{}, kObjects, "null", "Use tools.", kNone, kNone, false,
     kUnsupported},
    {"function_call", kH, std::monostate{}, kAny, "null", "Use tool_choice.", kNone, kNone, false,
     kUnsupported},
    {"audio", kH, std::monostate{}, kObject, "null", "Audio output.", kNone, kNone, false,
     kUnsupported},
};

constexpr RemovedField kRemoved[] = {
    {"guided_json", "structured_outputs.json"},
    {"guided_regex", "structured_outputs.regex"},
    {"guided_choice", "structured_outputs.choice"},
    {"guided_grammar", "structured_outputs.grammar"},
    {"guided_decoding_backend", "the server's --structured-outputs-config"},
    {"guided_whitespace_pattern", "the server's --structured-outputs-config"},
    {"logits_processors", ""},
};

}  // namespace

std::span<const Field> field_table() { return kFields; }
std::span<const RemovedField> removed_fields() { return kRemoved; }

}  // namespace quire::server
