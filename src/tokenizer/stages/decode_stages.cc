#include "tokenizer/stages/decode_stages.h"

#include <algorithm>
#include <utility>

#include "tokenizer/model/byte_level.h"
#include "tokenizer/unicode/unicode.h"

namespace quire {
namespace {

using Stage = DecodeStream::Stage;

std::string without_chars_at_ends(std::string_view token, std::string_view c, int64_t start,
                                  int64_t stop) {
  for (int64_t i = 0; i < start && !c.empty() && token.starts_with(c); ++i) {
    token.remove_prefix(c.size());
  }
  for (int64_t i = 0; i < stop && !c.empty() && token.ends_with(c); ++i) {
    token.remove_suffix(c.size());
  }
  return std::string(token);
}

class ByteLevelStage final : public Stage {
 public:
  void push(std::string_view token, const TokenSink& sink) override {
    // A token with a character outside the alphabet is written as it is.
    const auto bytes = byte_level_decode(token);
    held_ += bytes ? std::string_view(*bytes) : token;
    const size_t incomplete = incomplete_utf8_suffix(held_);
    const std::string_view ready = std::string_view(held_).substr(0, held_.size() - incomplete);
    if (!ready.empty()) sink.put(is_valid_utf8(ready) ? std::string(ready) : to_valid_utf8(ready));
    held_.erase(0, ready.size());
  }
  void finish(const TokenSink& sink) override {
    if (!held_.empty()) sink.put(to_valid_utf8(held_));
  }

 private:
  std::string held_;
};

class MetaspaceStage final : public Stage {
 public:
  explicit MetaspaceStage(const DecoderStep& step) : step_(step) {}
  void push(std::string_view token, const TokenSink& sink) override {
    const bool drops = std::exchange(is_first_, false) && step_.flag;
    sink.put(replace_all(token, step_.text, drops ? "" : " "));
  }

 private:
  const DecoderStep& step_;
  bool is_first_ = true;
};

class WordPieceStage final : public Stage {
 public:
  explicit WordPieceStage(const DecoderStep& step) : step_(step) {}
  void push(std::string_view token, const TokenSink& sink) override {
    std::string text(token);
    if (!std::exchange(is_first_, false)) {
      if (token.starts_with(step_.text)) {
        text.erase(0, step_.text.size());
      } else {
        text.insert(text.begin(), ' ');
      }
    }
    sink.put(step_.flag ? clean_up_wordpiece(text) : text);
  }

 private:
  const DecoderStep& step_;
  bool is_first_ = true;
};

// ByteFallbackStage turns runs of <0xXX> pieces into the characters that their bytes spell.
class ByteFallbackStage final : public Stage {
 public:
  explicit ByteFallbackStage(DecodeStream::Mode mode) : mode_(mode) {}

  void push(std::string_view token, const TokenSink& sink) override {
    const int byte = fallback_byte(token);
    if (byte < 0) {
      flush(sink);
      sink.put(token);
      return;
    }
    held_.push_back(static_cast<char>(byte));
    if (mode_ == DecodeStream::Mode::kStreaming) emit_ready(sink);
  }
  void finish(const TokenSink& sink) override { flush(sink); }

 private:
  void emit_ready(const TokenSink& sink) {
    const size_t ready = held_.size() - incomplete_utf8_suffix(held_);
    if (ready > 0) put_run(std::string_view(held_).substr(0, ready), sink);
    held_.erase(0, ready);
  }
  void flush(const TokenSink& sink) {
    if (!held_.empty()) put_run(held_, sink);
    held_.clear();
  }
  static void put_run(std::string_view run, const TokenSink& sink) {
    if (is_valid_utf8(run)) return sink.put(run);
    for (size_t i = 0; i < run.size(); ++i) sink.put("\xEF\xBF\xBD");
  }

