// solve_nnls(): non-negative least squares (Lawson and Hanson, "Solving Least Squares Problems",
// 1974).
#pragma once

#include <span>
#include <vector>

namespace quire {

// Returns the coefficients x >= 0 that minimise |A x - b|. `rows` is A, row by row, with one row of
// `num_columns` per element of b. Columns of zeros get 0.
std::vector<double> solve_nnls(std::span<const double> rows, std::span<const double> b,
                               size_t num_columns);

}  // namespace quire
