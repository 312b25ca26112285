// pattern_search() minimises a function of a few positive parameters without derivatives: it
// multiplies and divides each parameter by a factor, and reduces factors that no longer help. It is
// deterministic.
#pragma once

#include <functional>
#include <span>
#include <vector>

namespace quire {

struct SearchParameter {
  double* value = nullptr;  // the start, and the result
  double min = 0;
  double max = 0;
};

struct SearchOptions {
  int max_rounds = 40;
  double first_step = 0.3;  // factor 1.3
  double last_step = 0.01;
};

// Calls `loss` with the parameters set. Returns the least loss and leaves its parameters set.
double pattern_search(std::span<const SearchParameter> parameters,
                      const std::function<double()>& loss, const SearchOptions& options = {});

}  // namespace quire
