#include "tokenizer/tokenizer.h"

#include <algorithm>

#include "base/check.h"
#include "tokenizer/unicode/unicode.h"

namespace quire {

Tokenizer::Tokenizer(TokenizerParts parts)
    : parts_(std::move(parts)), decoder_(std::move(parts_.decoder_steps)) {
  QUIRE_CHECK(parts_.model != nullptr);
  parts_.added_tokens.freeze(parts_.normalizer.get());
  vocab_size_ = parts_.model->vocab().size();
  for (const AddedToken& token : parts_.added_tokens.all()) {
    vocab_size_ = std::max(vocab_size_, token.id + 1);
  }
}

Tokenizer::~Tokenizer() {
  for (auto& slot : idle_) delete slot.load();
}

std::unique_ptr<EncodeScratch> Tokenizer::take_scratch() const {
  for (auto& slot : idle_) {
    if (slot.load(std::memory_order_relaxed) == nullptr) continue;
    if (EncodeScratch* scratch = slot.exchange(nullptr, std::memory_order_acquire)) {
      return std::unique_ptr<EncodeScratch>(scratch);
    }
  }
  return std::make_unique<EncodeScratch>();
}

void Tokenizer::give_scratch(std::unique_ptr<EncodeScratch> scratch) const {
  num_merge_steps_.fetch_add(std::exchange(scratch->num_merge_steps, 0), std::memory_order_relaxed);
  // Larger work memory is not kept, so that one huge text does not occupy memory for ever.
  constexpr size_t kMaxKept = size_t{1} << 20;
  if (scratch->ids.capacity() > kMaxKept || scratch->scores.capacity() > kMaxKept) return;
  for (auto& slot : idle_) {
    EncodeScratch* expected = nullptr;
    if (slot.compare_exchange_strong(expected, scratch.get(), std::memory_order_release,
                                     std::memory_order_relaxed)) {
      static_cast<void>(scratch.release());  // The slot owns it.
      return;
    }
  }
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::string repaired;
  if (!is_valid_utf8(text)) {
    repaired = to_valid_utf8(text);
    text = repaired;
  }
  std::vector<TokenId> out;
  out.reserve(text.size() / 4 + 8);
  if (options.add_special_tokens) out = parts_.prefix_ids;
  auto scratch = take_scratch();
  if (!parts_.added_tokens.has(AddedTokens::Pass::kRaw)) {
    encode_segment(text, true, options.parse_special, *scratch, out);
  } else {
    std::vector<AddedTokens::Segment> segments;
    parts_.added_tokens.split(text, AddedTokens::Pass::kRaw, options.parse_special, segments);
    for (const auto& segment : segments) {
      if (segment.id >= 0) {
        out.push_back(segment.id);
      } else {
        const bool is_first = segment.text.data() == text.data();
        encode_segment(segment.text, is_first, options.parse_special, *scratch, out);
      }
    }
  }
  give_scratch(std::move(scratch));
  if (options.add_special_tokens) {
    out.insert(out.end(), parts_.suffix_ids.begin(), parts_.suffix_ids.end());
  }
  return out;
}

EncodedPair Tokenizer::encode_pair(std::string_view first, std::string_view second,
                                   int64_t max_tokens) const {
  const PairTemplate& around = parts_.pair;
  std::vector<TokenId> a = encode(first, {.add_special_tokens = false});
  std::vector<TokenId> b = encode(second, {.add_special_tokens = false});
  const auto num_around = static_cast<int64_t>(around.prefix_ids.size() + around.middle_ids.size() +
                                               around.suffix_ids.size());
  if (max_tokens > 0) {
    int64_t excess = num_around + std::ssize(a) + std::ssize(b) - max_tokens;
    for (; excess > 0 && !(a.empty() && b.empty()); --excess) {
      (a.size() > b.size() ? a : b).pop_back();
    }
  }
  EncodedPair out{.ids = around.prefix_ids};
  const auto append = [&out](const std::vector<TokenId>& ids) {
    out.ids.insert(out.ids.end(), ids.begin(), ids.end());
  };
  append(a);
  append(around.middle_ids);
  if (around.second_has_type_1) out.first_type_1_token = static_cast<int32_t>(out.ids.size());
  append(b);
  append(around.suffix_ids);
  return out;
}

void Tokenizer::encode_segment(std::string_view text, bool is_first, bool match_special,
                               EncodeScratch& scratch, std::vector<TokenId>& out) const {
  if (text.empty()) return;
  const Normalizer* normalizer = !is_first && parts_.inner_normalizer != nullptr
                                     ? parts_.inner_normalizer.get()
                                     : parts_.normalizer.get();
  std::string normalized;
  if (normalizer != nullptr) {
    is_first = is_first && !normalizer->strips_start(text);
    normalized = normalizer->normalize(std::string(text));
    text = normalized;
  }
  if (!parts_.added_tokens.has(AddedTokens::Pass::kNormalized)) {
    return encode_plain(text, is_first, scratch, out);
  }
  std::vector<AddedTokens::Segment> segments;
  parts_.added_tokens.split(text, AddedTokens::Pass::kNormalized, match_special, segments);
  for (const auto& segment : segments) {
    if (segment.id >= 0) {
      out.push_back(segment.id);
    } else {
      encode_plain(segment.text, is_first && segment.text.data() == text.data(), scratch, out);
    }
  }
}

void Tokenizer::encode_plain(std::string_view text, bool is_first, EncodeScratch& scratch,
                             std::vector<TokenId>& out) const {
  if (text.empty()) return;
  if (parts_.pre_tokenizer == nullptr) return parts_.model->encode(text, scratch, out);
  SplitList list;
  list.words.push_back(text);
  list.at_text_start = is_first;
  parts_.pre_tokenizer->split(list);
  for (const std::string_view word : list.words) {
    if (!word.empty()) parts_.model->encode(word, scratch, out);
  }
}

std::string Tokenizer::decode(std::span<const TokenId> ids, const DecodeOptions& options) const {
  DecodeStream stream(decoder_, DecodeStream::Mode::kWhole);
  std::string out;
  for (const TokenId id : ids) {
    if (options.skip_special_tokens && is_special(id)) continue;
    const std::string_view piece = token_to_piece(id);
    if (!piece.empty()) stream.push(piece, out);
  }
  stream.finish(out);
  return out;
}

std::string_view Tokenizer::token_to_piece(TokenId id) const {
  if (const AddedToken* token = parts_.added_tokens.find(id)) return token->piece;
  return parts_.model->vocab().piece(id);
}

std::optional<TokenId> Tokenizer::piece_to_token(std::string_view piece) const {
  if (const AddedToken* token = parts_.added_tokens.find(piece)) return token->id;
  return parts_.model->vocab().find(piece);
}

std::string Tokenizer::token_bytes(TokenId id) const {
  if (parts_.added_tokens.find(id) != nullptr) return std::string(token_to_piece(id));
  const std::string_view piece = token_to_piece(id);
  return piece.empty() ? std::string() : decoder_.mid_text_bytes(piece);
}

std::vector<TokenId> Tokenizer::special_ids() const {
  std::vector<TokenId> ids;
  for (const AddedToken& token : parts_.added_tokens.all()) {
    if (token.special) ids.push_back(token.id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

}  // namespace quire
