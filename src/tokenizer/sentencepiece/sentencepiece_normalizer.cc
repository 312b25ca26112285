#include "tokenizer/stages/normalizer.h"
#include "tokenizer/unicode/unicode.h"

namespace quire {
namespace {

constexpr std::string_view kMetaspace = "\xE2\x96\x81";  // U+2581

class SentencePieceNormalizer final : public Normalizer {
 public:
  explicit SentencePieceNormalizer(SentencePieceNormalizerOptions options)
      : options_(std::move(options)) {}

  std::string normalize(std::string text) const override {
    std::string_view in = text;
    if (options_.remove_extra_whitespaces) {
      while (!in.empty()) {
        const Chunk chunk = next_chunk(in);
        if (chunk.text != " ") break;
        in.remove_prefix(chunk.consumed);
      }
    }
    if (in.empty()) return {};
    const std::string_view space = options_.escape_whitespaces ? kMetaspace : " ";
    std::string out;
    out.reserve(in.size() + in.size() / 2);
    if (options_.add_dummy_prefix && !options_.whitespace_as_suffix) out += space;
    append_body(in, space, out);
    if (options_.remove_extra_whitespaces) {
      while (out.ends_with(space)) out.erase(out.size() - space.size());
    }
    if (options_.add_dummy_prefix && options_.whitespace_as_suffix) out += space;
    return out;
  }

 private:
  struct Chunk {
    std::string_view text;
    size_t consumed = 0;
  };

  Chunk next_chunk(std::string_view in) const {
    if (!options_.protected_pieces.empty()) {
      const auto match = options_.protected_pieces.longest_prefix(in);
      if (match.length > 0) return {in.substr(0, match.length), match.length};
    }
    if (options_.charsmap) {
      if (const auto match = options_.charsmap->longest_prefix(in)) {
        return {match->replacement, match->length};
      }
    }
    const size_t size = decode_utf8(in).size;
    return {in.substr(0, size), size};
  }

  void append_body(std::string_view in, std::string_view space, std::string& out) const {
    bool after_space = options_.remove_extra_whitespaces;
    while (!in.empty()) {
      const Chunk chunk = next_chunk(in);
      in.remove_prefix(chunk.consumed);
      std::string_view piece = chunk.text;
      while (after_space && piece.starts_with(' ')) piece.remove_prefix(1);
      if (piece.empty()) continue;
      for (const char c : piece) {
        if (c == ' ') {
          out += space;
        } else {
          out += c;
        }
      }
      after_space = options_.remove_extra_whitespaces && piece.ends_with(' ');
    }
  }

  SentencePieceNormalizerOptions options_;
};

}  // namespace

std::unique_ptr<Normalizer> make_sentencepiece_normalizer(SentencePieceNormalizerOptions options) {
  return std::make_unique<SentencePieceNormalizer>(std::move(options));
}

}  // namespace quire
