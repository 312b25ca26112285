#include "tokenizer/model/bpe.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "base/check.h"
#include "tokenizer/model/byte_level.h"
#include "tokenizer/unicode/unicode.h"

namespace quire {
namespace {

constexpr std::string_view kMetaspace = "\xE2\x96\x81";
constexpr uint64_t kNoPair = FlatMap64::kNone;
// Words of at most this many symbols are merged by scanning, longer ones with a heap.
constexpr size_t kMaxScannedSymbols = 48;
// Trained pieces are far shorter. The limit keeps a hostile file from making the search for cuts
// quadratic.
constexpr size_t kMaxMergedBytes = 1024;
// Marks a symbol that was merged into its left neighbour.
constexpr TokenId kGone = std::numeric_limits<TokenId>::min();

uint64_t pair_key(TokenId left, TokenId right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

BpeModel::BpeModel(Vocab vocab, BpeOptions options)
    : Model(std::move(vocab)), options_(std::move(options)) {}

Result<std::unique_ptr<BpeModel>> BpeModel::make(Vocab vocab, const std::vector<Merge>& merges,
                                                 BpeOptions options) {
  std::unique_ptr<BpeModel> model(new BpeModel(std::move(vocab), std::move(options)));
  const Vocab& pieces = model->vocab_;
  model->merges_.reserve(merges.size());
  for (const Merge& merge : merges) {
    const bool known = pieces.contains(merge.left) && pieces.contains(merge.right) &&
                       pieces.contains(merge.result) && merge.rank != ~uint32_t{0};
    if (!known) return invalid_argument("merges: rank {} names an unknown piece", merge.rank);
    model->merges_.insert_or_assign(
        pair_key(merge.left, merge.right),
        static_cast<uint64_t>(merge.rank) << 32 | static_cast<uint32_t>(merge.result));
  }
  if (model->options_.unk_id && !pieces.contains(*model->options_.unk_id)) {
    return invalid_argument("BPE: the unknown token's id {} is not in the vocabulary",
                            *model->options_.unk_id);
  }
  for (const TokenId id : model->options_.user_defined) {
    const std::string_view piece = pieces.piece(id);
    if (!piece.empty()) model->user_defined_.insert(piece, static_cast<uint32_t>(id));
  }
  model->index_bytes();
  model->find_safe_boundary();
  return model;
}

void BpeModel::index_bytes() {
  byte_ids_.fill(-1);
  for (unsigned b = 0; b < 256; ++b) {
    const std::string piece = options_.raw_bytes
                                  ? to_utf8(byte_level_char(static_cast<unsigned char>(b)))
                                  : fmt::format("<0x{:02X}>", b);
    byte_ids_[b] = vocab_.find(piece).value_or(-1);
  }
  if (!options_.raw_bytes || !options_.ignore_merges) return;
  raw_pieces_ = std::make_unique<Vocab>();
  raw_pieces_->reserve(static_cast<size_t>(vocab_.size()), 0);
  for (TokenId id = 0; id < vocab_.size(); ++id) {
    if (!vocab_.contains(id)) continue;
    const auto bytes = byte_level_decode(vocab_.piece(id));
    // This cannot fail, since the ids come from a vocabulary.
    if (bytes && !bytes->empty()) QUIRE_CHECK(raw_pieces_->add(*bytes, id).ok());
  }
}

// Text that is not split at white space is one long word. If no merge can join another character
// with a following U+2581, each U+2581 behind another character begins an independent word, and
// such words can be cached.
void BpeModel::find_safe_boundary() {
  const bool never_unknown =
      options_.byte_fallback &&
      std::none_of(byte_ids_.begin(), byte_ids_.end(), [](TokenId id) { return id < 0; });
  if (options_.raw_bytes || !never_unknown || options_.ignore_merges || !user_defined_.empty() ||
      !options_.continuing_subword_prefix.empty() || !options_.end_of_word_suffix.empty()) {
    return;
  }
  for (TokenId id = 0; id < vocab_.size(); ++id) {
    std::string_view rest = vocab_.piece(id);
    while (rest.starts_with(kMetaspace)) rest.remove_prefix(kMetaspace.size());
    if (rest.find(kMetaspace) != rest.npos) return;
  }
  splits_at_metaspace_ = true;
}

void BpeModel::encode(std::string_view word, EncodeScratch& scratch,
                      std::vector<TokenId>& out) const {
  if (!splits_at_metaspace_) return encode_uncached(word, scratch, out);
  while (!word.empty()) {
    size_t end = 0;
    while (word.substr(end).starts_with(kMetaspace)) end += kMetaspace.size();
    end = std::min(word.find(kMetaspace, end), word.size());
    encode_uncached(word.substr(0, end), scratch, out);
    word.remove_prefix(end);
  }
}

void BpeModel::encode_uncached(std::string_view word, EncodeScratch& scratch,
                               std::vector<TokenId>& out) const {
  if (scratch.cache.find(word, out)) return;
  const size_t before = out.size();
  if (options_.ignore_merges) {
    const auto whole = raw_pieces_ ? raw_pieces_->find(word) : vocab_.find(word);
    if (whole) {
      out.push_back(*whole);
      return scratch.cache.store(word, out.data() + before, 1);
    }
  }
  scratch.ids.clear();
  if (options_.raw_bytes) {
    add_raw_bytes(word, scratch.ids);
  } else {
    add_symbols(word, scratch.ids);
  }
  if (scratch.ids.size() <= kMaxScannedSymbols) {
    merge_short(scratch);
  } else {
    merge_long(scratch);
  }
  for (const TokenId id : scratch.ids) {
    // Symbols that must not merge are stored as ~id.
    if (id != kGone) out.push_back(id < 0 ? ~id : id);
  }
  scratch.cache.store(word, out.data() + before, out.size() - before);
}

void BpeModel::add_raw_bytes(std::string_view word, std::vector<TokenId>& ids) const {
  bool after_unk = false;
  for (const char b : word) {
    const TokenId id = byte_ids_[static_cast<unsigned char>(b)];
    if (id >= 0) {
      ids.push_back(id);
      after_unk = false;
    } else if (options_.unk_id) {
      if (!after_unk || !options_.fuse_unk) ids.push_back(*options_.unk_id);
      after_unk = true;
    }
  }
}

bool BpeModel::add_byte_fallback(std::string_view character, std::vector<TokenId>& ids) const {
  const auto missing = [&](char b) { return byte_ids_[static_cast<unsigned char>(b)] < 0; };
  if (!options_.byte_fallback || std::any_of(character.begin(), character.end(), missing)) {
    return false;
  }
  for (const char b : character) ids.push_back(byte_ids_[static_cast<unsigned char>(b)]);
  return true;
}

void BpeModel::add_symbols(std::string_view word, std::vector<TokenId>& ids) const {
  const bool has_affixes =
      !options_.continuing_subword_prefix.empty() || !options_.end_of_word_suffix.empty();
  std::string decorated;
  bool unk_pending = false;
  for (size_t i = 0; i < word.size();) {
    if (!user_defined_.empty()) {
      const auto match = user_defined_.longest_prefix(word.substr(i));
      if (match.length > 0) {
        if (unk_pending) ids.push_back(*options_.unk_id);
        unk_pending = false;
        ids.push_back(~static_cast<TokenId>(match.value));
        i += match.length;
        continue;
      }
    }
    const std::string_view character = word.substr(i, decode_utf8(word.substr(i)).size);
    std::string_view symbol = character;
    if (has_affixes) {
      decorated.clear();
      if (i > 0) decorated += options_.continuing_subword_prefix;
      decorated += character;
      if (i + character.size() == word.size()) decorated += options_.end_of_word_suffix;
      symbol = decorated;
    }
    i += character.size();
    if (const auto id = vocab_.find(symbol)) {
      if (unk_pending) ids.push_back(*options_.unk_id);
      unk_pending = false;
      ids.push_back(*id);
    } else if (!add_byte_fallback(symbol, ids) && options_.unk_id) {
      // The unknown token waits for the end of its run. Byte pieces may be written before it, as in
      // the reference.
      if (unk_pending && !options_.fuse_unk) ids.push_back(*options_.unk_id);
      unk_pending = true;
    }
  }
  if (unk_pending) ids.push_back(*options_.unk_id);
}

// Returns (rank, result) of the pair that starts at `pos`, or kNoPair.
uint64_t BpeModel::pair_at(const EncodeScratch& s, int32_t pos) const {
  const int32_t right = s.next[pos];
  if (right < 0 || s.ids[pos] < 0 || s.ids[right] < 0) return kNoPair;
  return merges_.find(pair_key(s.ids[pos], s.ids[right]));
}

void BpeModel::merge_short(EncodeScratch& s) const {
  std::vector<TokenId>& ids = s.ids;
  std::vector<uint64_t>& pairs = s.pairs;
  const auto pair = [&](size_t i) {
    return i + 1 < ids.size() && ids[i] >= 0 && ids[i + 1] >= 0
               ? merges_.find(pair_key(ids[i], ids[i + 1]))
               : kNoPair;
  };
  pairs.resize(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) pairs[i] = pair(i);
  while (ids.size() > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < ids.size(); ++i) {
      if (pairs[i] >> 32 < pairs[best] >> 32) best = i;
    }
    s.num_merge_steps += ids.size();
    if (pairs[best] == kNoPair) return;
    ids[best] = static_cast<TokenId>(pairs[best] & 0xFFFFFFFFu);
    ids.erase(ids.begin() + static_cast<ptrdiff_t>(best) + 1);
    pairs.erase(pairs.begin() + static_cast<ptrdiff_t>(best) + 1);
    pairs[best] = pair(best);
    if (best > 0) pairs[best - 1] = pair(best - 1);
  }
}

// An element of the heap is rank << 32 | position. It is stale if the pair at its position has
// another rank by now.
void BpeModel::merge_long(EncodeScratch& s) const {
  const auto n = static_cast<int32_t>(s.ids.size());
  s.prev.resize(s.ids.size());
  s.next.resize(s.ids.size());
  s.pairs.resize(s.ids.size());
  s.heap.clear();
  for (int32_t i = 0; i < n; ++i) {
    s.prev[i] = i - 1;
    s.next[i] = i + 1 < n ? i + 1 : -1;
  }
  const auto entry = [&](int32_t pos) {
    return s.pairs[pos] >> 32 << 32 | static_cast<uint32_t>(pos);
  };
  for (int32_t i = 0; i < n; ++i) {
    s.pairs[i] = pair_at(s, i);
    if (s.pairs[i] != kNoPair) s.heap.push_back(entry(i));
  }
  std::make_heap(s.heap.begin(), s.heap.end(), std::greater<>());
  const auto refresh = [&](int32_t pos) {
    s.pairs[pos] = pair_at(s, pos);
    if (s.pairs[pos] == kNoPair) return;
    s.heap.push_back(entry(pos));
    std::push_heap(s.heap.begin(), s.heap.end(), std::greater<>());
  };
  while (!s.heap.empty()) {
    const uint64_t top = s.heap.front();
    std::pop_heap(s.heap.begin(), s.heap.end(), std::greater<>());
    s.heap.pop_back();
    ++s.num_merge_steps;
    const auto pos = static_cast<int32_t>(top & 0xFFFFFFFFu);
    if (s.pairs[pos] == kNoPair || entry(pos) != top) continue;
    const int32_t right = s.next[pos];
    s.ids[pos] = static_cast<TokenId>(s.pairs[pos] & 0xFFFFFFFFu);
    s.ids[right] = kGone;
    s.pairs[right] = kNoPair;
    s.next[pos] = s.next[right];
    if (s.next[right] >= 0) s.prev[s.next[right]] = pos;
    refresh(pos);
    if (s.prev[pos] >= 0) refresh(s.prev[pos]);
  }
}

std::vector<BpeModel::Merge> merges_from_scores(const Vocab& vocab,
                                                const std::vector<float>& scores,
                                                const std::vector<bool>& is_mergeable) {
  std::vector<TokenId> order;
  for (TokenId id = 0; id < vocab.size(); ++id) {
    if (vocab.contains(id) && is_mergeable[id]) order.push_back(id);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](TokenId a, TokenId b) { return scores[a] > scores[b]; });
  std::vector<BpeModel::Merge> merges;
  uint32_t rank = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && scores[order[i]] != scores[order[i - 1]]) ++rank;
    const std::string_view piece = vocab.piece(order[i]);
    if (piece.size() > kMaxMergedBytes) continue;
    for (size_t cut = 1; cut < piece.size(); ++cut) {
      if ((static_cast<unsigned char>(piece[cut]) & 0xC0) == 0x80) continue;
      const auto left = vocab.find(piece.substr(0, cut));
      if (!left || !is_mergeable[*left]) continue;
      const auto right = vocab.find(piece.substr(cut));
      if (right && is_mergeable[*right]) merges.push_back({*left, *right, order[i], rank});
    }
  }
  return merges;
}

}  // namespace quire