  DecodeStream::Mode mode_;
  std::string held_;
};

class FuseStage final : public Stage {
 public:
  void push(std::string_view token, const TokenSink& sink) override { sink.put(token); }
};

class StripStage final : public Stage {
 public:
  explicit StripStage(const DecoderStep& step) : step_(step) {}
  void push(std::string_view token, const TokenSink& sink) override {
    sink.put(without_chars_at_ends(token, step_.text, step_.start, step_.stop));
  }

 private:
  const DecoderStep& step_;
};

// FusedStripStage strips both ends of one token that arrives in chunks: the start as it arrives,
// the end by holding back as many characters as may have to be removed.
class FusedStripStage final : public Stage {
 public:
  explicit FusedStripStage(const DecoderStep& step) : step_(step), left_(step.start) {}

  void push(std::string_view chunk, const TokenSink& sink) override {
    while (left_ > 0 && !chunk.empty() && !step_.text.empty()) {
      if (!chunk.starts_with(step_.text)) {
        left_ = 0;
        break;
      }
      chunk.remove_prefix(step_.text.size());
      --left_;
    }
    if (step_.stop == 0) {
      if (!chunk.empty()) sink.put(chunk);
      return;
    }
    held_ += chunk;
    size_t keep = 0;
    for (int64_t i = 0; i < step_.stop && !step_.text.empty(); ++i) {
      const std::string_view rest = std::string_view(held_).substr(0, held_.size() - keep);
      if (!rest.ends_with(step_.text)) break;
      keep += step_.text.size();
    }
    const size_t ready = held_.size() - keep;
    if (ready > 0) sink.put(std::string_view(held_).substr(0, ready));
    held_.erase(0, ready);
  }

 private:
  const DecoderStep& step_;
  int64_t left_;
  std::string held_;  // characters that may have to be stripped at the end
};

class ReplaceStage final : public Stage {
 public:
  explicit ReplaceStage(const DecoderStep& step) : step_(step) {}
  void push(std::string_view token, const TokenSink& sink) override {
    sink.put(replace_matches(token, step_.pattern, step_.text));
  }

 private:
  const DecoderStep& step_;
};

// BpeStage turns the end-of-word suffix into a space, and removes it from the last token. So it
// holds one token back.
class BpeStage final : public Stage {
 public:
  explicit BpeStage(const DecoderStep& step) : step_(step) {}
  void push(std::string_view token, const TokenSink& sink) override {
    if (has_held_) put(" ", sink);
    held_ = token;
    has_held_ = true;
  }
  void finish(const TokenSink& sink) override {
    if (has_held_) put("", sink);
  }

 private:
  void put(std::string_view replacement, const TokenSink& sink) const {
    sink.put(step_.text.empty() ? held_ : replace_all(held_, step_.text, replacement));
  }
  const DecoderStep& step_;
  std::string held_;
  bool has_held_ = false;
};

class CtcStage final : public Stage {
 public:
  explicit CtcStage(const DecoderStep& step) : step_(step) {}
  void push(std::string_view token, const TokenSink& sink) override {
    if (has_last_ && token == last_) return;
    last_ = token;
    has_last_ = true;
    std::string text = step_.text.empty() ? last_ : replace_all(token, step_.text, "");
    if (step_.flag) {
      text = clean_up_wordpiece(text);
      if (!step_.delimiter.empty()) text = replace_all(text, step_.delimiter, " ");
    }
    if (!text.empty()) sink.put(text);
  }

 private:
  const DecoderStep& step_;
  std::string last_;
  bool has_last_ = false;
};

class JoinStage final : public Stage {
 public:
  void push(std::string_view token, const TokenSink& sink) override {
    if (!std::exchange(is_first_, false)) sink.put(" ");
    sink.put(token);
  }

 private:
  bool is_first_ = true;
};

// CleanUpStage cleans text piece by piece and cuts only where no replacement can reach across.
class CleanUpStage final : public Stage {
 public:
  void push(std::string_view chunk, const TokenSink& sink) override {
    held_ += chunk;
    const size_t cut = safe_cut();
    if (cut == 0) return;
    sink.put(clean_up_spaces(std::string_view(held_).substr(0, cut)));
    held_.erase(0, cut);
  }
  void finish(const TokenSink& sink) override {
    if (!held_.empty()) sink.put(clean_up_spaces(held_));
  }

