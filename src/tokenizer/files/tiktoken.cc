#include "tokenizer/files/tiktoken.h"

#include <charconv>

#include "base/base64.h"
#include "tokenizer/model/bpe.h"
#include "tokenizer/model/byte_level.h"
#include "tokenizer/stages/word_scanner.h"

namespace quire {
namespace {

// The limit is far longer than any trained piece, and keeps the search for cuts linear in the file.
constexpr size_t kMaxPieceBytes = 4096;

struct Ranks {
  Vocab bytes;   // pieces as bytes
  Vocab pieces;  // the same, written in the byte alphabet
};

Status add_line(std::string_view line, int64_t line_number, Ranks& ranks) {
  const size_t space = line.find(' ');
  int64_t rank = -1;
  if (space != line.npos) {
    const char* end = line.data() + line.size();
    const auto parsed = std::from_chars(line.data() + space + 1, end, rank);
    if (parsed.ec != std::errc() || parsed.ptr != end) rank = -1;
  }
  const auto bytes = rank < 0 ? std::nullopt : base64_decode(line.substr(0, space));
  if (!bytes || bytes->empty() || bytes->size() > kMaxPieceBytes) {
    return invalid_argument("line {}: expected \"base64 rank\"", line_number);
  }
  if (ranks.bytes.find(*bytes))
    return invalid_argument("line {}: a piece comes twice", line_number);
  QUIRE_RETURN_IF_ERROR(ranks.bytes.add(*bytes, rank));
  return ranks.pieces.add(byte_level_encode(*bytes), rank);
}

Result<Ranks> parse_ranks(std::string_view text) {
  Ranks ranks;
  ranks.bytes.reserve(text.size() / 12, text.size() / 2);
  ranks.pieces.reserve(text.size() / 12, text.size());
  for (int64_t line_number = 1; !text.empty(); ++line_number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) QUIRE_RETURN_IF_ERROR(add_line(line, line_number, ranks));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (ranks.bytes.size() == 0) return invalid_argument("expected \"base64 rank\" lines, got none");
  return ranks;
}

// Any two pieces that join into a piece may merge, at the rank of the result.
std::vector<BpeModel::Merge> merges_from_ranks(const Vocab& bytes) {
  std::vector<BpeModel::Merge> merges;
  for (TokenId id = 0; id < bytes.size(); ++id) {
    const std::string_view piece = bytes.piece(id);
    for (size_t cut = 1; cut < piece.size(); ++cut) {
      const auto left = bytes.find(piece.substr(0, cut));
      if (!left) continue;
      const auto right = bytes.find(piece.substr(cut));
      if (right) merges.push_back({*left, *right, id, static_cast<uint32_t>(id)});
    }
  }
  return merges;
}

Result<TokenizerParts> make_parts(std::string_view rank_text, const TiktokenEncoding& encoding) {
  QUIRE_ASSIGN_OR_RETURN(Ranks ranks, parse_ranks(rank_text));
  TokenizerParts parts;
  TextPattern pattern;
  QUIRE_ASSIGN_OR_RETURN(pattern.regex, Regex::compile(encoding.pattern));
  std::vector<std::unique_ptr<PreTokenizer>> steps;
  steps.push_back(make_split_pre_tokenizer(std::move(pattern), SplitBehavior::kIsolated, false));
  parts.pre_tokenizer = make_sequence_pre_tokenizer(std::move(steps));
  const auto merges = merges_from_ranks(ranks.bytes);
  BpeOptions options{.ignore_merges = true, .raw_bytes = true};
  QUIRE_ASSIGN_OR_RETURN(parts.model, BpeModel::make(std::move(ranks.pieces), merges, options));
  for (const auto& [content, id] : encoding.special_tokens) {
    if (parts.model->vocab().contains(id)) {
      return invalid_argument("special token '{}': id {} is taken by a piece", content, id);
    }
    QUIRE_RETURN_IF_ERROR(parts.added_tokens.add({.id = id, .content = content, .special = true}));
    if (content == encoding.eos_token) parts.eos_id = id;
  }
  parts.decoder_steps.push_back({.kind = DecoderStep::Kind::kByteLevel});
  return parts;
}

}  // namespace

std::optional<TiktokenEncoding> tiktoken_encoding(std::string_view name) {
  const std::string eot = "<|endoftext|>";
  const auto fim = [](TokenId first) -> std::vector<std::pair<std::string, TokenId>> {
    return {
        {"<|fim_prefix|>", first}, {"<|fim_middle|>", first + 1}, {"<|fim_suffix|>", first + 2}};
  };
  if (name == "gpt2" || name == "r50k_base" || name == "p50k_base") {
    return TiktokenEncoding{std::string(kR50kPattern), {{eot, 50256}}, eot};
  }
  if (name == "p50k_edit") {
    auto specials = fim(50281);
    specials.emplace_back(eot, 50256);
    return TiktokenEncoding{std::string(kR50kPattern), specials, eot};
  }
  if (name == "cl100k_base") {
    auto specials = fim(100258);
    specials.emplace_back(eot, 100257);
    specials.emplace_back("<|endofprompt|>", 100276);
    return TiktokenEncoding{std::string(kCl100kPattern), specials, eot};
  }
  if (name == "o200k_base") {
    return TiktokenEncoding{
        std::string(kO200kPattern), {{eot, 199999}, {"<|endofprompt|>", 200018}}, eot};
  }
  if (name != "o200k_harmony") return std::nullopt;
  TiktokenEncoding harmony{std::string(kO200kPattern),
                           {{"<|startoftext|>", 199998},
                            {eot, 199999},
                            {"<|return|>", 200002},
                            {"<|constrain|>", 200003},
                            {"<|channel|>", 200005},
                            {"<|start|>", 200006},
                            {"<|end|>", 200007},
                            {"<|message|>", 200008},
                            {"<|call|>", 200012},
                            {"<|endofprompt|>", 200018}},
                           "<|return|>"};
  for (TokenId id = 200000; id < 201088; ++id) {
    const bool named = id == 200002 || id == 200003 || (id >= 200005 && id <= 200008) ||
                       id == 200012 || id == 200018;
    if (!named) harmony.special_tokens.emplace_back(fmt::format("<|reserved_{}|>", id), id);
  }
  return harmony;
}

Result<std::unique_ptr<Tokenizer>> tokenizer_from_tiktoken(std::string_view rank_text,
                                                           const TiktokenEncoding& encoding) {
  auto parts = make_parts(rank_text, encoding);
  if (!parts.ok()) return parts.status().with_context("tiktoken file");
  return std::make_unique<Tokenizer>(std::move(*parts));
}

}  // namespace quire
