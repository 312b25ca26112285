#include "chat/reply_parser.h"

#include <algorithm>

namespace quire {
namespace {

const ToolTypes& no_tools() {
  static const ToolTypes kNone;
  return kNone;
}

}  // namespace

ReplyParser::ReplyParser(const ReplySyntax& syntax, const ReplyOptions& options)
    : options_(options),
      dialect_(options.reads_calls || syntax.is_harmony() ? syntax.dialect() : nullptr),
      style_(syntax.reasoning()),
      encoder_(syntax.marks(), options.shows_special_tokens),
      sink_(syntax.marks(), options.tools != nullptr ? *options.tools : no_tools(), encoder_,
            options.reads_calls) {
  if (syntax.is_harmony()) {
    begin_calls();
  } else if (style_ == nullptr) {
    state_ = State::kAnswer;
  } else {
    is_inside_ = options.starts_in_reasoning.value_or(style_->opened_by_template);
  }
}

ReplyParser::~ReplyParser() = default;

void ReplyParser::feed(std::string_view text, std::span<const ReplyToken> tokens,
                       std::vector<ReplyEvent>& events) {
  input_.append(encoder_.feed(text, tokens));
  sink_.set_out(&events);
  run();
}

void ReplyParser::finish(bool was_cut, std::vector<ReplyEvent>& events) {
  input_.append(encoder_.finish());
  input_.end();
  was_cut_ = was_cut;
  sink_.set_out(&events);
  run();
}

void ReplyParser::run() {
  while (step()) {
  }
  encoder_.forget_tokens(input_.offset_bytes());
}

// Returns false when more text is needed.
bool ReplyParser::step() {
  switch (state_) {
    case State::kStart:
      return start();
    case State::kReasoning:
      return reasoning();
    case State::kAnswer:
      return answer();
    case State::kContent:
      return content();
    case State::kCalls:
      return calls();
  }
  return false;
}

// Looks for a mark of reasoning at the beginning of the reply, after blanks. There may be one even
// if the prompt has already opened the reasoning.
bool ReplyParser::start() {
  const std::string_view text = input_.rest();
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos && !input_.ended()) return false;
  const std::string_view rest = text.substr(std::min(begin, text.size()));
  size_t mark_bytes = 0;
  for (const std::string& mark : style_->begins) {
    if (rest.starts_with(mark)) mark_bytes = std::max(mark_bytes, mark.size());
    if (!input_.ended() && rest.size() < mark.size() && mark.starts_with(rest)) return false;
  }
  if (mark_bytes > 0) {
    input_.skip(begin + mark_bytes);
    input_.commit();
    is_inside_ = true;
  }
  state_ = is_inside_ ? State::kReasoning : State::kAnswer;
  return true;
}

// Passes on `num_bytes` as reasoning or content.
bool ReplyParser::pass(size_t num_bytes, bool is_reasoning) {
  input_.skip(num_bytes);
  is_reasoning ? sink_.reasoning(input_) : sink_.content(input_);
  return true;
}

bool ReplyParser::reasoning() {
  if (style_->trims_newlines && !has_reasoning_) {
    while (input_.rest().starts_with('\n')) input_.skip(1);
    input_.commit();
    if (input_.empty()) return false;
  }
  const std::string_view text = input_.rest();
  size_t at = text.npos, mark_bytes = 0, open_bytes = 0;
  const auto look_for = [&](const std::vector<std::string>& marks, bool is_skipped) {
    for (const std::string& mark : marks) {
      const size_t found = text.find(mark);
      const size_t size = is_skipped ? mark.size() : 0;
      if (found < at || (found == at && found != text.npos && size > mark_bytes)) {
        at = found;
        mark_bytes = size;
      }
      open_bytes = std::max(open_bytes, open_end(text, mark));
    }
  };
  look_for(style_->ends, true);
  if (dialect_ != nullptr) look_for(style_->implicit_ends, false);
  const bool has_ended = at != text.npos;
  size_t size = has_ended ? at : input_.ended() ? text.size() : text.size() - open_bytes;
  // A longer mark may still come in the place of this shorter one.
  if (has_ended && !input_.ended() && text.size() - open_bytes < at + mark_bytes) return false;
  size_t num_trimmed = 0;
  if (style_->trims_newlines) {
    while (size > 0 && text[size - 1] == '\n') --size, ++num_trimmed;
  }
  if (size > 0) has_reasoning_ = true;
  pass(size, /*is_reasoning=*/true);
  if (!has_ended) return false;
  input_.skip(num_trimmed + mark_bytes);
  input_.commit();
  state_ = State::kAnswer;
  return true;
}

