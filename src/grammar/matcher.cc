#include <algorithm>
#include <array>

#include "base/check.h"
#include "grammar/grammar.h"
#include "grammar/rules/budget.h"
#include "grammar/stack.h"

namespace quire::grammar {

class Matcher::Impl {
 public:
  Impl(std::shared_ptr<const Grammar> grammar, const Vocabulary& vocabulary)
      // A compiled grammar grows on use, under its own lock; users see it as constant.
      : grammar_(std::const_pointer_cast<Grammar>(std::move(grammar))),
        vocabulary_(vocabulary),
        stacks_([this]() -> Grammar& {
          grammar_->mutex.lock();
          begin_grammar_work();
          return *grammar_;
        }()) {
    start_status_ = refusal_ = status();
    grammar_->mutex.unlock();
    history_.push_back(stacks_.start());
  }

  bool accept_bytes(std::string_view bytes) {
    if (is_finished_) return false;
    refusal_ = start_status_;
    const std::lock_guard lock(grammar_->mutex);
    begin_work();
    const Stacks::Mark mark = stacks_.mark();
    PlaceId place = history_.back();
    for (size_t i = 0; i < bytes.size() && place != Stacks::kNowhere; ++i)
      place = stacks_.step(place, static_cast<uint8_t>(bytes[i]));
    if (Status failed = status(); !failed.ok()) {
      stacks_.release(mark);
      refusal_ = std::move(failed);
      return false;
    }
    if (place == Stacks::kNowhere) return false;
    history_.push_back(place);
    return true;
  }

  bool accept(TokenId token) {
    if (vocabulary_.is_eos(token)) {
      if (is_finished_ || !is_complete()) return false;
      is_finished_ = true;
      history_.push_back(history_.back());
      return true;
    }
    const std::string_view bytes = vocabulary_.token_bytes(token);
    return !bytes.empty() && accept_bytes(bytes);
  }

  void rollback(size_t num_tokens) {
    QUIRE_CHECK(num_tokens < history_.size(), "rollback of {} tokens, but there are {}", num_tokens,
                history_.size() - 1);
    if (num_tokens > 0) is_finished_ = false;
    refusal_ = start_status_;
    history_.resize(history_.size() - num_tokens);
  }

  Status fill_mask(std::span<uint32_t> row) {
    QUIRE_CHECK(row.size() == vocabulary_.mask_words(), "a mask row has {} words, expected {}",
                row.size(), vocabulary_.mask_words());
    std::fill(row.begin(), row.end(), 0);
    if (is_finished_) return {};
    QUIRE_RETURN_IF_ERROR(refusal_);
    const std::lock_guard lock(grammar_->mutex);
    begin_work();
    const PlaceId place = history_.back();
    const Status added = add_tokens(place, row);
    note_growth();
    QUIRE_RETURN_IF_ERROR(added);
    if (stacks_.is_complete(place)) {
      for (const TokenId id : vocabulary_.eos_ids()) row[id / 32] |= 1U << (id % 32);
    } else if (std::all_of(row.begin(), row.end(), [](uint32_t word) { return word == 0; })) {
      return internal_error("the grammar leads nowhere: no token of the vocabulary can come next");
    }
    return {};
  }

  size_t mask_words() const { return vocabulary_.mask_words(); }
  size_t num_tokens() const { return history_.size() - 1; }
  bool is_complete() const { return stacks_.is_complete(history_.back()); }
  bool is_finished() const { return is_finished_; }

  std::string forced_bytes(size_t max_bytes) {
    const std::lock_guard lock(grammar_->mutex);
    begin_work();
    const Stacks::Mark mark = stacks_.mark();
    std::string out;
    PlaceId place = history_.back();
    while (!is_finished_ && out.size() < max_bytes && !stacks_.is_complete(place)) {
      int only = -1;
      for (int byte = 0; byte < 256 && only != 256; ++byte) {
        for (const Branch& branch : stacks_.branches(place)) {
          const auto b = static_cast<uint8_t>(byte);
          if (grammar_->lexer.step(branch.lexer_state, b) == Lexer::kDead) continue;
          only = only < 0 || only == byte ? byte : 256;
        }
      }
      if (only < 0 || only == 256) break;
      place = stacks_.step(place, static_cast<uint8_t>(only));
      if (!status().ok()) break;  // a byte may have looked forced because others were not tried
      out += static_cast<char>(only);
    }
    stacks_.release(mark);
    return out;
  }

 private:
  // A WalkRow caches steps from a place, because walks over the trie step from few places many
  // times.
  struct WalkRow {
    std::array<PlaceId, 256> next;
  };
  static constexpr PlaceId kUnknown = ~PlaceId{0};

  Status add_tokens(PlaceId place, std::span<uint32_t> row) {
    const std::span<const Branch> branches = stacks_.branches(place);
    if (branches.empty()) return status();
    if (const auto known = vocabulary_.masks().find(stacks_.hash(place))) {
      known->add_to(row);
      return stacks_.status();
    }
    const Stacks::Mark mark = stacks_.mark();
    walk_rows_.clear();
    walk_row_of_.clear();
    const std::vector<Branch> owned(branches.begin(), branches.end());
    for (const Branch& branch : owned) add_branch(branch, row);
    stacks_.release(mark);
    QUIRE_RETURN_IF_ERROR(status());
    TokenMask mask;
    mask.set_allowed({row.begin(), row.end()});
    vocabulary_.masks().insert(stacks_.hash(place), std::make_shared<TokenMask>(std::move(mask)));
    return {};
  }

