// A Tokenizer turns text into token ids and back.
//
//   QUIRE_ASSIGN_OR_RETURN(auto tokenizer, tokenizer_from_json(text, config_text));
//   std::vector<TokenId> ids = tokenizer->encode("Hello", {.add_special_tokens = true});
//   std::string text = tokenizer->decode(ids, {.skip_special_tokens = true});
//
// Loaders are in json/tokenizer_json.h, sentencepiece/sentencepiece_model.h and files/;
// detokenizer.h streams.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "tokenizer/model/model.h"
#include "tokenizer/pairs.h"
#include "tokenizer/stages/added_tokens.h"
#include "tokenizer/stages/decoder.h"
#include "tokenizer/stages/normalizer.h"
#include "tokenizer/stages/pre_tokenizer.h"

namespace quire {

struct EncodeOptions {
  // The tokens that the post-processor puts around a text (BOS, [CLS] …).
  bool add_special_tokens = true;
  bool parse_special = true;  // special tokens in the text become their ids
};

struct DecodeOptions {
  bool skip_special_tokens = false;
};

// TokenizerParts are what a loader makes a tokenizer of.
struct TokenizerParts {
  std::unique_ptr<Normalizer> normalizer;       // may be null
  std::unique_ptr<PreTokenizer> pre_tokenizer;  // may be null
  std::unique_ptr<Model> model;
  AddedTokens added_tokens;         // not frozen yet
  std::vector<TokenId> prefix_ids;  // put before a text with add_special_tokens
  std::vector<TokenId> suffix_ids;
  // Put around two texts; without the tokenizer's own template, the texts are concatenated.
  PairTemplate pair;
  std::vector<DecoderStep> decoder_steps;
  std::optional<TokenId> bos_id;
  std::optional<TokenId> eos_id;
  std::optional<TokenId> unk_id;
  std::optional<TokenId> pad_id;
  // The normalizer of text that follows an added token, if that text is not treated like the start
  // of a text. May be null.
  std::unique_ptr<Normalizer> inner_normalizer;
};

// A tokenizer is immutable and thread-safe: one is shared among all threads.
class Tokenizer {
 public:
  explicit Tokenizer(TokenizerParts parts);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Encodes a text of less than 2 GiB. Each maximal ill-formed part of UTF-8 counts as one U+FFFD.
  // The time is O(n log n) in the worst case.
  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options = {}) const;

  // Encodes two texts as one sequence. If `max_tokens` is 0 there is no limit; otherwise the longer
  // text (the second one if both are equally long) loses tokens at its end until the sequence fits.
  EncodedPair encode_pair(std::string_view first, std::string_view second,
                          int64_t max_tokens = 0) const;

  // Returns valid UTF-8. Ids that are not in the vocabulary add no text.
  std::string decode(std::span<const TokenId> ids, const DecodeOptions& options = {}) const;

  // Returns the token as the vocabulary writes it ("Ġthe", "▁the", "<0x0A>"), or an empty view for
  // an unknown id. The view lives as long as the tokenizer.
  std::string_view token_to_piece(TokenId id) const;
  std::optional<TokenId> piece_to_token(std::string_view piece) const;

  // Returns the bytes that the token adds in the middle of a text; alone, they may be incomplete
  // UTF-8.
  std::string token_bytes(TokenId id) const;

  // Returns the largest id + 1, added tokens included. Ids below it may be unused; token_to_piece()
  // returns an empty view for them.
  int32_t vocab_size() const { return vocab_size_; }
  bool is_special(TokenId id) const { return parts_.added_tokens.is_special(id); }
  bool is_added(TokenId id) const { return parts_.added_tokens.find(id) != nullptr; }
  // Returns the ids of all special tokens in ascending order.
  std::vector<TokenId> special_ids() const;

  std::optional<TokenId> bos_id() const { return parts_.bos_id; }
  std::optional<TokenId> eos_id() const { return parts_.eos_id; }
  std::optional<TokenId> unk_id() const { return parts_.unk_id; }
  std::optional<TokenId> pad_id() const { return parts_.pad_id; }

  // Returns the decoder, for IncrementalDetokenizer.
  const TextDecoder& decoder() const { return decoder_; }

  // Returns the number of merging steps of all finished calls. Tests check that it stays bounded.
  uint64_t num_merge_steps() const { return num_merge_steps_.load(std::memory_order_relaxed); }

 private:
  void encode_segment(std::string_view text, bool is_first, bool match_special,
                      EncodeScratch& scratch, std::vector<TokenId>& out) const;
  void encode_plain(std::string_view text, bool is_first, EncodeScratch& scratch,
                    std::vector<TokenId>& out) const;
  std::unique_ptr<EncodeScratch> take_scratch() const;
  void give_scratch(std::unique_ptr<EncodeScratch> scratch) const;

  TokenizerParts parts_;
  TextDecoder decoder_;
  int32_t vocab_size_ = 0;
  // Idle scratches, taken and returned by atomic exchange without a lock. No more than these are
  // kept.
  mutable std::array<std::atomic<EncodeScratch*>, 16> idle_{};
  mutable std::atomic<uint64_t> num_merge_steps_{0};
};

}  // namespace quire
