// A golden is a tokenizer with the output of a reference library for some texts and ids, as
// tools/make_tokenizer_goldens.py and tools/compare_random_tokenizers.py write it. Tests and tools
// read it.
#pragma once

#include <boost/json.hpp>
#include <memory>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace quire {

// One description per disagreement with the golden; empty if there is none.
using Differences = std::vector<std::string>;

// Loads the tokenizer of the golden: "tokenizer" (a tokenizer.json), "model_b64" (a SentencePiece
// model), "tiktoken", "kimi" (a tiktoken.model) with "config", "tekken" (a tekken.json) or "gguf"
// (the vocabulary of a GGUF file).
Result<std::unique_ptr<Tokenizer>> load_golden_tokenizer(const boost::json::object& golden);

// Compares "cases": {"text", "ids" with the post-processor's tokens, "ids_plain" without them,
// "ids_unparsed" with the text's special tokens read as plain text}. Each list may be absent.
Differences encode_differences(const Tokenizer& tokenizer, const boost::json::object& golden);
// Compares "decodes": {"ids", "text", "text_skip" without special tokens}, decoded whole and
// streamed.
Differences decode_differences(const Tokenizer& tokenizer, const boost::json::object& golden);
// Compares "size", and "pieces", which has every "pieces_step"-th id.
Differences piece_differences(const Tokenizer& tokenizer, const boost::json::object& golden);

}  // namespace quire
