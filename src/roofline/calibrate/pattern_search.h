// pattern_search() minimises a function of a few positive parameters without derivatives: it tries
// each parameter a factor up and down, and narrows the factors that no longer help. It is
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

// `loss` is called with the parameters set. Returns the least loss; the parameters have it.
double pattern_search(std::span<const SearchParameter> parameters,
                      const std::function<double()>& loss, const SearchOptions& options = {});

}  // namespace quire
