#include "engine/structured/grammar_masks.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/structured/forced_tokens.h"

namespace quire {
namespace {

// How long to wait for a mask. A slower one delays its request by a step. A usual mask takes some
// ten microseconds.
constexpr std::chrono::microseconds kPatience{1000};
// How long to wait for a mask behind a draft. What is computed behind a late one is worthless.
constexpr std::chrono::microseconds kDraftPatience{200};

void set_bits(std::span<const TokenId> ids, bool value, std::span<uint32_t> row) {
  for (const TokenId id : ids) {
    if (id < 0 || static_cast<size_t>(id) / 32 >= row.size()) continue;
    const uint32_t bit = 1u << (id % 32);
    uint32_t& word = row[static_cast<size_t>(id) / 32];
    word = value ? word | bit : word & ~bit;
  }
}

bool contains(std::span<const TokenId> ids, TokenId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

// The role of a token in the grammar's text.
enum class TokenRole : uint8_t { kRefused, kPart, kEnd };

// Moves the matcher if the token is a part of the text; otherwise leaves it unchanged.
TokenRole accept_token(grammar::Matcher& matcher, std::span<const TokenId> eos_ids, TokenId id) {
  const bool ends = contains(eos_ids, id) && matcher.is_complete();
  if (ends) return TokenRole::kEnd;  // with ignore_eos the text may end more than once
  return matcher.accept(id) ? TokenRole::kPart : TokenRole::kRefused;
}

}  // namespace

GrammarMasks::GrammarMasks(std::shared_ptr<const GrammarTicket> ticket, const Tokenizer& tokenizer,
                           MaskWorkers& workers, GrammarMasksOptions options)
    : ticket_(std::move(ticket)),
      tokenizer_(tokenizer),
      workers_(workers),
      options_(std::make_shared<const GrammarMasksOptions>(std::move(options))),
      is_waiting_for_begin_(!options_->begins_after.empty()) {}

void GrammarMasks::start() {
  job_ = workers_.post([state = state_, ticket = ticket_, options = options_,
                        tokenizer = &tokenizer_] {
    const std::lock_guard lock(state->mutex);
    if (state->matcher == nullptr) {
      state->matcher = std::make_unique<grammar::Matcher>(*ticket->grammar(), ticket->vocabulary());
    }
    advance(*state, *tokenizer, *options);
  });
  deadline_ = std::chrono::steady_clock::now() + kPatience;
}

void GrammarMasks::advance(State& state, const Tokenizer& tokenizer,
                           const GrammarMasksOptions& options) {
  for (const TokenId id : std::exchange(state.new_token_ids, {})) {
    if (!state.status.ok()) return;
    if (accept_token(*state.matcher, options.eos_token_ids, id) == TokenRole::kRefused) {
      // The token was refused because of a limit, which fill_row() reports, or by a fault.
      state.status = fill_row(*state.matcher, options, state.mask);
      if (!state.status.ok()) return;
      state.status = internal_error("structured outputs: token {} is not of the grammar", id);
    }
    state.last_token_id = id;
  }
  if (state.status.ok()) state.status = fill_row(*state.matcher, options, state.mask);
  if (!state.status.ok() || options.max_forced_bytes == 0) return;
  const std::string before =
      state.last_token_id < 0 ? std::string() : tokenizer.token_bytes(state.last_token_id);
  state.forced =
      tokens_after(tokenizer, before, state.matcher->forced_bytes(options.max_forced_bytes));
}

Status GrammarMasks::fill_row(grammar::Matcher& matcher, const GrammarMasksOptions& options,
                              std::vector<uint32_t>& mask) {
  mask.resize(matcher.mask_words());
  const Status filled = matcher.fill_mask(mask);
  // The request was valid, so an error is not the client's, whatever the mask costs.
  if (!filled.ok()) return internal_error("{}", filled.message());
  if (matcher.is_complete()) {
    set_bits(options.eos_token_ids, true, mask);
  } else {
    set_bits(options.text_eos_token_ids, false, mask);
  }
  return {};
}

// Makes the masks of a path. A mask that cannot be made counts as late; if the text gets there, the
// request gets its error.
void GrammarMasks::follow(State& state, Path& path, const GrammarMasksOptions& options) {
  size_t num_accepted = 0;
  for (size_t i = 0; i < path.drafts.size() && !path.is_stopped; ++i) {
    const TokenRole role = accept_token(*state.matcher, options.eos_token_ids, path.drafts[i]);
    num_accepted += role == TokenRole::kPart;
    if (!fill_row(*state.matcher, options, path.masks[i]).ok()) break;
    path.num_made = i + 1;
  }
  state.matcher->rollback(num_accepted);
}

Status GrammarMasks::accept(std::span<const TokenId> token_ids) {
  const size_t num_skipped = is_waiting_for_begin_ ? skip_reasoning(token_ids) : 0;
  const auto rest = token_ids.subspan(num_skipped);
  if (rest.empty()) return {};
  state_->new_token_ids.insert(state_->new_token_ids.end(), rest.begin(), rest.end());
  start();
  return {};
}

size_t GrammarMasks::skip_reasoning(std::span<const TokenId> token_ids) {
  const size_t num_before = count_before_begin(reasoning_tail_, token_ids);
  is_waiting_for_begin_ = num_before == token_ids.size();
  return is_waiting_for_begin_ ? num_before : num_before + 1;
}

size_t GrammarMasks::count_before_begin(std::string& tail,
                                        std::span<const TokenId> token_ids) const {
  const std::string& end = options_->begins_after;
  for (size_t i = 0; i < token_ids.size(); ++i) {
    tail += tokenizer_.token_bytes(token_ids[i]);
    if (tail.find(end) != std::string::npos) return i;
    if (tail.size() >= end.size()) tail.erase(0, tail.size() - end.size() + 1);
  }
  return token_ids.size();
}

bool GrammarMasks::ready() {
  if (!ticket_->ready()) return false;
  if (!ticket_->grammar().ok()) return true;  // fill() returns the error
  if (is_waiting_for_begin_) return true;
  if (job_ == nullptr) start();  // begins the text's first mask
  return workers_.wait(*job_, deadline_);
}

std::span<const TokenId> GrammarMasks::forced() const {
  const bool is_known = job_ != nullptr && !is_waiting_for_begin_ && state_->status.ok();
  return is_known ? std::span<const TokenId>(state_->forced) : std::span<const TokenId>();
}

Status GrammarMasks::check() const {
  if (!ticket_->grammar().ok()) return ticket_->grammar().status().with_context(options_->field);
  return state_->status.with_context(options_->field);
}

Result<int32_t> GrammarMasks::count_allowed(std::span<const TokenId> drafts) {
  QUIRE_RETURN_IF_ERROR(check());
  if (is_waiting_for_begin_) {  // the token after the end of reasoning needs a mask
    std::string tail = reasoning_tail_;
    return static_cast<int32_t>(count_before_begin(tail, drafts));
  }
  const std::lock_guard lock(state_->mutex);
  int32_t count = 0;
  size_t num_accepted = 0;
  for (const TokenId id : drafts) {
    const TokenRole role = accept_token(*state_->matcher, options_->eos_token_ids, id);
    if (role == TokenRole::kRefused) break;
    ++count;
    num_accepted += role == TokenRole::kPart;
  }
  state_->matcher->rollback(num_accepted);
  return count;
}

void GrammarMasks::begin(std::span<const TokenId> drafts) {
  path_ = nullptr;
  if (drafts.empty() || is_waiting_for_begin_ || !check().ok()) return;
  path_ = std::make_shared<Path>();
  path_->drafts.assign(drafts.begin(), drafts.end());
  path_->masks.resize(drafts.size());
  path_job_ = workers_.post([state = state_, ticket = ticket_, path = path_, options = options_] {
    const std::lock_guard lock(state->mutex);
    follow(*state, *path, *options);
  });
  deadline_ = std::chrono::steady_clock::now() + kPatience + drafts.size() * kDraftPatience;
}

Result<bool> GrammarMasks::fill(std::span<const TokenId> drafts, std::span<uint32_t> masks) {
  QUIRE_RETURN_IF_ERROR(check());
  if (is_waiting_for_begin_) return false;
  const size_t num_words = masks.size() / (drafts.size() + 1);
  const auto copy_row = [&](size_t index, const std::vector<uint32_t>& mask) {
    const size_t count = std::min(num_words, mask.size());
    std::copy_n(mask.begin(), count, masks.begin() + static_cast<ptrdiff_t>(index * num_words));
  };
  copy_row(0, state_->mask);
  if (drafts.empty()) return true;
  QUIRE_CHECK(path_ != nullptr && path_->drafts.size() == drafts.size(),
              "masks of {} drafts that were not begun", drafts.size());
  if (!workers_.wait(*path_job_, deadline_)) path_->is_stopped = true;
  const size_t num_made = path_->num_made;
  for (size_t i = 0; i < num_made; ++i) copy_row(i + 1, path_->masks[i]);
  return true;
}

}  // namespace quire
