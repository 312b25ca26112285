#include "facade/tokenizer/load_tokenizer.h"

#include <algorithm>
#include <utility>

#include "facade/tokenizer/gguf_tokenizer.h"
#include "tokenizer/files/tekken.h"
#include "tokenizer/files/tiktoken.h"
#include "tokenizer/files/vocab_files.h"
#include "tokenizer/json/tokenizer_json.h"
#include "tokenizer/sentencepiece/sentencepiece_model.h"
#include "weights/gguf/gguf.h"

namespace quire {
namespace {

using Loaded = Result<std::unique_ptr<Tokenizer>>;

// Returns the text of a file that a model may lack.
Result<std::string_view> text_or_empty(const ModelFiles& files, std::string_view name) {
  if (!files.contains(name)) return std::string_view();
  return files.text(name);
}

std::optional<std::string> tiktoken_name(const ModelFiles& files) {
  for (std::string& name : files.names()) {
    if (name.ends_with(".tiktoken")) return std::move(name);
  }
  return std::nullopt;
}

// The name of "o200k_base.tiktoken" is that of its encoding. Any other file is read as cl100k_base,
// the most common one.
Loaded load_tiktoken(const ModelFiles& files, const std::string& name) {
  QUIRE_ASSIGN_OR_RETURN(const std::string_view text, files.text(name));
  const std::string stem = name.substr(0, name.size() - std::string_view(".tiktoken").size());
  const auto encoding = tiktoken_encoding(stem);
  return tokenizer_from_tiktoken(text, encoding ? *encoding : *tiktoken_encoding("cl100k_base"));
}

Loaded load_sentencepiece(const ModelFiles& files, std::string_view name, std::string_view config) {
  QUIRE_ASSIGN_OR_RETURN(const std::string_view model, files.text(name));
  QUIRE_ASSIGN_OR_RETURN(const std::string_view added, text_or_empty(files, "added_tokens.json"));
  return tokenizer_from_sentencepiece(
      model, {.config_json = config, .added_tokens_json = added, .file_name = name});
}

Loaded load_from_directory(const ModelFiles& files, std::string& tekken_version) {
  QUIRE_ASSIGN_OR_RETURN(const std::string_view config,
                         text_or_empty(files, "tokenizer_config.json"));
  if (files.contains("tokenizer.json")) {
    QUIRE_ASSIGN_OR_RETURN(const std::string_view text, files.text("tokenizer.json"));
    return tokenizer_from_json(text, config);
  }
  if (files.contains("tekken.json")) {
    QUIRE_ASSIGN_OR_RETURN(const std::string_view text, files.text("tekken.json"));
    QUIRE_ASSIGN_OR_RETURN(TekkenTokenizer tekken, tokenizer_from_tekken(text));
    tekken_version = std::move(tekken.version);
    return std::move(tekken.tokenizer);
  }
  for (const char* name : {"tokenizer.model", "spiece.model"}) {
    if (files.contains(name)) return load_sentencepiece(files, name, config);
  }
  if (files.contains("tiktoken.model")) {
    QUIRE_ASSIGN_OR_RETURN(const std::string_view text, files.text("tiktoken.model"));
    return tokenizer_from_kimi_tiktoken(text, config);
  }
  if (const auto name = tiktoken_name(files)) return load_tiktoken(files, *name);
  if (files.contains("vocab.json") && files.contains("merges.txt")) {
    QUIRE_ASSIGN_OR_RETURN(const std::string_view vocab, files.text("vocab.json"));
    QUIRE_ASSIGN_OR_RETURN(const std::string_view merges, files.text("merges.txt"));
    return tokenizer_from_vocab_and_merges(vocab, merges, config);
  }
  if (files.contains("vocab.txt")) {
    QUIRE_ASSIGN_OR_RETURN(const std::string_view vocab, files.text("vocab.txt"));
    return tokenizer_from_vocab_txt(vocab, config);
  }
  return std::unique_ptr<Tokenizer>();
}

Loaded load_from_gguf(const ModelFiles& files, const std::string& name) {
  QUIRE_ASSIGN_OR_RETURN(const auto bytes, files.bytes(name));
  QUIRE_ASSIGN_OR_RETURN(const GgufFile gguf, GgufFile::parse(name, bytes));
  QUIRE_ASSIGN_OR_RETURN(std::optional<GgufVocab> vocab, read_gguf_vocab(gguf));
  if (!vocab) return std::unique_ptr<Tokenizer>();
  return tokenizer_from_gguf(std::move(*vocab));
}

}  // namespace

Result<LoadedTokenizer> load_tokenizer(const ModelFiles& files) {
  const auto gguf = files.gguf_name();
  LoadedTokenizer out;
  Loaded loaded =
      gguf ? load_from_gguf(files, *gguf) : load_from_directory(files, out.tekken_version);
  if (!loaded.ok()) return loaded.status().with_context("tokenizer");
  out.tokenizer = std::move(loaded).value();
  return out;
}

}  // namespace quire
