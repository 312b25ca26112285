// These functions examine the form of expressions, so that the lexer can share masks between
// states.
#include <algorithm>

#include "grammar/rules/expr.h"

namespace quire::grammar {

namespace {

constexpr uint32_t kCharactersPerWord = 8;

}  // namespace

ExprId ExprStore::with_counts(ExprId expr, uint32_t from, uint32_t max) {
  std::unordered_map<ExprId, ExprId> done;
  return with_counts(expr, from, max, done);
}

ExprId ExprStore::with_counts(ExprId expr, uint32_t from, uint32_t max,
                              std::unordered_map<ExprId, ExprId>& done) {
  if (const auto known = done.find(expr); known != done.end()) return known->second;
  const Node node = nodes_[expr];
  ExprId out = expr;
  if (node.kind == ExprKind::kConcat) {
    std::vector<ExprId> parts;  // along tails without recursion
    ExprId rest = expr;
    for (; nodes_[rest].kind == ExprKind::kConcat; rest = nodes_[rest].b) {
      parts.push_back(nodes_[rest].a);
    }
    parts.push_back(rest);
    for (ExprId& part : parts) {
      if (nodes_[part].kind == ExprKind::kBytes) break;
      part = with_counts(part, from, max, done);
    }
    out = concat(parts);
  } else if (node.kind == ExprKind::kOr || node.kind == ExprKind::kAnd) {
    std::vector<ExprId> parts(list(node).begin(), list(node).end());
    for (ExprId& part : parts) part = with_counts(part, from, max, done);
    out = node.kind == ExprKind::kOr ? any_of(std::move(parts)) : all_of(std::move(parts));
  } else if (node.kind == ExprKind::kRepeat) {
    const ExprId part = with_counts(node.a, from, max, done);
    // Few tokens contain several words, so repetitions of words are cut at a lower count than those
    // of characters.
    const bool is_word = nodes_[node.a].min_length > 1 && from < kCountHorizon;
    const uint32_t divisor = is_word ? kCharactersPerWord : 1;
    const uint32_t own_from = std::max(1U, from / divisor);
    const uint32_t own_max = max == kUnbounded ? max : std::max(1U, max / divisor);
    const bool is_counted = node.max != kUnbounded && node.max >= own_from && node.min <= own_max;
    out = repeat(part, node.min, is_counted ? own_max : node.max);
  }
  done.emplace(expr, out);
  return out;
}

ExprId ExprStore::free_text(ExprId expr, uint8_t end) const {
  const Node& node = nodes_[expr];
  const std::span<const ExprId> alternatives =
      node.kind == ExprKind::kOr ? list(node) : std::span(&expr, 1);
  ExprId found = kNone;
  for (const ExprId alternative : alternatives) {
    if (nodes_[alternative].kind != ExprKind::kConcat) return kNone;
    const Node& first = nodes_[nodes_[alternative].a];
    if (first.kind == ExprKind::kRepeat && first.min == 0 && first.max == kUnbounded &&
        !nodes_[alternative].has_boolean) {
      found = nodes_[alternative].a;
    }
    bool needs_end = false;
    for (ExprId rest = alternative; !needs_end; rest = nodes_[rest].b) {
      const bool is_last = nodes_[rest].kind != ExprKind::kConcat;
      const Node& part = nodes_[is_last ? rest : nodes_[rest].a];
      needs_end =
          part.kind == ExprKind::kBytes && sets_[part.a].test(end) && sets_[part.a].count() == 1;
      if (is_last) break;
    }
    if (!needs_end) return kNone;
  }
  return found;
}

}  // namespace quire::grammar
