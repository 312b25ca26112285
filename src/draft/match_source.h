// Sets the source of a draft that repeats what followed the same tokens before.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "draft/drafter.h"

namespace quire {

// Longer matches are continued more often, so there is a source for each range of lengths. The
// priors are guesses that a few dozen drafts replace.
inline void set_match(DraftQuery& query, int32_t length, DraftSource first_source = 0) {
  struct Class {
    int32_t min_length;
    double prior;
  };
  constexpr Class kClasses[] = {{1, 0.15}, {2, 0.3},  {3, 0.45},  {4, 0.55}, {6, 0.65},
                                {8, 0.75}, {12, 0.8}, {16, 0.85}, {24, 0.9}};
  const auto* end = std::find_if(std::begin(kClasses), std::end(kClasses),
                                 [length](const Class& c) { return c.min_length > length; });
  const auto index = std::max<std::ptrdiff_t>(0, end - std::begin(kClasses) - 1);
  query.draft_class.source = first_source + static_cast<DraftSource>(index);
  query.draft_class.prior = kClasses[index].prior;
}

}  // namespace quire
