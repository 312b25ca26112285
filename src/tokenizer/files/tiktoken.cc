#include "tokenizer/files/tiktoken.h"

#include <algorithm>
#include <charconv>

#include "base/base64.h"
#include "tokenizer/files/ranked_pieces.h"
#include "tokenizer/json/hf_config.h"
#include "tokenizer/stages/word_scanner.h"

namespace quire {
namespace {

// Kimi's files leave room for this many special tokens behind the pieces.
constexpr TokenId kNumKimiSpecialTokens = 256;

Status add_line(std::string_view line, RankedPieces& pieces) {
  const size_t space = line.find(' ');
  int64_t rank = -1;
  if (space != line.npos) {
    const char* end = line.data() + line.size();
    const auto parsed = std::from_chars(line.data() + space + 1, end, rank);
    if (parsed.ec != std::errc() || parsed.ptr != end) rank = -1;
  }
  const auto bytes = rank < 0 ? std::nullopt : base64_decode(line.substr(0, space));
  if (!bytes) return invalid_argument("expected \"base64 rank\"");
  return pieces.add(*bytes, rank);
}

Result<RankedPieces> parse_ranks(std::string_view text) {
  RankedPieces pieces;
  pieces.reserve(text.size() / 12, text.size() / 2);
  for (int64_t line_number = 1; !text.empty(); ++line_number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const Status added = line.empty() ? Status() : add_line(line, pieces);
    if (!added.ok()) return added.with_context(fmt::format("line {}", line_number));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (pieces.size() == 0) return invalid_argument("expected \"base64 rank\" lines, got none");
  return pieces;
}

Result<TokenizerParts> make_parts(RankedPieces pieces, const TiktokenEncoding& encoding) {
  QUIRE_ASSIGN_OR_RETURN(TokenizerParts parts,
                         std::move(pieces).make_parts(encoding.pattern, /*first_id=*/0));
  for (const auto& [content, id] : encoding.special_tokens) {
    if (parts.model->vocab().contains(id)) {
      return invalid_argument("special token '{}': id {} is taken by a piece", content, id);
    }
    QUIRE_RETURN_IF_ERROR(parts.added_tokens.add({.id = id, .content = content, .special = true}));
    if (content == encoding.eos_token) parts.eos_id = id;
  }
  return parts;
}

Result<TokenizerParts> make_kimi_parts(std::string_view rank_text, std::string_view config_json) {
  QUIRE_ASSIGN_OR_RETURN(const HfTokenizerConfig config, parse_hf_tokenizer_config(config_json));
  QUIRE_ASSIGN_OR_RETURN(RankedPieces pieces, parse_ranks(rank_text));
  TiktokenEncoding encoding{.pattern = std::string(kKimiPattern)};
  for (TokenId i = 0; i < kNumKimiSpecialTokens; ++i) {
    const TokenId id = pieces.size() + i;
    const auto has_id = [id](const AddedToken& token) { return token.id == id; };
    if (std::any_of(config.added_tokens.begin(), config.added_tokens.end(), has_id)) continue;
    encoding.special_tokens.emplace_back(fmt::format("<|reserved_token_{}|>", id), id);
  }
  QUIRE_ASSIGN_OR_RETURN(TokenizerParts parts, make_parts(std::move(pieces), encoding));
  QUIRE_RETURN_IF_ERROR(apply_hf_config(config, parts));
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
  auto pieces = parse_ranks(rank_text);
  if (!pieces.ok()) return pieces.status().with_context("tiktoken file");
  auto parts = make_parts(std::move(*pieces), encoding);
  if (!parts.ok()) return parts.status().with_context("tiktoken file");
  return std::make_unique<Tokenizer>(std::move(*parts));
}

Result<std::unique_ptr<Tokenizer>> tokenizer_from_kimi_tiktoken(std::string_view rank_text,
                                                                std::string_view config_json) {
  auto parts = make_kimi_parts(rank_text, config_json);
  if (!parts.ok()) return parts.status().with_context("tiktoken.model");
  return std::make_unique<Tokenizer>(std::move(*parts));
}

}  // namespace quire