  // Must begin each public call: the call may cost as much as a mask. A call that exceeds a limit
  // fails alone: nothing that it computed is kept, and other calls, of this and other matchers, go
  // on.
  void begin_work() {
    begin_grammar_work();
    stacks_.begin_work();
    num_steps_ = 0;
  }
  // The constructor calls this before stacks_ exists.
  void begin_grammar_work() {
    grammar_->store.begin_work(grammar_->limits.max_mask_expressions);
    grammar_->lexer.begin_work(grammar_->limits.max_mask_steps);
  }

  // States and expressions that one text adds stay in the grammar. Marks it as crowded early
  // enough, so that later requests compile a new grammar before the limits make this one fail.
  void note_growth() {
    const bool is_crowded = grammar_->lexer.num_states() * 2 > grammar_->limits.max_lexer_states ||
                            grammar_->store.num_nodes() * 2 > grammar_->limits.max_expressions;
    if (is_crowded) grammar_->crowded.store(true, std::memory_order_relaxed);
  }

  Status status() const {
    QUIRE_RETURN_IF_ERROR(grammar_->store.status());
    QUIRE_RETURN_IF_ERROR(grammar_->lexer.status());
    QUIRE_RETURN_IF_ERROR(stacks_.status());
    if (num_steps_ > grammar_->limits.max_mask_steps) {
      return over_budget(grammar_->limits.max_mask_steps, "steps behind terminals for a mask");
    }
    return {};
  }

  void add_branch(const Branch& branch, std::span<uint32_t> row) {
    const auto mask = grammar_->lexer.mask(branch.lexer_state, vocabulary_);
    mask->add_to(row);
    std::vector<PlaceId> after(mask->end_sets.size(), kUnknown);
    const auto entries = grammar_->lexer.entries(branch.lexer_state);
    for (const Crossing& crossing : mask->crossings) {
      PlaceId& place = after[crossing.ends];
      if (place == kUnknown) {
        std::vector<StateId> targets;
        for (const uint32_t i : mask->end_sets[crossing.ends]) targets.push_back(entries[i].target);
        place = stacks_.after(targets, branch.node);
      }
      if (place != Stacks::kNowhere) walk_below(crossing.trie_node, place, row);
    }
  }

  PlaceId walk_step(PlaceId place, uint8_t byte) {
    const auto [it, is_new] = walk_row_of_.try_emplace(place, walk_rows_.size());
    if (is_new) {
      walk_rows_.emplace_back();
      walk_rows_.back().next.fill(kUnknown);
    }
    const size_t index = it->second;
    if (walk_rows_[index].next[byte] == kUnknown) {
      walk_rows_[index].next[byte] = stacks_.step(place, byte);
    }
    return walk_rows_[index].next[byte];
  }

  // Allows the tokens below a trie node, at which the text is in `place`.
  void walk_below(uint32_t top, PlaceId place, std::span<uint32_t> row) {
    const std::vector<TrieNode>& trie = vocabulary_.trie();
    const size_t top_depth = trie[top].depth;
    path_.resize(vocabulary_.max_depth() + 1);
    path_[top_depth] = place;
    for (uint32_t i = top + 1; i < trie[top].skip;) {
      if (++num_steps_ > grammar_->limits.max_mask_steps || !stacks_.status().ok() ||
          !grammar_->lexer.status().ok())
        return;
      const TrieNode& node = trie[i];
      const PlaceId next = walk_step(path_[node.depth - 1], node.byte);
      if (next == Stacks::kNowhere) {
        i = node.skip;
        continue;
      }
      path_[node.depth] = next;
      for (uint32_t t = node.first_token; t < trie[i + 1].first_token; ++t) {
        const TokenId id = vocabulary_.tokens()[t];
        row[id / 32] |= 1U << (id % 32);
      }
      ++i;
    }
  }

  std::shared_ptr<Grammar> grammar_;
  const Vocabulary& vocabulary_;
  Stacks stacks_;
  std::vector<PlaceId> history_;  // after each token, and before the first
  bool is_finished_ = false;
  Status start_status_;  // of the start's place, which failed for good if a limit was exceeded
  Status refusal_;       // of the last accept(), if that was refused because of a limit
  size_t num_steps_ = 0;
  std::vector<WalkRow> walk_rows_;
  std::unordered_map<PlaceId, size_t> walk_row_of_;
  std::vector<PlaceId> path_;  // by trie depth
};

Matcher::Matcher(std::shared_ptr<const Grammar> grammar, const Vocabulary& vocabulary)
    : impl_(std::make_unique<Impl>(std::move(grammar), vocabulary)) {}
Matcher::~Matcher() = default;
Matcher::Matcher(Matcher&&) noexcept = default;

bool Matcher::accept(TokenId token) { return impl_->accept(token); }
bool Matcher::accept_bytes(std::string_view bytes) { return impl_->accept_bytes(bytes); }
Status Matcher::fill_mask(std::span<uint32_t> row) { return impl_->fill_mask(row); }
void Matcher::rollback(size_t num_tokens) { impl_->rollback(num_tokens); }
size_t Matcher::mask_words() const { return impl_->mask_words(); }
size_t Matcher::num_tokens() const { return impl_->num_tokens(); }
bool Matcher::is_complete() const { return impl_->is_complete(); }
bool Matcher::is_finished() const { return impl_->is_finished(); }
std::string Matcher::forced_bytes(size_t max_bytes) { return impl_->forced_bytes(max_bytes); }

}  // namespace quire::grammar
