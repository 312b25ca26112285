#include "roofline/calibrate/pattern_search.h"

#include <algorithm>

namespace quire {

double pattern_search(std::span<const SearchParameter> parameters,
                      const std::function<double()>& loss, const SearchOptions& options) {
  std::vector<double> steps(parameters.size(), options.first_step);
  double best = loss();
  for (int round = 0; round < options.max_rounds; ++round) {
    bool moving = false;
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (steps[i] < options.last_step) continue;
      moving = true;
      double& value = *parameters[i].value;
      const double before = value;
      bool better = false;
      for (const double factor : {1 + steps[i], 1 / (1 + steps[i])}) {
        value = std::clamp(before * factor, parameters[i].min, parameters[i].max);
        const double tried = loss();
        if (tried < best) {
          best = tried;
          better = true;
          break;
        }
        value = before;
      }
      if (!better) steps[i] *= 0.55;
    }
    if (!moving) break;
  }
  return best;
}

}  // namespace quire
