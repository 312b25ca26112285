#include "server/llama/llama_request.h"

#include <array>
#include <boost/json/serialize.hpp>
#include <utility>

#include "server/json/json_members.h"
#include "server/llama/llama_options.h"

namespace quire::server {
namespace {

namespace json = boost::json;
using F = RequestFields;
using Value = json::value;

constexpr size_t kMaxOtherFiles = 64;

ApiCheck set_prompt(F& f, Value& value) {
  const bool is_ids =
      value.is_array() && !value.get_array().empty() && value.get_array().front().is_number();
  if (!value.is_string() && !is_ids) {
    return wrong_value("prompt", "a text or a list of token ids", value);
  }
  f.prompt = std::move(value);
  return std::nullopt;
}

ApiCheck set_n_predict(F& f, Value& value) { return read_num_predict("n_predict", value, f); }
ApiCheck set_stop(F& f, Value& value) { return read_stop("stop", value, f); }
ApiCheck set_seed(F& f, Value& value) { return read_seed("seed", value, f); }

// Reads [[id, bias], ...], where false forbids the token, or an object as in a chat.
ApiCheck set_logit_bias(F& f, Value& value) {
  constexpr std::string_view kWhat = "a list of [token id, number or false]";
  if (value.is_array()) {
    json::object biases;
    for (const Value& pair : value.get_array()) {
      const json::array* const parts = pair.if_array();
      if (parts == nullptr || parts->size() != 2 || !parts->at(0).is_int64()) {
        return wrong_value("logit_bias", kWhat, pair);
      }
      biases[std::to_string(parts->at(0).get_int64())] =
          parts->at(1) == false ? Value(-100) : parts->at(1);
    }
    value = std::move(biases);
  }
  return std::get<FieldSetter>(field_of("logit_bias", Endpoint::kCompletions).target)(f, value);
}

ApiCheck set_rule(F& f, StructuredOutputs rule) {
  if (f.structured_outputs) return field_error(rule.field, "expected one rule, got two");
  f.structured_outputs = std::move(rule);
  return std::nullopt;
}

ApiCheck set_grammar(F& f, Value& value) {
  if (!value.is_string()) return wrong_value("grammar", "a grammar in GBNF", value);
  if (value.get_string().empty()) return std::nullopt;
  return set_rule(f, {.kind = StructuredOutputKind::kGrammar,
                      .text = std::string(value.get_string()),
                      .field = "grammar"});
}

ApiCheck set_json_schema(F& f, Value& value) {
  if (!value.is_object()) return wrong_value("json_schema", "a JSON Schema", value);
  return set_rule(f, {.kind = StructuredOutputKind::kJson,
                      .text = json::serialize(value),
                      .field = "json_schema"});
}

// Accepts an option of a sampler that Quire lacks, if its value switches the sampler off.
ApiCheck expect_number(std::string_view name, double off, const Value& value) {
  if (value.is_number() && value.to_number<double>() == off) return std::nullopt;
  return wrong_value(name, fmt::format("{}: this server does not have it", off), value);
}
ApiCheck set_n_probs(F&, Value& value) { return expect_number("n_probs", 0, value); }
ApiCheck set_mirostat(F&, Value& value) { return expect_number("mirostat", 0, value); }
ApiCheck set_typical_p(F&, Value& value) { return expect_number("typical_p", 1, value); }
ApiCheck set_xtc(F&, Value& value) { return expect_number("xtc_probability", 0, value); }
ApiCheck set_dry(F&, Value& value) { return expect_number("dry_multiplier", 0, value); }
ApiCheck set_dynatemp(F&, Value& value) { return expect_number("dynatemp_range", 0, value); }

constexpr uint8_t kC = static_cast<uint8_t>(Endpoint::kCompletions);
constexpr auto kNone = std::nullopt;
constexpr std::string_view kNumber = R"({"type":"number"})";
constexpr std::string_view kInteger = R"({"type":"integer"})";

const Field kOwn[] = {
    {"prompt", kC, &set_prompt,
     R"({"oneOf":[{"type":"string"},{"type":"array","minItems":1,"items":{"$ref":"#/components/schemas/TokenId"}}]})",
     "", "Text or token ids to go on with."},
    {"n_predict", kC, &set_n_predict, kInteger, "-1",
     "Most tokens to generate; -1: what the context leaves."},
    {"stop", kC, &set_stop, R"({"type":"array","items":{"type":"string","minLength":1}})", "[]",
     "Ends the text before the first of these."},
    {"seed", kC, &set_seed, kInteger, "-1", "Same seed, same request: same tokens; -1: any."},
    {"repeat_penalty", kC, &F::repetition_penalty, "", "1", "Divides logits of tokens seen.", 0,
     kNone, true},
    {"logit_bias", kC, &set_logit_bias, R"({"type":["array","object"]})", "[]",
     "[[token id, bias or false], ...]."},
    {"grammar", kC, &set_grammar, R"({"type":"string"})", "\"\"", "What the text is, as GBNF."},
    {"json_schema", kC, &set_json_schema, R"({"type":"object"})", "null",
     "What the text is, as JSON Schema."},
    {"return_tokens", kC, &F::return_token_ids, "", "false", "Token ids beside the text."},
    {"n_probs", kC, &set_n_probs, kInteger, "0", "Use /v1/completions."},
    {"mirostat", kC, &set_mirostat, kInteger, "0", "0 alone."},
    {"typical_p", kC, &set_typical_p, kNumber, "1", "1 alone."},
    {"xtc_probability", kC, &set_xtc, kNumber, "0", "0 alone."},
    {"dry_multiplier", kC, &set_dry, kNumber, "0", "0 alone."},
    {"dynatemp_range", kC, &set_dynatemp, kNumber, "0", "0 alone."},
};

constexpr std::string_view kOfChat[] = {
    "model",      "stream",     "temperature",      "top_p",
    "top_k",      "min_p",      "presence_penalty", "frequency_penalty",
    "ignore_eos", "cache_salt", "priority"};

// These options are about slots, caches and the window of penalties, which requests cannot choose
// in Quire.
constexpr std::string_view kWithoutEffect[] = {"cache_prompt",
                                               "id_slot",
                                               "n_keep",
                                               "n_discard",
                                               "n_cache_reuse",
                                               "n_indent",
                                               "samplers",
                                               "repeat_last_n",
                                               "min_keep",
                                               "mirostat_tau",
                                               "mirostat_eta",
                                               "xtc_threshold",
                                               "dry_base",
                                               "dry_allowed_length",
                                               "dry_penalty_last_n",
                                               "dry_sequence_breakers",
                                               "dynatemp_exponent",
                                               "penalize_nl",
                                               "timings_per_token",
                                               "return_progress",
                                               "t_max_prompt_ms"};

ApiResult<std::string> take_text(json::object& body, std::string_view name) {
  Value* const value = find_member(body, name);
  if (value == nullptr) return std::string();
  if (!value->is_string()) return wrong_value(name, "a text", *value);
  std::string text(value->get_string());
  body.erase(name);
  return text;
}

// Reads [{"filename": ..., "text": ...}, ...].
ApiCheck take_others(json::object& body, std::vector<FillIn::File>& out) {
  Value* const others = find_member(body, "input_extra");
  if (others == nullptr) return std::nullopt;
  if (!others->is_array() || others->get_array().size() > kMaxOtherFiles) {
    return wrong_value("input_extra", fmt::format("a list of at most {} files", kMaxOtherFiles),
                       *others);
  }
  for (const Value& other : others->get_array()) {
    const json::object* const file = other.if_object();
    const Value* const text = file != nullptr ? find_member(*file, "text") : nullptr;
    if (text == nullptr || !text->is_string()) {
      return wrong_value("input_extra", R"(files as {"filename": ..., "text": ...})", other);
    }
    const std::string_view name = text_member(*file, "filename");
    out.push_back({name.empty() ? "tmp" : std::string(name), std::string(text->get_string())});
  }
  body.erase("input_extra");
  return std::nullopt;
}

}  // namespace

std::span<const Field> llama_field_table() {
  static const std::vector<Field> table = [] {
    std::vector<Field> rows = with_chat_fields(kOwn, kOfChat);
    for (const std::string_view name : kWithoutEffect) {
      rows.push_back({name, kC, std::monostate{}, "{}", "null", "Has no effect here.", kNone, kNone,
                      false, FieldSupport::kNoEffect});
    }
    return rows;
  }();
  return table;
}

ApiResult<FillIn> read_fill_in(json::object& body) {
  FillIn gap;
  for (const auto& [name, into] :
       {std::pair<std::string_view, std::string*>{"input_prefix", &gap.before},
        {"input_suffix", &gap.after},
        {"prompt", &gap.begun}}) {
    ApiResult<std::string> text = take_text(body, name);
    if (!text.ok()) return text.error();
    *into = std::move(text).value();
  }
  if (ApiCheck error = take_others(body, gap.others)) return *error;
  return gap;
}

}  // namespace quire::server
