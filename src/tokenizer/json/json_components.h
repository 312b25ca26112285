// These functions parse the components of a tokenizer.json. The header is private to the tokenizer
// folder.
#pragma once

#include <boost/json.hpp>
#include <memory>
#include <vector>

#include "base/result.h"
#include "tokenizer/model/model.h"
#include "tokenizer/pairs.h"
#include "tokenizer/stages/decoder.h"
#include "tokenizer/stages/normalizer.h"
#include "tokenizer/stages/pre_tokenizer.h"

namespace quire {

// All of these functions return an error that names the type if a type is unknown.
Result<std::unique_ptr<Normalizer>> parse_normalizer(const boost::json::value& value);

// With `raw_bytes`, a ByteLevel step at the end outputs bytes instead of their characters.
Result<std::unique_ptr<PreTokenizer>> parse_pre_tokenizer(const boost::json::value& value,
                                                          bool raw_bytes);
// Returns whether the last step of `value` is ByteLevel.
bool ends_in_byte_level(const boost::json::value& value);

Status parse_decoder(const boost::json::value& value, std::vector<DecoderStep>& steps);

// PostProcessor holds the ids that are put around a single text, and around and between two.
struct PostProcessor {
  std::vector<TokenId> prefix_ids;
  std::vector<TokenId> suffix_ids;
  std::optional<PairTemplate> pair;  // nullopt if the file has no template for pairs
};
Status parse_post_processor(const boost::json::value& value, PostProcessor& out);

struct ParsedModel {
  std::unique_ptr<Model> model;
  bool is_bpe = false;
  std::optional<TokenId> unk_id;
};
// `byte_level_words` says that the pre-tokenizer ends in ByteLevel. parse_model() then makes a BPE
// that reads raw bytes, if it can, and sets `reads_raw_bytes`.
struct ModelInput {
  bool byte_level_words = false;
  bool reads_raw_bytes = false;  // set by parse_model
};
Result<ParsedModel> parse_model(const boost::json::value& value, ModelInput& input);

}  // namespace quire
