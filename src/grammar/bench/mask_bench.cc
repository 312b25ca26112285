#include "grammar/bench/mask_bench.h"

#include <boost/json.hpp>
#include <cmath>
#include <ctime>

#include "grammar/grammar.h"
#include "grammar/rules/encoding.h"

namespace quire::grammar {
namespace {

namespace json = boost::json;

// Masks and compilations that take longer are reported as slow.
constexpr double kSlowMaskUs = 5'000, kSlowCompileUs = 200'000;

void append_number(const json::value& value, std::string& out) {
  if (!value.is_double()) {
    out += json::serialize(value);
    return;
  }
  const double number = value.get_double();
  const bool is_whole = std::floor(number) == number && std::abs(number) < 1e16;
  out += is_whole ? fmt::format("{:.1f}", number) : fmt::format("{}", number);
}

// Appends the value as Python's json.dumps(value, ensure_ascii=False) writes it. The parser's depth
// limit bounds the recursion.
void append_json(const json::value& value, std::string& out) {
  if (value.is_string()) {
    out += '"' + json_escaped(value.get_string()) + '"';
  } else if (value.is_number()) {
    append_number(value, out);
  } else if (const json::array* array = value.if_array()) {
    out += '[';
    for (size_t i = 0; i < array->size(); ++i) {
      if (i > 0) out += ", ";
      append_json((*array)[i], out);
    }
    out += ']';
  } else if (const json::object* object = value.if_object()) {
    out += '{';
    bool is_first = true;
    for (const auto& [name, child] : *object) {
      if (!is_first) out += ", ";
      is_first = false;
      out += '"' + json_escaped(name) + "\": ";
      append_json(child, out);
    }
    out += '}';
  } else {
    out += json::serialize(value);
  }
}

// Returns the CPU time of this thread, so that other programs on the machine do not count.
double cpu_us() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

struct Judgement {
  bool is_accepted = false;
  Status status;         // the error of a mask
  size_t num_bytes = 0;  // of the text that was accepted
  double slowest_us = 0;
  size_t slowest_at = 0;  // bytes before the slowest mask
};

Judgement judge(const std::shared_ptr<const Grammar>& grammar, std::span<const TokenId> tokens,
                const Vocabulary& vocabulary, std::vector<double>& mask_us) {
  Matcher matcher(grammar, vocabulary);
  std::vector<uint32_t> row(vocabulary.mask_words());
  Judgement out;
  for (const TokenId token : tokens) {
    const double start = cpu_us();
    out.status = matcher.fill_mask(row);
    if (!out.status.ok()) return out;
    const bool is_allowed = (row[token / 32] >> (token % 32) & 1) != 0;
    const bool is_taken = is_allowed && matcher.accept(token);
    mask_us.push_back(cpu_us() - start);
    if (mask_us.back() > out.slowest_us) {
      out.slowest_us = mask_us.back();
      out.slowest_at = out.num_bytes;
    }
    if (is_allowed && !is_taken)
      out.status = matcher.fill_mask(row);  // the limit that was exceeded
    if (!is_taken) return out;
    out.num_bytes += vocabulary.token_bytes(token).size();
  }
  out.is_accepted = matcher.is_complete();
  return out;
}

// Returns whether the text is accepted when its members may come in any order.
bool is_right_but_for_order(std::string_view schema, JsonOptions options,
                            std::span<const TokenId> tokens, const Vocabulary& vocabulary) {
  if (options.any_order) return false;
  options.any_order = true;
  const auto grammar =
      compile({.kind = GrammarKind::kJsonSchema, .text = std::string(schema), .json = options});
  std::vector<double> untold;
  return grammar.ok() && judge(*grammar, tokens, vocabulary, untold).is_accepted;
}

// Returns the text before and behind a place, for messages.
std::string around(std::string_view text, size_t place) {
  constexpr size_t kBefore = 120, kBehind = 40;
  const size_t begin = place > kBefore ? place - kBefore : 0;
  place = std::min(place, text.size());
  return fmt::format("behind `{}` at `{}`", text.substr(begin, place - begin),
                     text.substr(place, kBehind));
}

}  // namespace

std::string spelled_as_python(std::string_view text) {
  boost::system::error_code error;
  const json::value value = json::parse(json::string_view(text.data(), text.size()), error);
  QUIRE_CHECK(!error, "expected JSON, got {}", text);
  std::string out;
  append_json(value, out);
  return out;
}

Status run_mask_bench(std::string_view line, const Tokenizer& tokenizer,
                      const Vocabulary& vocabulary, const JsonOptions& options,
                      MaskBenchReport& report) {
  boost::system::error_code error;
  json::parse_options parse_options;
  parse_options.max_depth = 256;
  const json::value entry =
      json::parse(json::string_view(line.data(), line.size()), error, {}, parse_options);
  const json::object* fields = entry.if_object();
  if (error || fields == nullptr || !fields->contains("schema") || !fields->contains("tests") ||
      !fields->at("tests").is_array() || !fields->contains("name")) {
    return invalid_argument("MaskBench: expected a JSON object with name, schema and tests");
  }
  const json::array& tests = fields->at("tests").get_array();
  const std::string name = json::serialize(fields->at("name"));
  ++report.num_schemas;
  report.num_with_tests += !tests.empty();
  const std::string schema = json::serialize(fields->at("schema"));
  const double start = cpu_us();
  const auto grammar = compile({.kind = GrammarKind::kJsonSchema, .text = schema, .json = options});
  const double compile_us = cpu_us() - start;
  if (compile_us > kSlowCompileUs) {
    report.notes.push_back(fmt::format("{}: compiled in {:.0f} us", name, compile_us));
  }
  if (!grammar.ok()) {
    ++report.num_not_compiled;
    report.notes.push_back(fmt::format("{}: {}", name, grammar.status().message()));
    return {};
  }
  report.compile_us.push_back(compile_us);
  bool is_right = true;
  for (const json::value& test : tests) {
    const json::object* test_fields = test.if_object();
    if (test_fields == nullptr || !test_fields->contains("valid") ||
        !test_fields->contains("data") || !test_fields->at("valid").is_bool()) {
      return invalid_argument("MaskBench: expected tests with valid and data");
    }
    std::string text;
    append_json(test_fields->at("data"), text);
    const auto tokens =
        tokenizer.encode(text, {.add_special_tokens = false, .parse_special = false});
    const Judgement judgement = judge(*grammar, tokens, vocabulary, report.mask_us);
    if (judgement.slowest_us > kSlowMaskUs) {
      report.notes.push_back(fmt::format("{}: a mask took {:.0f} us {}", name, judgement.slowest_us,
                                         around(text, judgement.slowest_at)));
    }
    const bool is_valid = test_fields->at("valid").get_bool();
    if (!judgement.status.ok()) {  // no verdict
      ++report.num_budget_errors;
    } else if (judgement.is_accepted != is_valid) {
      ++(is_valid ? report.num_false_rejects : report.num_false_accepts);
    } else {
      continue;
    }
    is_right = false;
    const bool is_order = judgement.status.ok() && is_valid &&
                          is_right_but_for_order(schema, options, tokens, vocabulary);
    report.num_refused_by_order += is_order;
    report.notes.push_back(fmt::format("{}: {} {}", name,
                                       !judgement.status.ok() ? judgement.status.message()
                                       : is_order             ? "refused for the order of members"
                                       : is_valid             ? "refused"
                                                              : "accepted",
                                       around(text, judgement.num_bytes)));
  }
  report.num_passing += is_right;
  report.num_passing_with_tests += is_right && !tests.empty();
  return {};
}

}  // namespace quire::grammar
