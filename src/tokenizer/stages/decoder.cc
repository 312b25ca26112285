#include "tokenizer/stages/decoder.h"

#include <utility>

#include "tokenizer/model/byte_level.h"
#include "tokenizer/stages/decode_stages.h"

namespace quire {

TextDecoder::TextDecoder(std::vector<DecoderStep> steps) : steps_(std::move(steps)) {
  if (steps_.empty()) steps_.push_back({.kind = DecoderStep::Kind::kJoinWithSpace});
}

std::string TextDecoder::mid_text_bytes(std::string_view piece) const {
  using Kind = DecoderStep::Kind;
  std::string text(piece);
  bool fused = false;
  for (const DecoderStep& step : steps_) {
    switch (step.kind) {
      case Kind::kByteLevel:
        if (auto bytes = byte_level_decode(text)) text = std::move(*bytes);
        fused = true;
        break;
      case Kind::kMetaspace:
        text = replace_all(text, step.text, " ");
        break;
      case Kind::kWordPiece:
        if (text.starts_with(step.text)) {
          text.erase(0, step.text.size());
        } else {
          text.insert(text.begin(), ' ');
        }
        if (step.flag) text = clean_up_wordpiece(text);
        break;
      case Kind::kByteFallback:
        if (const int byte = fallback_byte(text); byte >= 0)
          text = std::string(1, static_cast<char>(byte));
        break;
      case Kind::kFuse:
        fused = true;
        break;
      case Kind::kStrip:
        // On fused text the step applies to the ends only.
        for (int64_t i = 0; !fused && i < step.start && text.starts_with(step.text); ++i) {
          text.erase(0, step.text.size());
        }
        for (int64_t i = 0; !fused && i < step.stop && text.ends_with(step.text); ++i) {
          text.erase(text.size() - step.text.size());
        }
        break;
      case Kind::kReplace:
        text = replace_matches(text, step.pattern, step.text);
        break;
      case Kind::kBpe:
        if (!step.text.empty()) text = replace_all(text, step.text, " ");
        break;
      case Kind::kCtc:
        if (!step.text.empty()) text = replace_all(text, step.text, "");
        if (step.flag && !step.delimiter.empty()) text = replace_all(text, step.delimiter, " ");
        break;
      case Kind::kJoinWithSpace:
        text.insert(text.begin(), ' ');
        break;
      case Kind::kCleanUp:
        break;
    }
  }
  return text;
}

DecodeStream::DecodeStream(const TextDecoder& decoder, Mode mode) {
  bool fused = false;
  for (const DecoderStep& step : decoder.steps_) {
    stages_.push_back(make_decode_stage(step, mode, fused));
  }
}

DecodeStream::~DecodeStream() = default;
DecodeStream::DecodeStream(DecodeStream&&) noexcept = default;
DecodeStream& DecodeStream::operator=(DecodeStream&&) noexcept = default;

void DecodeStream::push(std::string_view piece, std::string& out) {
  TokenSink(stages_, 0, out).put(piece);
}

void DecodeStream::finish(std::string& out) {
  for (size_t i = 0; i < stages_.size(); ++i) stages_[i]->finish(TokenSink(stages_, i + 1, out));
}

std::string clean_up_spaces(std::string_view text) {
  constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},     {" ?", "?"},   {" !", "!"},   {" ,", ","},     {" ' ", "'"},
      {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
  };
  std::string out(text);
  for (const auto& [from, to] : kRules) out = replace_all(out, from, to);
  return out;
}

}  // namespace quire
