#include "chat/reply/mark_table.h"

#include <algorithm>
#include <utility>

#include "chat/reply/json_scanner.h"

namespace quire {
namespace {

constexpr char kMarkByte = '\xFF';
constexpr size_t kFirstIndex = 0x80;  // so that no index looks like ASCII
constexpr size_t kMaxMarks = 0xFF - kFirstIndex;

std::string code_of(size_t index) { return {kMarkByte, static_cast<char>(kFirstIndex + index)}; }

// Returns whether a token can be a mark. Blanks and plain words are text, whichever tokens spell
// them.
bool looks_like_mark(std::string_view text) {
  return text.size() > 2 && text.find_first_of("<[|") != text.npos;
}

}  // namespace

MarkTable::MarkTable(std::span<const MarkToken> tokens, std::span<const std::string> patterns) {
  marks_.push_back({.code = code_of(0)});
  for (const MarkToken& token : tokens) {
    const bool is_mark =
        looks_like_mark(token.text) && marks_.size() < kMaxMarks &&
        std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
          return pattern.find(token.text) != pattern.npos;
        });
    if (is_mark) {
      mark_of_[token.id] = marks_.size();
      Mark mark{.text = token.text, .code = code_of(marks_.size())};
      append_json_escaped(mark.text, mark.json);
      marks_.push_back(std::move(mark));
    } else if (token.is_special) {
      dropped_[token.id] = token.text;
    }
  }
}

std::string MarkTable::encode(std::string_view pattern) const {
  std::string out;
  for (size_t at = 0; at < pattern.size();) {
    const Mark* best = nullptr;
    for (const Mark& mark : marks_) {
      if (mark.text.empty() || !pattern.substr(at).starts_with(mark.text)) continue;
      if (best == nullptr || mark.text.size() > best->text.size()) best = &mark;
    }
    out += best != nullptr ? std::string_view(best->code) : pattern.substr(at, 1);
    at += best != nullptr ? best->text.size() : 1;
  }
  return out;
}

void MarkTable::decode(std::string_view encoded, std::string& out) const {
  decode(encoded, &Mark::text, out);
}

void MarkTable::decode_json(std::string_view encoded, std::string& out) const {
  decode(encoded, &Mark::json, out);
}

void MarkTable::decode(std::string_view encoded, std::string Mark::*form, std::string& out) const {
  for (size_t at = 0; at < encoded.size();) {
    const size_t mark = std::min(encoded.find(kMarkByte, at), encoded.size());
    out += encoded.substr(at, mark - at);
    at = mark;
    if (at + 1 >= encoded.size()) break;
    const size_t index = static_cast<unsigned char>(encoded[at + 1]) - kFirstIndex;
    if (index < marks_.size()) out += marks_[index].*form;
    at += 2;
  }
}

std::string MarkTable::decoded(std::string_view encoded) const {
  std::string out;
  decode(encoded, out);
  return out;
}

std::optional<MarkTable::Code> MarkTable::find(TokenId id, bool drops_special) const {
  if (const auto it = mark_of_.find(id); it != mark_of_.end()) {
    return Code{marks_[it->second].code, marks_[it->second].text};
  }
  if (!drops_special) return std::nullopt;
  if (const auto it = dropped_.find(id); it != dropped_.end()) {
    return Code{marks_[0].code, it->second};
  }
  return std::nullopt;
}

}  // namespace quire
