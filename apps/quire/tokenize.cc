#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iostream>
#include <iterator>

#include "facade/model_bundle.h"
#include "quire/commands.h"

namespace quire::cli {
namespace {

struct TokenizeFlags {
  std::string model;
  std::string text;
  bool has_text = false;
  std::vector<TokenId> decode;
  bool add_special_tokens = true;
  bool ids_only = false;
};

Status run_tokenize(const TokenizeFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const ModelBundle bundle, open_model(flags.model));
  if (bundle.tokenizer == nullptr) return not_found("{}: the model has no tokenizer", bundle.name);
  const Tokenizer& tokenizer = *bundle.tokenizer;
  if (!flags.decode.empty()) {
    for (const TokenId id : flags.decode) {
      if (id < 0 || id >= tokenizer.vocab_size()) {
        return invalid_argument("--decode: expected token ids in [0, {}), got {}",
                                tokenizer.vocab_size(), id);
      }
    }
    fmt::print("{}\n", tokenizer.decode(flags.decode));
    return {};
  }
  const std::string text = flags.has_text ? flags.text
                                          : std::string(std::istreambuf_iterator<char>(std::cin),
                                                        std::istreambuf_iterator<char>());
  const std::vector<TokenId> ids =
      tokenizer.encode(text, {.add_special_tokens = flags.add_special_tokens});
  if (flags.ids_only) {
    fmt::print("{}\n", fmt::join(ids, " "));
    return {};
  }
  for (const TokenId id : ids) fmt::print("{:>8}  {}\n", id, tokenizer.token_to_piece(id));
  fmt::print("{} tokens, {} bytes\n", ids.size(), text.size());
  return {};
}

}  // namespace

void add_tokenize(CLI::App& app, int& exit_code) {
  CLI::App& verb =
      *app.add_subcommand("tokenize", "Show the tokens of a text (-p TEXT or standard input)");
  auto flags = std::make_shared<TokenizeFlags>();
  verb.add_option("MODEL", flags->model,
                  "Hugging Face directory or .gguf file; nothing: the built-in model");
  verb.add_option_function<std::string>(
      "-p,--prompt",
      [flags](const std::string& text) {
        flags->text = text;
        flags->has_text = true;
      },
      "Text; without it standard input is read");
  verb.add_option("--decode", flags->decode, "Token ids to turn back into text, for example 1,15,7")
      ->delimiter(',');
  verb.add_flag("--add-special-tokens,!--no-add-special-tokens", flags->add_special_tokens,
                "Add what the model expects around a text, such as BOS (on)");
  verb.add_flag("--ids", flags->ids_only, "Print ids alone, on one line");
  verb.callback([flags, &exit_code] { exit_code = report(run_tokenize(*flags)); });
}

}  // namespace quire::cli
