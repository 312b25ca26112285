// spread_tokens() computes how many rows the experts of the busiest device get if some experts are
// picked more often than others.
#pragma once

#include "roofline/model/kernel_time.h"

namespace quire {

// A model's experts, and how its tokens choose among them.
struct Routing {
  double num_experts = 1;
  double experts_per_token = 1;
  double num_ranks = 1;  // devices that share the experts
  // How often experts are picked follows a power law with this exponent; 0: all equally. Tables of
  // operators have 1.01 and 1.2.
  double skew = 0;
  // An expert has exactly its share of rows, rounded, as in tables. If false, tokens choose at
  // random: rows are spread around the share, and more experts have none.
  bool rounded = false;
  NumberFormat weights;  // its kernel decides how rows are padded
  // Every device gets all rows, including those of other devices' experts.
  bool sees_all_rows = true;
};

struct ExpertLoad {
  double rows = 0;      // tokens x experts per token
  double distinct = 0;  // experts with rows
  double padding = 0;   // rows of whole tiles per row; 0: as for even shares
};

// Returns expected values over random tokens and a random division among the devices.
ExpertLoad spread_tokens(const Routing& routing, double tokens);

}  // namespace quire
