// Liveness decides whether an expression matches any string.
#include <algorithm>
#include <functional>
#include <queue>

#include "grammar/rules/expr.h"

namespace quire::grammar {

class ExprStore::Liveness {
 public:
  explicit Liveness(ExprStore& store) : store_(store) {}
  bool find(ExprId expr);

 private:
  bool search(ExprId expr);
  bool has_dead_pair(ExprId expr);

  ExprStore& store_;
};

bool ExprStore::is_live(ExprId expr) {
  if (!nodes_[expr].has_boolean) return expr != kNone;
  if (const auto known = live_.find(expr); known != live_.end()) return known->second;
  const bool is_live = Liveness(*this).find(expr);
  if (status_.ok()) live_[expr] = is_live;
  return is_live;
}

// Decides by the form of the expression if that is possible, otherwise by a search.
bool ExprStore::Liveness::find(ExprId expr) {
  if (store_.nodes_[expr].nullable) return true;
  switch (store_.nodes_[expr].kind) {
    case ExprKind::kConcat: {
      ExprId rest = expr;
      for (; store_.nodes_[rest].kind == ExprKind::kConcat; rest = store_.nodes_[rest].b) {
        if (!store_.is_live(store_.nodes_[rest].a)) return false;
      }
      return store_.is_live(rest);
    }
    case ExprKind::kOr: {
      const auto parts = store_.list(store_.nodes_[expr]);
      const std::vector<ExprId> owned(parts.begin(), parts.end());
      return std::any_of(owned.begin(), owned.end(), [&](ExprId e) { return store_.is_live(e); });
    }
    case ExprKind::kRepeat:
      return store_.is_live(store_.nodes_[expr].a);
    case ExprKind::kAnd:
      return !has_dead_pair(expr) && search(expr);
    default:
      return search(expr);
  }
}

// Returns whether, for one of the complements of an intersection, all parts that are not
// complements together with that one match nothing. This is a smaller search than that of the whole
// intersection.
bool ExprStore::Liveness::has_dead_pair(ExprId expr) {
  std::vector<ExprId> others, complements;
  for (const ExprId part : store_.list(store_.nodes_[expr])) {
    (store_.nodes_[part].kind == ExprKind::kNot ? complements : others).push_back(part);
  }
  if (others.empty() || complements.size() < 2) return false;
  for (const ExprId part : complements) {
    std::vector<ExprId> pair = others;
    pair.push_back(part);
    if (!store_.is_live(store_.all_of(std::move(pair)))) return true;
  }
  return false;
}

// Searches the derivatives, those with the shortest possible match first, for a nullable one. If it
// finds one, all expressions on the way are live; if not, everything that it reached is dead.
bool ExprStore::Liveness::search(ExprId expr) {
  std::unordered_map<ExprId, ExprId> parent{{expr, expr}};
  using Entry = std::pair<uint64_t, ExprId>;  // the least length, and the order of reaching
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  const auto push = [&](ExprId id) {
    queue.emplace(uint64_t{store_.nodes_[id].min_length} << 32 | parent.size(), id);
  };
  push(expr);
  size_t steps = 0;
  while (!queue.empty() && store_.status().ok()) {
    const ExprId at = queue.top().second;
    queue.pop();
    const auto known = store_.live_.find(at);
    const bool is_form_live = !store_.nodes_[at].has_boolean && at != ExprStore::kNone;
    if (store_.nullable(at) || is_form_live || (known != store_.live_.end() && known->second)) {
      for (ExprId e = at;; e = parent[e]) {
        store_.live_[e] = true;
        if (e == expr) return true;
      }
    }
    if (known != store_.live_.end()) continue;
    for (const uint8_t byte : store_.byte_classes(std::span(&at, 1)).representatives) {
      store_.spend_work();
      if (++steps > store_.limits_.max_liveness_steps)
        store_.fail(store_.limits_.max_liveness_steps, "steps to decide whether anything matches");
      if (!store_.status().ok()) return true;
      const ExprId next = store_.derivative(at, byte);
      if (next != ExprStore::kNone && parent.try_emplace(next, at).second) push(next);
    }
  }
  if (!store_.status().ok()) return true;
  for (const auto& [e, unused] : parent) store_.live_[e] = false;
  return false;
}

}  // namespace quire::grammar
