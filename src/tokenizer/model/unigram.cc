#include "tokenizer/model/unigram.h"

#include <algorithm>
#include <cmath>

#include "tokenizer/unicode/unicode.h"

namespace quire {
namespace {

// The score of an unknown character is this much below that of the worst piece.
constexpr double kUnkPenalty = 10.0;
constexpr TokenId kUnknown = -1;

}  // namespace

UnigramModel::UnigramModel(Vocab vocab, std::vector<double> scores, UnigramOptions options)
    : Model(std::move(vocab)), scores_(std::move(scores)), options_(std::move(options)) {}

Result<std::unique_ptr<UnigramModel>> UnigramModel::make(Vocab vocab, std::vector<double> scores,
                                                         UnigramOptions options) {
  if (scores.size() != static_cast<size_t>(vocab.size())) {
    return invalid_argument("Unigram: expected {} scores, got {}", vocab.size(), scores.size());
  }
  if (options.unk_id && !vocab.contains(*options.unk_id)) {
    return invalid_argument("Unigram: the unknown token's id {} is not in the vocabulary",
                            *options.unk_id);
  }
  std::unique_ptr<UnigramModel> model(
      new UnigramModel(std::move(vocab), std::move(scores), std::move(options)));
  double lowest = 0;
  double highest = 0;
  bool any = false;
  for (TokenId id = 0; id < model->vocab_.size(); ++id) {
    const std::string_view piece = model->vocab_.piece(id);
    if (std::isnan(model->scores_[id]))
      return invalid_argument("Unigram: score {} is not a number", id);
    const bool usable = model->options_.is_usable.empty() || model->options_.is_usable[id];
    if (!usable || piece.empty()) continue;
    model->trie_.insert(piece, static_cast<uint32_t>(id));
    const auto& user_defined = model->options_.user_defined;
    if (std::find(user_defined.begin(), user_defined.end(), id) != user_defined.end()) continue;
    lowest = any ? std::min(lowest, model->scores_[id]) : model->scores_[id];
    highest = any ? std::max(highest, model->scores_[id]) : model->scores_[id];
    any = true;
  }
  model->unk_score_ = lowest - kUnkPenalty;
  for (const TokenId id : model->options_.user_defined) {
    const auto length = static_cast<double>(model->vocab_.piece(id).size());
    model->scores_[id] = length * highest - 0.1;
  }
  for (unsigned b = 0; b < 256; ++b) {
    model->byte_ids_[b] = model->vocab_.find(fmt::format("<0x{:02X}>", b)).value_or(-1);
  }
  return model;
}

void UnigramModel::fill_lattice(std::string_view word, EncodeScratch& s) const {
  s.scores.assign(word.size() + 1, 0.0);
  s.starts.assign(word.size() + 1, -1);
  s.best_ids.assign(word.size() + 1, kUnknown);
  const auto consider = [&](size_t begin, size_t end, TokenId id, double score) {
    const double total = s.scores[begin] + score;
    if (s.starts[end] >= 0 && !(total > s.scores[end])) return;
    s.scores[end] =
        options_.single_precision ? static_cast<double>(static_cast<float>(total)) : total;
    s.starts[end] = static_cast<int32_t>(begin);
    s.best_ids[end] = id;
  };
  for (size_t begin = 0; begin < word.size();) {
    const size_t char_size = decode_utf8(word.substr(begin)).size;
    bool has_single = false;
    trie_.visit_prefixes(word.substr(begin), [&](size_t length, uint32_t id) {
      consider(begin, begin + length, static_cast<TokenId>(id), scores_[id]);
      has_single |= length == char_size;
    });
    if (!has_single) consider(begin, begin + char_size, kUnknown, unk_score_);
    begin += char_size;
  }
}

void UnigramModel::encode(std::string_view word, EncodeScratch& s,
                          std::vector<TokenId>& out) const {
  if (s.cache.find(word, out)) return;
  const size_t before = out.size();
  fill_lattice(word, s);
  s.path.clear();
  for (auto end = static_cast<int32_t>(word.size()); end > 0; end = s.starts[end]) {
    s.path.push_back(end);
  }
  int32_t begin = 0;
  for (size_t i = s.path.size(); i-- > 0;) {
    int32_t end = s.path[i];
    const auto is_unknown = [&](int32_t at) {
      return s.best_ids[at] == kUnknown || s.best_ids[at] == options_.unk_id;
    };
    if (!is_unknown(end)) {
      out.push_back(s.best_ids[end]);
    } else {
      while (i > 0 && is_unknown(s.path[i - 1])) end = s.path[--i];
      add_unknown(word.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin)), out);
    }
    begin = end;
  }
  s.cache.store(word, out.data() + before, out.size() - before);
}

void UnigramModel::add_unknown(std::string_view text, std::vector<TokenId>& out) const {
  // The spelling of the unknown token may occur in a text.
  if (options_.is_usable.empty()) {
    if (const auto id = vocab_.find(text)) return out.push_back(*id);
  }
  if (options_.byte_fallback) {
    const bool complete = std::none_of(text.begin(), text.end(), [&](char b) {
      return byte_ids_[static_cast<unsigned char>(b)] < 0;
    });
    if (complete) {
      for (const char b : text) out.push_back(byte_ids_[static_cast<unsigned char>(b)]);
      return;
    }
  }
  if (options_.unk_id) out.push_back(*options_.unk_id);
}

}  // namespace quire
