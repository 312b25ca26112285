#include "engine/output/stop_matcher.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace quire {

StopMatcher::StopMatcher(const std::vector<std::string>& stops, bool include_stop_in_output)
    : include_stop_(include_stop_in_output) {
  for (const std::string& stop : stops) {
    QUIRE_CHECK(!stop.empty(), "stop strings are validated before");
    Automaton a{stop, std::vector<uint32_t>(stop.size() + 1, 0), 0};
    for (size_t i = 1; i < stop.size(); ++i) {
      uint32_t border = a.failure[i];
      while (border > 0 && stop[border] != stop[i]) border = a.failure[border];
      a.failure[i + 1] = stop[border] == stop[i] ? border + 1 : 0;
    }
    automata_.push_back(std::move(a));
  }
}

void StopMatcher::Automaton::step(char c) {
  if (state == pattern.size()) state = failure[state];
  while (state > 0 && pattern[state] != c) state = failure[state];
  if (pattern[state] == c) ++state;
}

StopMatcher::Output StopMatcher::feed(std::string_view text, bool may_stop) {
  if (automata_.empty()) return {std::string(text), std::nullopt};
  for (size_t i = 0; i < text.size(); ++i) {
    std::optional<size_t> found;
    for (size_t k = 0; k < automata_.size(); ++k) {
      automata_[k].step(text[i]);
      if (!found && automata_[k].state == automata_[k].pattern.size()) found = k;
    }
    if (!found || !may_stop) continue;
    held_.append(text.substr(0, i + 1));
    // The whole stop string is in held_ unless a part of it has been sent, which happens only if
    // stop strings are included.
    if (!include_stop_) held_.resize(held_.size() - automata_[*found].pattern.size());
    return {std::exchange(held_, {}), found};
  }
  held_.append(text);
  size_t keep = 0;
  for (const Automaton& a : automata_) {
    const bool whole = a.state == a.pattern.size();  // it was ignored
    keep = std::max<size_t>(keep, whole ? a.failure[a.state] : a.state);
  }
  if (include_stop_) keep = 0;
  std::string ready = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return {std::move(ready), std::nullopt};
}

std::string StopMatcher::flush() { return std::exchange(held_, {}); }

}  // namespace quire