 private:
  // Every replacement begins with a space, and even several in succession touch at most 8 bytes,
  // all of them among the characters below. So the text is certain up to the last other character,
  // and all of it if its end contains no space or apostrophe.
  size_t safe_cut() const {
    constexpr size_t kReach = 8;
    const size_t last = held_.find_last_not_of(" '.?!,ntmsver");
    const size_t cut = last == held_.npos ? 0 : last + 1;
    const bool far = held_.size() > cut + kReach &&
                     held_.find_first_of(" '", held_.size() - kReach) == held_.npos;
    return far ? held_.size() : cut;
  }
  std::string held_;
};

// WholeTokenStage waits for the end, because its step needs the whole token behind a stage that
// fuses.
class WholeTokenStage final : public Stage {
 public:
  explicit WholeTokenStage(std::unique_ptr<Stage> stage) : stage_(std::move(stage)) {}
  void push(std::string_view chunk, const TokenSink&) override {
    held_ += chunk;
    any_ = true;
  }
  void finish(const TokenSink& sink) override {
    if (any_) stage_->push(held_, sink);
    stage_->finish(sink);
  }

 private:
  std::unique_ptr<Stage> stage_;
  std::string held_;
  bool any_ = false;
};

std::unique_ptr<Stage> make_plain_stage(const DecoderStep& step, DecodeStream::Mode mode) {
  using Kind = DecoderStep::Kind;
  switch (step.kind) {
    case Kind::kByteLevel:
      return std::make_unique<ByteLevelStage>();
    case Kind::kMetaspace:
      return std::make_unique<MetaspaceStage>(step);
    case Kind::kWordPiece:
      return std::make_unique<WordPieceStage>(step);
    case Kind::kByteFallback:
      return std::make_unique<ByteFallbackStage>(mode);
    case Kind::kFuse:
      return std::make_unique<FuseStage>();
    case Kind::kStrip:
      return std::make_unique<StripStage>(step);
    case Kind::kReplace:
      return std::make_unique<ReplaceStage>(step);
    case Kind::kBpe:
      return std::make_unique<BpeStage>(step);
    case Kind::kCtc:
      return std::make_unique<CtcStage>(step);
    case Kind::kJoinWithSpace:
      return std::make_unique<JoinStage>();
    case Kind::kCleanUp:
      return std::make_unique<CleanUpStage>();
  }
  return nullptr;
}

}  // namespace

void TokenSink::put(std::string_view token) const {
  if (next_ == stages_.size()) {
    out_ += token;
  } else {
    stages_[next_]->push(token, TokenSink(stages_, next_ + 1, out_));
  }
}

std::unique_ptr<Stage> make_decode_stage(const DecoderStep& step, DecodeStream::Mode mode,
                                         bool& fused) {
  using Kind = DecoderStep::Kind;
  const bool input_fused = fused;
  fused |= step.kind == Kind::kFuse || step.kind == Kind::kByteLevel;
  if (input_fused && step.kind == Kind::kStrip) return std::make_unique<FusedStripStage>(step);
  auto stage = make_plain_stage(step, mode);
  const bool takes_chunks = step.kind == Kind::kFuse || step.kind == Kind::kCleanUp;
  if (input_fused && !takes_chunks) return std::make_unique<WholeTokenStage>(std::move(stage));
  return stage;
}

int fallback_byte(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return -1;
  int value = 0;
  for (const char c : piece.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

std::string clean_up_wordpiece(std::string_view token) {
  constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
  };
  std::string text(token);
  if (text.find(' ') == text.npos) return text;
  for (const auto& [from, to] : kRules) text = replace_all(text, from, to);
  return text;
}

}  // namespace quire
