#include "grammar/lexer.h"

#include <algorithm>
#include <map>

#include "grammar/rules/budget.h"

namespace quire::grammar {
namespace {

// EndSets writes each set of terminals that end at some node once into a mask.
class EndSets {
 public:
  // Sets are stored in `out` as positions among the targets of `entries`.
  EndSets(std::span<const LexEntry> entries, TokenMask& out) : out_(out) {
    for (uint32_t i = 0; i < entries.size(); ++i) position_[entries[i].target] = i;
  }

  uint32_t index_of(std::vector<StateId> targets) {
    std::sort(targets.begin(), targets.end());
    const auto [it, is_new] =
        index_of_.try_emplace(std::move(targets), static_cast<uint32_t>(out_.end_sets.size()));
    if (is_new) {
      auto& set = out_.end_sets.emplace_back();
      for (const StateId target : it->first) set.push_back(position_[target]);
    }
    return it->second;
  }

 private:
  TokenMask& out_;
  std::map<StateId, uint32_t> position_;
  std::map<std::vector<StateId>, uint32_t> index_of_;
};

}  // namespace

Lexer::Lexer(ExprStore& store, size_t max_states) : store_(store), max_states_(max_states) {
  states_.emplace_back();
}

LexId Lexer::intern(std::vector<LexEntry> entries) {
  std::sort(entries.begin(), entries.end(), [](const LexEntry& a, const LexEntry& b) {
    return a.target != b.target ? a.target < b.target : a.expr < b.expr;
  });
  std::vector<LexEntry> merged;
  for (size_t i = 0; i < entries.size();) {
    std::vector<ExprId> exprs;
    const StateId target = entries[i].target;
    for (; i < entries.size() && entries[i].target == target; ++i) exprs.push_back(entries[i].expr);
    const ExprId expr = exprs.size() == 1 ? exprs[0] : store_.any_of(std::move(exprs));
    if (store_.is_live(expr)) merged.push_back({expr, target});
  }
  if (!store_.status().ok()) status_ = store_.status();
  if (!status_.ok() || merged.empty()) return kDead;
  Hash128 key;
  for (const LexEntry& entry : merged) key.mix(uint64_t{entry.expr} << 32 | entry.target);
  if (const auto known = ids_.find(key); known != ids_.end()) return known->second;
  if (states_.size() >= max_states_) {
    status_ = over_budget(max_states_, "lexer states");
    return kDead;
  }
  State state;
  std::stable_sort(merged.begin(), merged.end(), [&](const LexEntry& a, const LexEntry& b) {
    return store_.hash(a.expr) < store_.hash(b.expr);
  });
  for (const LexEntry& entry : merged) {
    state.mask_key.mix(store_.hash(entry.expr));
    if (store_.nullable(entry.expr)) state.ends.push_back(entry.target);
  }
  state.entries = std::move(merged);
  const auto id = static_cast<LexId>(states_.size());
  states_.push_back(std::move(state));
  ids_.emplace(key, id);
  return id;
}

LexId Lexer::successor(LexId state, uint8_t byte) {
  std::vector<LexEntry> next;
  for (size_t i = 0; i < states_[state].entries.size(); ++i) {
    const LexEntry entry = states_[state].entries[i];
    const ExprId expr = store_.derivative(entry.expr, byte);
    if (expr != ExprStore::kNone) next.push_back({expr, entry.target});
  }
  return next.empty() ? kDead : intern(std::move(next));
}

void Lexer::add_row(LexId state) {
  states_[state].row = static_cast<uint32_t>(rows_.size());
  rows_.emplace_back().fill(kUnknown);
}

LexId Lexer::find_next(LexId state, uint8_t byte) {
  std::vector<ExprId> exprs;
  for (const LexEntry& entry : states_[state].entries) exprs.push_back(entry.expr);
  // A copy, because successors call byte_classes() too.
  const std::array<uint8_t, 256> class_of = store_.byte_classes(exprs).class_of;
  const LexId next = successor(state, byte);
  if (!store_.status().ok()) status_ = store_.status();
  if (!status_.ok()) return kDead;
  Row& row = rows_[states_[state].row];
  for (size_t b = 0; b < 256; ++b) {
    if (class_of[b] == class_of[byte]) row[b] = next;
  }
  states_[state].note(row, next);
  return next;
}

void Lexer::State::note(const Row& row, LexId next) {
  AsciiSet characters;
  size_t count = 0;
  for (uint8_t c = 1; c < 128; ++c) {
    if (row[c] != next) continue;
    characters.add(c);
    ++count;
  }
  if (next == kDead || count <= num_usual) return;
  usual_next = next;
  usual = characters;
  num_usual = count;
}

bool Lexer::is_usual_below(LexId state, uint32_t trie_node, const Vocabulary& vocabulary) const {
  const AsciiSet& bytes = vocabulary.bytes_below()[trie_node];
  for (uint8_t height = vocabulary.trie()[trie_node].height; height > 0; --height) {
    const State& at = states_[state];
    if (!at.ends.empty() || !at.usual.has_all(bytes)) return false;
    if (at.usual_next == state) return true;
    state = at.usual_next;
  }
  return true;
}

// A state of names that must differ from some others behaves like a state of any names, once a
// token differs from those. So its mask is made from that state's, which many grammars share.
std::optional<LexId> Lexer::reference(LexId state) {
  std::optional<LexEntry> found;
  for (const LexEntry& entry : states_[state].entries) {
    if (store_.kind(entry.expr) != ExprKind::kConcat) continue;
    const ExprId names = store_.without_complements(store_.head(entry.expr));
    if (names == store_.head(entry.expr)) continue;
    if (found) return std::nullopt;
    found = LexEntry{store_.concat(names, store_.tail(entry.expr)), entry.target};
  }
  if (!found) return std::nullopt;
  const LexId reference = intern({*found});
  return reference == kDead ? std::nullopt : std::optional(reference);
}

TokenMask Lexer::walk(LexId state, const Vocabulary& vocabulary, LexId reference,
                      const TokenMask& known) {
  TokenMask out;
  std::vector<uint32_t> bits(vocabulary.mask_words());
  known.add_to(bits);
  const std::vector<TrieNode>& trie = vocabulary.trie();
  const auto set_tokens = [&](uint32_t begin, uint32_t end, bool is_allowed) {
    for (uint32_t t = trie[begin].first_token; t < trie[end].first_token; ++t) {
      const TokenId id = vocabulary.tokens()[t];
      const uint32_t bit = 1U << (id % 32);
      bits[id / 32] = is_allowed ? bits[id / 32] | bit : bits[id / 32] & ~bit;
    }
  };
  EndSets end_sets(states_[state].entries, out);
  // Crossings of the reference are copied below nodes where both states are equal.
  auto crossing = known.crossings.begin();
  const auto copy_crossings = [&](uint32_t begin, uint32_t end) {
    while (crossing != known.crossings.end() && crossing->trie_node < begin) ++crossing;
    for (; crossing != known.crossings.end() && crossing->trie_node < end; ++crossing) {
      std::vector<StateId> targets;
      for (const uint32_t i : known.end_sets[crossing->ends]) {
        targets.push_back(states_[reference].entries[i].target);
      }
      out.crossings.push_back({crossing->trie_node, end_sets.index_of(std::move(targets))});
    }
  };
  struct Step {
    LexId own, reference;
  };
  std::vector<Step> path(vocabulary.max_depth() + 1);
  path[0] = {state, reference};
  const auto end = static_cast<uint32_t>(trie.size() - 1);
  for (uint32_t i = 1; i < end && spend_step();) {
    const TrieNode& node = trie[i];
    const Step from = path[node.depth - 1];
    const LexId own = step(from.own, node.byte);
    const LexId other = from.reference == kDead ? kDead : step(from.reference, node.byte);
    if (own == other || own == kDead) {
      if (own == kDead && other != kDead) set_tokens(i, node.skip, false);
      if (own != kDead) copy_crossings(i, node.skip);
      i = node.skip;
      continue;
    }
    if (is_usual_below(own, i, vocabulary)) {
      set_tokens(i, node.skip, true);
      i = node.skip;
      continue;
    }
    path[node.depth] = {own, other};
    set_tokens(i, i + 1, true);
    const auto ends = this->ends(own);
    if (!ends.empty() && node.skip > i + 1) {
      out.crossings.push_back({i, end_sets.index_of({ends.begin(), ends.end()})});
    }
    ++i;
  }
  out.set_allowed(std::move(bits));
  return out;
}

bool Lexer::out_of_steps() {
  if (status_.ok()) status_ = over_budget(max_steps_, "nodes of the trie visited for a mask");
  return false;
}

// Within a counted repetition every count is a state of its own. Most tokens are short, so they are
// allowed for any count that is not nearly used up. The mask that all counts from a threshold on
// have in common is made once, and the few tokens that depend on the count are tried for each.
std::optional<Lexer::Bounds> Lexer::bounds(LexId state) {
  if (states_[state].entries.size() != 1) return std::nullopt;
  const LexEntry entry = states_[state].entries.front();
  for (const uint32_t threshold : {32u, 16u, 8u}) {
    const ExprId lower = store_.with_counts(entry.expr, threshold, threshold);
    if (lower == entry.expr) continue;
    const ExprId upper = store_.with_counts(entry.expr, threshold, kUnbounded);
    const Bounds out{intern({{lower, entry.target}}), intern({{upper, entry.target}})};
    if (out.lower != kDead && out.upper != kDead) return out;
  }
  return std::nullopt;
}

LexId Lexer::without_long_counts(LexId state) {
  if (states_[state].entries.size() != 1) return kDead;
  const LexEntry entry = states_[state].entries.front();
  const ExprId alike = store_.with_counts(entry.expr, kCountHorizon, kUnbounded);
  return alike == entry.expr ? kDead : intern({{alike, entry.target}});
}

std::shared_ptr<const TokenMask> Lexer::text_mask(LexId state, const Vocabulary& vocabulary) {
  if (states_[state].entries.size() != 1) return nullptr;
  const LexEntry entry = states_[state].entries.front();
  const ExprId text = store_.free_text(entry.expr, '"');
  if (text == ExprStore::kNone) return nullptr;
  Hash128 key;
  key.mix(store_.hash(text)).mix(uint64_t{'"'});
  if (auto known = vocabulary.masks().find(key)) return known;
  auto made =
      std::make_shared<const TokenMask>(walk_text(intern({{text, entry.target}}), vocabulary));
  if (status_.ok()) vocabulary.masks().insert(key, made);
  return made;
}

TokenMask Lexer::walk_text(LexId text, const Vocabulary& vocabulary) {
  TokenMask out;
  out.end_sets = {{0}};
  std::vector<uint32_t> bits(vocabulary.mask_words());
  const std::vector<TrieNode>& trie = vocabulary.trie();
  std::vector<LexId> path(vocabulary.max_depth() + 1);
  path[0] = text;
  for (uint32_t i = 1; i + 1 < trie.size() && spend_step();) {
    const TrieNode& node = trie[i];
    path[node.depth] = node.byte == '"' ? kDead : step(path[node.depth - 1], node.byte);
    if (path[node.depth] == kDead) {
      out.open_nodes.push_back(i);
      i = node.skip;
      continue;
    }
    const AsciiSet& below = vocabulary.bytes_below()[i];
    const State& at = states_[path[node.depth]];
    const bool is_text =
        at.usual_next == path[node.depth] && at.usual.has_all(below) && !below.has('"');
    const uint32_t next = is_text ? node.skip : i + 1;
    vocabulary.allow_tokens(i, next, bits);
    i = next;
  }
  out.set_allowed(std::move(bits));
  return out;
}

std::shared_ptr<const TokenMask> Lexer::common_mask(const Bounds& bounds,
                                                    const Vocabulary& vocabulary) {
  Hash128 key;
  key.mix(states_[bounds.lower].mask_key).mix(states_[bounds.upper].mask_key);
  if (auto known = vocabulary.masks().find(key)) return known;
  auto made = std::make_shared<const TokenMask>(walk_between(bounds, vocabulary));
  if (status_.ok()) vocabulary.masks().insert(key, made);
  return made;
}

TokenMask Lexer::walk_between(const Bounds& bounds, const Vocabulary& vocabulary) {
  TokenMask out;
  out.end_sets = {{0}};
  std::vector<uint32_t> bits(vocabulary.mask_words());
  const std::vector<TrieNode>& trie = vocabulary.trie();
  std::vector<Bounds> path(vocabulary.max_depth() + 1);
  path[0] = bounds;
  for (uint32_t i = 1; i + 1 < trie.size() && spend_step();) {
    const TrieNode& node = trie[i];
    const Bounds& from = path[node.depth - 1];
    const Bounds next{step(from.lower, node.byte), step(from.upper, node.byte)};
    if (next.lower == kDead) {
      if (next.upper != kDead) out.open_nodes.push_back(i);
      i = node.skip;
      continue;
    }
    if (is_usual_below(next.lower, i, vocabulary) && is_usual_below(next.upper, i, vocabulary)) {
      vocabulary.allow_tokens(i, node.skip, bits);
      i = node.skip;
      continue;
    }
    path[node.depth] = next;
    vocabulary.allow_tokens(i, i + 1, bits);
    if (node.skip > i + 1) {
      const bool ends = !this->ends(next.lower).empty();
      if (ends) out.crossings.push_back({i, 0});
      if (!ends && !this->ends(next.upper).empty()) out.open_ends.push_back(i);
    }
    ++i;
  }
  out.set_allowed(std::move(bits));
  return out;
}

TokenMask Lexer::complete(const TokenMask& common, LexId state, const Vocabulary& vocabulary) {
  TokenMask out;
  out.end_sets = common.end_sets;
  out.crossings = common.crossings;
  std::vector<uint32_t> bits(vocabulary.mask_words());
  common.add_to(bits);
  const std::vector<TrieNode>& trie = vocabulary.trie();
  std::vector<LexId> path(vocabulary.max_depth() + 1);
  path[0] = state;
  // enter() computes the state at node i, whose bytes are a prefix of every token below it.
  std::string_view known;  // bytes for which `path` holds
  const auto enter = [&](uint32_t i) {
    const TokenId id = vocabulary.tokens()[trie[i].first_token];
    const std::string_view bytes = vocabulary.token_bytes(id).substr(0, trie[i].depth);
    const auto differs = std::mismatch(known.begin(), known.end(), bytes.begin(), bytes.end());
    for (auto depth = static_cast<size_t>(differs.second - bytes.begin()); depth < bytes.size();
         ++depth) {
      path[depth + 1] = step(path[depth], static_cast<uint8_t>(bytes[depth]));
    }
    known = bytes;
    return path[bytes.size()];
  };
  for (const uint32_t i : common.open_ends) {
    if (!spend_step()) break;
    if (!ends(enter(i)).empty()) out.crossings.push_back({i, 0});
  }
  known = {};
  for (const uint32_t top : common.open_nodes) {
    for (uint32_t i = top; i < trie[top].skip && spend_step();) {
      const LexId at = i == top ? enter(i) : step(path[trie[i].depth - 1], trie[i].byte);
      if (at == kDead) {
        i = trie[i].skip;
        continue;
      }
      path[trie[i].depth] = at;
      const uint32_t next = is_usual_below(at, i, vocabulary) ? trie[i].skip : i + 1;
      vocabulary.allow_tokens(i, next, bits);
      if (trie[i].skip > i + 1 && !ends(at).empty()) out.crossings.push_back({i, 0});
      i = next;
    }
  }
  std::sort(out.crossings.begin(), out.crossings.end(),
            [](const Crossing& a, const Crossing& b) { return a.trie_node < b.trie_node; });
  out.set_allowed(std::move(bits));
  return out;
}

std::shared_ptr<const TokenMask> Lexer::mask(LexId state, const Vocabulary& vocabulary) {
  const Hash128 key = states_[state].mask_key;
  if (auto known = vocabulary.masks().find(key)) return known;
  if (const LexId alike = without_long_counts(state); alike != kDead) {
    auto known = mask(alike, vocabulary);
    if (status_.ok()) vocabulary.masks().insert(key, known);
    return known;
  }
  auto common = text_mask(state, vocabulary);
  if (common == nullptr) {
    if (const auto between = bounds(state)) common = common_mask(*between, vocabulary);
  }
  if (common != nullptr) {
    auto made = std::make_shared<const TokenMask>(complete(*common, state, vocabulary));
    if (status_.ok()) vocabulary.masks().insert(key, made);
    return made;
  }
  const auto like = reference(state);
  const auto known = like ? mask(*like, vocabulary) : std::make_shared<const TokenMask>();
  auto made =
      std::make_shared<const TokenMask>(walk(state, vocabulary, like.value_or(kDead), *known));
  if (status_.ok()) vocabulary.masks().insert(key, made);
  return made;
}

}  // namespace quire::grammar