// A reply of calls may begin with a call that has no mark.
bool ReplyParser::answer() {
  const std::string_view text = input_.rest();
  const size_t begin = text.find_first_not_of(kBlanks);
  if (style_ != nullptr && style_->trims_newlines) drops_blanks_ = true;
  if (dialect_ != nullptr && !dialect_->begins_reply.empty()) {
    if (begin == text.npos) {
      if (!input_.ended()) return false;
    } else if (dialect_->begins_reply.find(text[begin]) != std::string::npos) {
      input_.skip(begin);
      begin_calls();
      return true;
    }
  }
  state_ = State::kContent;
  return true;
}

void ReplyParser::begin_calls() {
  state_ = State::kCalls;
  reader_ = make_call_reader(*dialect_);
}

// Returns the first mark in the unread text. `open_bytes` is set to how much of the end may be the
// beginning of a mark.
ReplyParser::Found ReplyParser::find_content_mark(size_t& open_bytes) const {
  const std::string_view text = input_.rest();
  Found found;
  const auto look_for = [&](const std::vector<std::string>& marks, bool is_call) {
    for (const std::string& mark : marks) {
      const size_t at = text.find(mark);
      const size_t size = is_call ? 0 : mark.size();
      if (at < found.at || (at == found.at && at != text.npos && size > found.mark_bytes)) {
        found = {at, size, is_call};
      }
      open_bytes = std::max(open_bytes, open_end(text, mark));
    }
  };
  if (dialect_ != nullptr) look_for(dialect_->openings, true);
  if (style_ != nullptr) look_for(style_->dropped, false);
  return found;
}

bool ReplyParser::content() {
  if (drops_blanks_) {
    const bool has_more = input_.skip_blanks();
    input_.commit();
    if (!has_more) return false;
  }
  const std::string_view text = input_.rest();
  size_t open_bytes = 0;
  const Found found = find_content_mark(open_bytes);
  const bool has_mark = found.at != text.npos;
  // A longer mark may still come in the place of this shorter one.
  if (has_mark && !input_.ended() && text.size() - open_bytes < found.at + found.mark_bytes) {
    return false;
  }
  size_t size = has_mark ? found.at : input_.ended() ? text.size() : text.size() - open_bytes;
  // Blanks are not content when only a call follows them.
  const bool is_blank_text = text.substr(0, size).find_first_not_of(kBlanks) == text.npos;
  const bool waits = dialect_ != nullptr && !has_content_ && is_blank_text && !input_.ended();
  if (waits && !has_mark) return false;
  if (size > 0 && !(has_mark && found.is_call && !has_content_ && is_blank_text)) {
    has_content_ = has_content_ || !is_blank_text;
    drops_blanks_ = false;
    pass(size, /*is_reasoning=*/false);
    size = 0;
  }
  if (!has_mark) return false;
  input_.skip(size + found.mark_bytes);
  input_.commit();
  if (found.is_call) begin_calls();
  return true;
}

bool ReplyParser::calls() {
  switch (reader_->step(input_, sink_)) {
    case ReadStep::kAgain:
      return true;
    case ReadStep::kMore:
      if (input_.ended()) abandon_call(was_cut_);
      return false;
    case ReadStep::kDone:
      input_.commit();
      drops_blanks_ = true;
      state_ = State::kContent;
      return true;
    case ReadStep::kNoCall:
      abandon_call(input_.ended() && was_cut_);
      state_ = State::kContent;
      return !input_.empty();
  }
  return false;
}

// An open call stays without an end. Text that had not become a call becomes content.
void ReplyParser::abandon_call(bool was_cut) {
  const bool was_open = sink_.call_is_open();
  if (was_open) sink_.end_call(false);
  if (input_.ended()) input_.skip(input_.rest().size());
  if (was_cut || (was_open && input_.ended())) {
    input_.commit();
  } else if (!input_.uncommitted().empty()) {
    has_content_ = true;
    sink_.content(input_);
  }
}

}  // namespace quire
