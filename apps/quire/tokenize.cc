#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/json.hpp>
#include <iostream>
#include <iterator>
#include <span>

#include "base/text_fields.h"
#include "facade/model_bundle.h"
#include "quire/commands.h"
#include "quire/json_output.h"

namespace quire::cli {
namespace {

struct TokenizeFlags {
  std::string model;
  std::string text;
  bool has_text = false;
  std::vector<std::string> decode;  // as given, such as "1,15" and "7"
  bool add_special_tokens = true;
  bool ids_only = false;
  bool as_json = false;
};

std::string read_standard_input() {
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

// Reads numbers between commas or spaces. A lone "-" stands for the numbers of standard input.
Result<std::vector<TokenId>> read_ids(const TokenizeFlags& flags, int32_t vocab_size) {
  const bool from_input = flags.decode == std::vector<std::string>{"-"};
  std::string list =
      from_input ? read_standard_input() : fmt::format("{}", fmt::join(flags.decode, " "));
  std::replace_if(
      list.begin(), list.end(), [](char c) { return c == ',' || c == '\n' || c == '\r'; }, ' ');
  std::vector<TokenId> ids;
  for (const std::string_view word : split(list, ' ')) {
    if (trim(word).empty()) continue;
    QUIRE_ASSIGN_OR_RETURN(const int64_t id, parse_integer(word, 0, vocab_size - 1, "--decode"));
    ids.push_back(static_cast<TokenId>(id));
  }
  return ids;
}

// Returns `ids` without the tokens that add_special_tokens adds around a text, if all of these are
// there.
std::span<const TokenId> without_special_tokens(const Tokenizer& tokenizer,
                                                std::span<const TokenId> ids) {
  const std::vector<TokenId> around = tokenizer.encode("", {.add_special_tokens = true});
  if (around.size() > ids.size()) return ids;
  for (size_t before = around.size() + 1; before-- > 0;) {
    const auto after = around.end() - static_cast<std::ptrdiff_t>(around.size() - before);
    if (std::equal(around.begin(), after, ids.begin()) &&
        std::equal(after, around.end(), ids.end() - (around.end() - after))) {
      return ids.subspan(before, ids.size() - around.size());
    }
  }
  return ids;
}

Status print_text(const TokenizeFlags& flags, const Tokenizer& tokenizer) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> ids,
                         read_ids(flags, static_cast<int32_t>(tokenizer.vocab_size())));
  const std::span<const TokenId> text_ids =
      flags.add_special_tokens ? without_special_tokens(tokenizer, ids) : ids;
  const std::string text = tokenizer.decode({text_ids.begin(), text_ids.end()});
  if (flags.as_json) {
    print_json(boost::json::object{{"text", text}, {"num_tokens", ids.size()}});
  } else {
    fmt::print("{}\n", text);
  }
  return {};
}

void print_tokens_json(const Tokenizer& tokenizer, const std::vector<TokenId>& ids,
                       size_t num_bytes) {
  boost::json::array tokens;
  for (const TokenId id : ids) {
    tokens.push_back(boost::json::object{{"id", id}, {"piece", tokenizer.token_to_piece(id)}});
  }
  print_json(boost::json::object{
      {"tokens", std::move(tokens)}, {"num_tokens", ids.size()}, {"num_bytes", num_bytes}});
}

Status run_tokenize(const TokenizeFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const ModelBundle bundle, open_model(flags.model));
  if (bundle.tokenizer == nullptr) return not_found("{}: the model has no tokenizer", bundle.name);
  const Tokenizer& tokenizer = *bundle.tokenizer;
  if (!flags.decode.empty()) return print_text(flags, tokenizer);
  const std::string text = flags.has_text ? flags.text : read_standard_input();
  const std::vector<TokenId> ids =
      tokenizer.encode(text, {.add_special_tokens = flags.add_special_tokens});
  if (flags.ids_only) {
    fmt::print("{}\n", fmt::join(ids, " "));
    return {};
  }
  if (flags.as_json) {
    print_tokens_json(tokenizer, ids, text.size());
    return {};
  }
  for (const TokenId id : ids) fmt::print("{:>8}  {}\n", id, tokenizer.token_to_piece(id));
  fmt::print("{} tokens, {} bytes\n", ids.size(), text.size());
  return {};
}

}  // namespace

void add_tokenize(CLI::App& app, int& exit_code) {
  CLI::App& verb = *app.add_subcommand(
      "tokenize", "Show the tokens of a text (-p TEXT or standard input), or decode token ids");
  auto flags = std::make_shared<TokenizeFlags>();
  verb.add_option("MODEL", flags->model,
                  "Hugging Face directory or .gguf file; default: the built-in model");
  verb.add_option_function<std::string>(
      "-p,--prompt",
      [flags](const std::string& text) {
        flags->text = text;
        flags->has_text = true;
      },
      "The text; default: standard input");
  verb.add_option("--decode", flags->decode,
                  "Token ids to decode into text, separated by spaces (as --ids prints them) or "
                  "commas; -: the ids on standard input");
  verb.add_flag("--add-special-tokens,!--no-add-special-tokens", flags->add_special_tokens,
                "Add the special tokens of a text, such as BOS, and leave them out of decoded text "
                "(default: on)");
  CLI::Option* const ids =
      verb.add_flag("--ids", flags->ids_only, "Print only the ids, on one line");
  add_json_flag(verb, flags->as_json);
  ids->excludes("--json");
  verb.callback([flags, &exit_code] { exit_code = report(run_tokenize(*flags)); });
}

}  // namespace quire::cli
