#include "chat/reply/reply_sink.h"

#include <utility>

namespace quire {

void ReplySink::content(ReplyInput& in) {
  add_text(ReplyEvent::Kind::kContent, in.uncommitted());
  in.commit();
}

void ReplySink::reasoning(ReplyInput& in) {
  const std::string_view text = in.uncommitted();
  const int64_t begin = in.offset_bytes();
  num_reasoning_tokens_ += encoder_.count_tokens(begin, begin + static_cast<int64_t>(text.size()));
  add_text(ReplyEvent::Kind::kReasoning, text);
  in.commit();
}

// Adjacent texts of the same kind are joined.
void ReplySink::add_text(ReplyEvent::Kind kind, std::string_view text) {
  std::string decoded = marks_.decoded(text);
  if (decoded.empty()) return;
  if (!out_->empty() && out_->back().kind == kind) {
    out_->back().text += decoded;
  } else {
    out_->push_back({.kind = kind, .text = std::move(decoded), .call_id = {}});
  }
}

void ReplySink::begin_call(std::string_view name, std::string_view id) {
  out_->push_back({.kind = ReplyEvent::Kind::kCallBegin,
                   .call_index = num_calls_++,
                   .text = marks_.decoded(name),
                   .call_id = marks_.decoded(id)});
  call_is_open_ = true;
}

void ReplySink::arguments(std::string_view json) {
  if (json.empty()) return;
  constexpr auto kKind = ReplyEvent::Kind::kArguments;
  if (out_->empty() || out_->back().kind != kKind) {
    out_->push_back({.kind = kKind, .call_index = num_calls_ - 1, .text = {}, .call_id = {}});
  }
  marks_.decode_json(json, out_->back().text);
}

void ReplySink::end_call(bool is_complete) {
  out_->push_back({.kind = ReplyEvent::Kind::kCallEnd,
                   .call_index = num_calls_ - 1,
                   .text = {},
                   .call_id = {},
                   .is_complete = is_complete});
  call_is_open_ = false;
}

}  // namespace quire
