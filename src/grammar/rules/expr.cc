#include "grammar/rules/expr.h"

#include <algorithm>

#include "grammar/rules/budget.h"

namespace quire::grammar {
namespace {

ByteSet all_bytes() { return ByteSet().set(); }

uint32_t capped(uint64_t length) {
  return static_cast<uint32_t>(std::min<uint64_t>(length, kUnbounded));
}

// Divides the bytes into classes that no set cuts.
ExprStore::ByteClasses split_bytes(std::span<const uint32_t> ids, std::span<const ByteSet> sets) {
  std::vector<ByteSet> classes{all_bytes()};
  for (const uint32_t id : ids) {
    for (size_t c = 0, before = classes.size(); c < before; ++c) {
      const ByteSet inside = classes[c] & sets[id];
      if (inside.none() || inside == classes[c]) continue;
      classes[c] &= ~sets[id];
      classes.push_back(inside);
    }
  }
  ExprStore::ByteClasses out;
  for (size_t c = 0; c < classes.size(); ++c) {
    out.representatives.push_back(static_cast<uint8_t>(classes[c]._Find_first()));
    for (size_t b = classes[c]._Find_first(); b < 256; b = classes[c]._Find_next(b)) {
      out.class_of[b] = static_cast<uint8_t>(c);
    }
  }
  return out;
}

}  // namespace

ExprStore::ExprStore(const ExprLimits& limits) : limits_(limits), slots_(1024) {
  nodes_.push_back({.kind = ExprKind::kNone});
  nodes_.push_back({.kind = ExprKind::kEmpty, .nullable = true});
  nodes_[kEmpty].hash.mix(1);
  Node anything{.kind = ExprKind::kNot, .nullable = true, .depth = 1, .a = kNone};
  anything.hash.mix(2);
  nodes_.push_back(anything);
  for (const char c : std::string_view(".0123456789")) {
    number_sets_.push_back(intern_set(ByteSet().set(static_cast<uint8_t>(c))));
  }
}

uint32_t ExprStore::intern_set(const ByteSet& set) {
  const auto [it, is_new] = set_ids_.try_emplace(set, static_cast<uint32_t>(sets_.size()));
  if (is_new) sets_.push_back(set);
  return it->second;
}

void ExprStore::fail(size_t most, std::string_view what) {
  if (status_.ok()) status_ = over_budget(most, what);
}

bool ExprStore::same_node(const Node& x, const Node& y) const {
  if (x.kind != y.kind) return false;
  if (x.kind == ExprKind::kOr || x.kind == ExprKind::kAnd) {
    const auto p = list(x), q = list(y);
    return std::equal(p.begin(), p.end(), q.begin(), q.end());
  }
  if (x.kind == ExprKind::kMultiple || x.kind == ExprKind::kCompare) {
    return numbers_[x.a] == numbers_[y.a];
  }
  return same(x, y);
}

uint64_t ExprStore::intern_key(const Node& node) const {
  Hash128 key;
  key.mix(static_cast<uint64_t>(node.kind));
  if (node.kind == ExprKind::kOr || node.kind == ExprKind::kAnd) {
    for (const ExprId part : list(node)) key.mix(part);
  } else if (node.kind == ExprKind::kMultiple || node.kind == ExprKind::kCompare) {
    key.mix(node.hash);
  } else {
    key.mix(uint64_t{node.a} << 32 | node.b).mix(uint64_t{node.min} << 32 | node.max);
  }
  return key.lo;
}

void ExprStore::fill_list_properties(Node& node) const {
  node.nullable = node.kind == ExprKind::kAnd;
  node.has_boolean = node.kind == ExprKind::kAnd;
  node.min_length = node.kind == ExprKind::kAnd ? 0 : kUnbounded;
  std::vector<Hash128> hashes;
  for (const ExprId part : list(node)) {
    const Node& child = nodes_[part];
    node.min_length = node.kind == ExprKind::kAnd ? std::max(node.min_length, child.min_length)
                                                  : std::min(node.min_length, child.min_length);
    node.nullable = node.kind == ExprKind::kAnd ? node.nullable && child.nullable
                                                : node.nullable || child.nullable;
    node.has_boolean |= child.has_boolean;
    node.depth = std::max<uint16_t>(node.depth, child.depth + 1);
    hashes.push_back(child.hash);
  }
  std::sort(hashes.begin(), hashes.end());
  for (const Hash128& hash : hashes) node.hash.mix(hash);
}

void ExprStore::fill_properties(Node& node) const {
  node.hash.mix(static_cast<uint64_t>(node.kind) + 16);
  switch (node.kind) {
    case ExprKind::kNone:
    case ExprKind::kEmpty:
      break;
    case ExprKind::kBytes:
      node.min_length = 1;
      for (uint32_t word = 0; word < 4; ++word) {
        node.hash.mix(((sets_[node.a] >> (word * 64)) & ByteSet(~0ULL)).to_ullong());
      }
      break;
    case ExprKind::kConcat: {
      const Node& a = nodes_[node.a];
      const Node& b = nodes_[node.b];
      node.nullable = a.nullable && b.nullable;
      node.has_boolean = a.has_boolean || b.has_boolean;
      node.min_length = capped(uint64_t{a.min_length} + b.min_length);
      // derivative_of_concat() iterates along tails instead of recursing.
      const bool recurses = b.kind != ExprKind::kConcat && a.nullable;
      const int tail = b.kind == ExprKind::kConcat || recurses ? b.depth + recurses : 0;
      node.depth = static_cast<uint16_t>(std::max(a.depth + 1, tail));
      node.hash.mix(a.hash).mix(b.hash);
      break;
    }
    case ExprKind::kOr:
    case ExprKind::kAnd:
      fill_list_properties(node);
      break;
    case ExprKind::kNot:
      node.nullable = !nodes_[node.a].nullable;
      node.has_boolean = true;
      node.depth = nodes_[node.a].depth + 1;
      node.hash.mix(nodes_[node.a].hash);
      break;
    case ExprKind::kRepeat:
      node.nullable = node.min == 0;
      node.has_boolean = nodes_[node.a].has_boolean;
      node.min_length = capped(uint64_t{node.min} * nodes_[node.a].min_length);
      node.depth = nodes_[node.a].depth + 1;
      node.hash.mix(nodes_[node.a].hash)
          .mix(std::min(node.min, kCountHorizon))
          .mix(node.max >= kCountHorizon ? kUnbounded : node.max);
      break;
    case ExprKind::kMultiple:
    case ExprKind::kCompare: {
      const NumberState& state = numbers_[node.a];
      node.nullable = number_accepts(*this, node.kind, state);
      node.has_boolean = true;
      if (node.kind == ExprKind::kMultiple) {
        node.hash.mix(state.a);
      } else {
        for (const char c : text(state.a)) node.hash.mix(static_cast<uint8_t>(c));
      }
      node.hash.mix(state.b).mix(state.position).mix(state.phase * 256U + state.op);
      break;
    }
  }
}

ExprId ExprStore::intern(Node node) {
  if (!status_.ok()) return kNone;
  fill_properties(node);
  if (node.depth > limits_.max_depth) {
    fail(limits_.max_depth, "levels of expressions in each other");
    return kNone;
  }
  size_t slot = intern_key(node) & (slots_.size() - 1);
  while (slots_[slot] != 0) {
    if (same_node(nodes_[slots_[slot]], node)) return slots_[slot];
    slot = (slot + 1) & (slots_.size() - 1);
  }
  if (nodes_.size() >= limits_.max_nodes) {
    fail(limits_.max_nodes, "expressions");
    return kNone;
  }
  spend_work();
  const auto id = static_cast<ExprId>(nodes_.size());
  nodes_.push_back(node);
  slots_[slot] = id;
  if (nodes_.size() * 2 > slots_.size()) {
    std::vector<ExprId> bigger(slots_.size() * 2);
    for (ExprId old = 3; old < nodes_.size(); ++old) {
      size_t place = intern_key(nodes_[old]) & (bigger.size() - 1);
      while (bigger[place] != 0) place = (place + 1) & (bigger.size() - 1);
      bigger[place] = old;
    }
    slots_ = std::move(bigger);
  }
  return id;
}

ExprId ExprStore::intern_list(ExprKind kind, std::vector<ExprId> parts) {
  const size_t begin = lists_.size();
  lists_.insert(lists_.end(), parts.begin(), parts.end());
  const size_t before = nodes_.size();
  const ExprId id = intern(
      {.kind = kind, .a = static_cast<uint32_t>(begin), .b = static_cast<uint32_t>(lists_.size())});
  if (nodes_.size() == before) lists_.resize(begin);
  return id;
}

ExprId ExprStore::bytes(const ByteSet& set) {
  if (set.none()) return kNone;
  return intern({.kind = ExprKind::kBytes, .a = intern_set(set)});
}

ExprId ExprStore::byte(uint8_t value) {
  ExprId& known = single_bytes_[value];
  if (known == kNone) known = bytes(ByteSet().set(value));
  return known;
}

ExprId ExprStore::byte_range(uint8_t lo, uint8_t hi) {
  ByteSet set;
  for (int b = lo; b <= hi; ++b) set.set(static_cast<size_t>(b));
  return bytes(set);
}

ExprId ExprStore::literal(std::string_view text) {
  ExprId out = kEmpty;
  for (size_t i = text.size(); i-- > 0;) out = concat(byte(static_cast<uint8_t>(text[i])), out);
  return out;
}

ExprId ExprStore::concat(ExprId head, ExprId tail) {
  if (head == kNone || tail == kNone) return kNone;
  if (head == kEmpty) return tail;
  if (tail == kEmpty) return head;
  if (head == kAnything && tail == kAnything) return kAnything;
  if (nodes_[head].kind != ExprKind::kConcat) {
    return intern({.kind = ExprKind::kConcat, .a = head, .b = tail});
  }
  std::vector<ExprId> parts;
  for (; nodes_[head].kind == ExprKind::kConcat; head = nodes_[head].b) {
    parts.push_back(nodes_[head].a);
  }
  ExprId out = concat(head, tail);
  for (size_t i = parts.size(); i-- > 0;) out = concat(parts[i], out);
  return out;
}

ExprId ExprStore::concat(std::span<const ExprId> parts) {
  ExprId out = kEmpty;
  for (size_t i = parts.size(); i-- > 0;) out = concat(parts[i], out);
  return out;
}

// Joins alternatives `[a] T` and `[b] T` to `[ab] T`. This makes the derivatives of character
// classes in UTF-8 equal again.
void ExprStore::merge_byte_alternatives(std::vector<ExprId>& parts) {
  struct Entry {
    ExprId tail;
    ByteSet set;
  };
  std::vector<Entry> entries;
  std::unordered_map<ExprId, size_t> by_tail;
  std::vector<ExprId> others;
  for (const ExprId part : parts) {
    const Node& node = nodes_[part];
    const bool is_set = node.kind == ExprKind::kBytes;
    const bool starts_with_set =
        node.kind == ExprKind::kConcat && nodes_[node.a].kind == ExprKind::kBytes;
    if (!is_set && !starts_with_set) {
      others.push_back(part);
      continue;
    }
    const ExprId tail = is_set ? kEmpty : node.b;
    const ByteSet& set = sets_[is_set ? node.a : nodes_[node.a].a];
    const auto [it, is_new] = by_tail.try_emplace(tail, entries.size());
    if (is_new) entries.push_back({tail, {}});
    entries[it->second].set |= set;
  }
  if (entries.size() + others.size() == parts.size()) return;
  parts = std::move(others);
  for (const Entry& entry : entries) parts.push_back(concat(bytes(entry.set), entry.tail));
}

ExprId ExprStore::any_of(std::vector<ExprId> parts) {
  std::vector<ExprId> flat;
  for (const ExprId part : parts) {
    if (part == kAnything) return kAnything;
    if (nodes_[part].kind == ExprKind::kOr) {
      const auto children = list(nodes_[part]);
      flat.insert(flat.end(), children.begin(), children.end());
    } else if (part != kNone) {
      flat.push_back(part);
    }
  }
  if (flat.size() > 1) {
    std::sort(flat.begin(), flat.end());
    flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
    merge_byte_alternatives(flat);
    std::sort(flat.begin(), flat.end());
  }
  // The empty string is redundant beside an alternative that matches it.
  if (flat.size() > 1 && flat.front() == kEmpty &&
      std::any_of(flat.begin() + 1, flat.end(), [&](ExprId e) { return nullable(e); })) {
    flat.erase(flat.begin());
  }
  if (flat.empty()) return kNone;
  return flat.size() == 1 ? flat.front() : intern_list(ExprKind::kOr, std::move(flat));
}

ExprId ExprStore::all_of(std::vector<ExprId> parts) {
  std::vector<ExprId> flat;
  std::optional<ByteSet> set;
  for (const ExprId part : parts) {
    if (part == kNone) return kNone;
    if (nodes_[part].kind == ExprKind::kAnd) {
      const auto children = list(nodes_[part]);
      flat.insert(flat.end(), children.begin(), children.end());
    } else if (nodes_[part].kind == ExprKind::kBytes) {
      set = set.value_or(all_bytes()) & sets_[nodes_[part].a];
    } else if (part != kAnything) {
      flat.push_back(part);
    }
  }
  if (set) {
    const ExprId merged = bytes(*set);
    if (merged == kNone) return kNone;
    flat.push_back(merged);
  }
  std::sort(flat.begin(), flat.end());
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  if (flat.empty()) return kAnything;
  if (flat.front() == kEmpty) {
    const bool all = std::all_of(flat.begin(), flat.end(), [&](ExprId e) { return nullable(e); });
    return all ? kEmpty : kNone;
  }
  if (flat.size() == 1) return flat.front();
  for (const ExprId part : flat) {
    if (nodes_[part].kind == ExprKind::kNot &&
        std::binary_search(flat.begin(), flat.end(), nodes_[part].a)) {
      return kNone;
    }
  }
  return intern_list(ExprKind::kAnd, std::move(flat));
}

ExprId ExprStore::complement(ExprId part) {
  if (part == kNone) return kAnything;
  if (nodes_[part].kind == ExprKind::kNot) return nodes_[part].a;
  return intern({.kind = ExprKind::kNot, .a = part});
}

ExprId ExprStore::repeat(ExprId part, uint32_t min, uint32_t max) {
  if (max == 0 || part == kEmpty) return kEmpty;
  if (part == kNone) return min == 0 ? kEmpty : kNone;
  if (nodes_[part].nullable) min = 0;
  if (min == 1 && max == 1) return part;
  if (part == kAnything) return part;
  const Node& node = nodes_[part];
  if (node.kind == ExprKind::kRepeat && node.min == 0 && node.max == kUnbounded) return part;
  return intern({.kind = ExprKind::kRepeat, .a = part, .min = min, .max = max});
}

ExprId ExprStore::without_complements(ExprId expr) {
  if (nodes_[expr].kind != ExprKind::kAnd) return expr;
  std::vector<ExprId> kept;
  for (const ExprId part : list(nodes_[expr])) {
    if (nodes_[part].kind != ExprKind::kNot) kept.push_back(part);
  }
  return kept.empty() ? expr : all_of(std::move(kept));
}

// Makes the expression of `texts`, which are sorted and share their first `offset` bytes.
ExprId ExprStore::trie_of(std::span<const std::string> texts, size_t offset) {
  struct Frame {
    std::span<const std::string> texts;
    size_t offset;
    size_t next = 0;  // first text not yet grouped
    std::vector<ExprId> parts{};
    std::string_view edge{};  // bytes that lead to this frame
  };
  std::vector<Frame> stack{{texts, offset}};
  for (;;) {
    Frame& frame = stack.back();
    if (frame.next < frame.texts.size() && frame.texts[frame.next].size() == frame.offset) {
      frame.parts.push_back(kEmpty);
      ++frame.next;
      continue;
    }
    if (frame.next == frame.texts.size()) {
      const ExprId done = concat(literal(frame.edge), any_of(std::move(frame.parts)));
      stack.pop_back();
      if (stack.empty()) return done;
      stack.back().parts.push_back(done);
      continue;
    }
    const std::string& first = frame.texts[frame.next];
    size_t end = frame.next + 1;
    while (end < frame.texts.size() && frame.texts[end][frame.offset] == first[frame.offset]) ++end;
    const std::string& last = frame.texts[end - 1];
    size_t common = frame.offset;
    while (common < first.size() && common < last.size() && first[common] == last[common]) ++common;
    const auto group = frame.texts.subspan(frame.next, end - frame.next);
    const auto edge = std::string_view(first).substr(frame.offset, common - frame.offset);
    frame.next = end;
    stack.push_back({group, common, 0, {}, edge});
  }
}

ExprId ExprStore::any_literal(std::vector<std::string> texts) {
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  return texts.empty() ? kNone : trie_of(texts, 0);
}

ExprId ExprStore::number(ExprKind kind, const NumberState& state) {
  numbers_.push_back(state);
  const size_t before = nodes_.size();
  const ExprId id = intern({.kind = kind, .a = static_cast<uint32_t>(numbers_.size() - 1)});
  if (nodes_.size() == before) numbers_.pop_back();
  return id;
}

uint64_t ExprStore::intern_text(std::string_view text) {
  const auto [it, is_new] = text_ids_.try_emplace(std::string(text), texts_.size());
  if (is_new) texts_.emplace_back(text);
  return it->second;
}

ExprId ExprStore::derivative_of_concat(ExprId expr, uint8_t byte) {
  if (!nodes_[nodes_[expr].a].nullable) {  // the usual case: no alternatives
    const Node node = nodes_[expr];
    const ExprId head = derivative(node.a, byte);
    return head == kNone ? kNone : concat(head, node.b);
  }
  std::vector<ExprId> parts;
  for (;;) {
    const ExprId head = nodes_[expr].a;
    const ExprId tail = nodes_[expr].b;
    parts.push_back(concat(derivative(head, byte), tail));
    if (!nodes_[head].nullable) break;
    expr = tail;
    if (nodes_[expr].kind != ExprKind::kConcat) {
      parts.push_back(derivative(expr, byte));
      break;
    }
  }
  return parts.size() == 1 ? parts.front() : any_of(std::move(parts));
}

ExprId ExprStore::derivative(ExprId expr, uint8_t byte) {
  if (derivatives_left_ == 0) {
    fail(max_derivatives_, "derivatives to compile");
    return kNone;
  }
  --derivatives_left_;
  const Node node = nodes_[expr];
  switch (node.kind) {
    case ExprKind::kNone:
    case ExprKind::kEmpty:
      return kNone;
    case ExprKind::kBytes:
      return sets_[node.a].test(byte) ? kEmpty : kNone;
    case ExprKind::kConcat:
      return derivative_of_concat(expr, byte);
    case ExprKind::kOr:
    case ExprKind::kAnd: {
      std::vector<ExprId> parts;
      for (uint32_t i = node.a; i < node.b; ++i) {  // lists_ may move
        const ExprId part = derivative(lists_[i], byte);
        if (node.kind == ExprKind::kAnd && part == kNone) return kNone;
        if (part != kNone) parts.push_back(part);
      }
      return node.kind == ExprKind::kOr ? any_of(std::move(parts)) : all_of(std::move(parts));
    }
    case ExprKind::kNot:
      return complement(derivative(node.a, byte));
    case ExprKind::kRepeat: {
      const ExprId first = derivative(node.a, byte);
      if (first == kNone) return kNone;
      const uint32_t max = node.max == kUnbounded ? kUnbounded : node.max - 1;
      return concat(first, repeat(node.a, node.min == 0 ? 0 : node.min - 1, max));
    }
    case ExprKind::kMultiple:
    case ExprKind::kCompare: {
      const auto next = number_step(*this, node.kind, numbers_[node.a], byte);
      return next ? number(node.kind, *next) : kNone;
    }
  }
  return kNone;
}

ExprId ExprStore::derivative(ExprId expr, std::string_view text) {
  for (const char c : text) {
    if (expr == kNone) break;
    expr = derivative(expr, static_cast<uint8_t>(c));
  }
  return expr;
}

void ExprStore::collect_first_sets(ExprId expr, std::vector<uint32_t>& sets) const {
  for (;;) {
    const Node& node = nodes_[expr];
    switch (node.kind) {
      case ExprKind::kNone:
      case ExprKind::kEmpty:
        return;
      case ExprKind::kBytes:
        sets.push_back(node.a);
        return;
      case ExprKind::kConcat:
        collect_first_sets(node.a, sets);
        if (!nodes_[node.a].nullable) return;
        expr = node.b;
        continue;
      case ExprKind::kOr:
      case ExprKind::kAnd:
        for (const ExprId part : list(node)) collect_first_sets(part, sets);
        return;
      case ExprKind::kNot:
      case ExprKind::kRepeat:
        expr = node.a;
        continue;
      case ExprKind::kMultiple:
      case ExprKind::kCompare:
        sets.insert(sets.end(), number_sets_.begin(), number_sets_.end());
        return;
    }
  }
}

const ExprStore::ByteClasses& ExprStore::byte_classes(std::span<const ExprId> exprs) {
  constexpr size_t kMostKept = 4096;
  first_sets_.clear();
  for (const ExprId expr : exprs) collect_first_sets(expr, first_sets_);
  std::sort(first_sets_.begin(), first_sets_.end());
  first_sets_.erase(std::unique(first_sets_.begin(), first_sets_.end()), first_sets_.end());
  Hash128 key;
  for (const uint32_t id : first_sets_) key.mix(id);
  if (byte_classes_.size() >= kMostKept) byte_classes_.clear();
  const auto [it, is_new] = byte_classes_.try_emplace(key);
  if (is_new) it->second = split_bytes(first_sets_, sets_);
  return it->second;
}

}  // namespace quire::grammar
