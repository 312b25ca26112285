// spread_tokens() says how many rows the experts of the busiest device get when some experts are
// picked more often than others.
#pragma once

#include "roofline/model/kernel_time.h"

namespace quire {

// A Routing is a model's experts and how its tokens choose among them.
struct Routing {
  double num_experts = 1;
  double experts_per_token = 1;
  double num_ranks = 1;  // devices that the experts are divided among
  // How often experts are picked is drawn from a power law with this exponent; 0: all alike. Tables
  // of operators have 1.01 and 1.2.
  double skew = 0;
  // The table's rows of an expert are its share, rounded. Tokens that choose for themselves are
  // spread around it, and leave more experts without any.
  bool rounded = false;
  NumberFormat weights;  // whose kernel has its way to pad rows
  // Every device is handed all rows, those of the others' experts too.
  bool sees_all_rows = true;
};

struct ExpertLoad {
  double rows = 0;      // tokens x experts per token
  double distinct = 0;  // experts with rows
  double padding = 0;   // rows of whole tiles for each row; 0: as even shares have it
};

// Returns expected values over random tokens and a random division among the devices.
ExpertLoad spread_tokens(const Routing& routing, double tokens);

}  // namespace quire
