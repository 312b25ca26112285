// A tokenizer and what a reference library made of some texts and ids, as
// tools/make_tokenizer_goldens.py and tools/compare_random_tokenizers.py write them. For tests and
// tools.
#pragma once

#include <boost/json.hpp>
#include <memory>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace quire {

// One description for each disagreement with the golden; none: all is as the reference has it.
using Differences = std::vector<std::string>;

// The tokenizer of the golden: "tokenizer" (a tokenizer.json), "model_b64" (a SentencePiece model)
// or "tiktoken".
Result<std::unique_ptr<Tokenizer>> load_golden_tokenizer(const boost::json::object& golden);

// "cases": {"text", "ids" with the post-processor's tokens, "ids_plain" without, "ids_unparsed"
// with special tokens of the text left as text}; each list may be absent.
Differences encode_differences(const Tokenizer& tokenizer, const boost::json::object& golden);
// "decodes": {"ids", "text", "text_skip" without special tokens}, whole and streamed.
Differences decode_differences(const Tokenizer& tokenizer, const boost::json::object& golden);
// "size", and "pieces" of every "pieces_step"-th id.
Differences piece_differences(const Tokenizer& tokenizer, const boost::json::object& golden);

}  // namespace quire
