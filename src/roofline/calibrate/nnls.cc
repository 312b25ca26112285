#include "roofline/calibrate/nnls.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace quire {
namespace {

// The normal equations gram x = right, with columns scaled to length 1.
struct Normal {
  size_t n = 0;
  std::vector<double> gram;
  std::vector<double> right;
  std::vector<double> scale;  // of each column; 0: empty
};

Normal make_normal(std::span<const double> rows, std::span<const double> b, size_t n) {
  Normal normal{.n = n,
                .gram = std::vector<double>(n * n),
                .right = std::vector<double>(n),
                .scale = std::vector<double>(n)};
  for (size_t r = 0; r < b.size(); ++r) {
    const double* row = rows.data() + r * n;
    for (size_t i = 0; i < n; ++i) normal.scale[i] += row[i] * row[i];
  }
  for (double& scale : normal.scale) scale = std::sqrt(scale);
  for (size_t r = 0; r < b.size(); ++r) {
    const double* row = rows.data() + r * n;
    for (size_t i = 0; i < n; ++i) {
      if (normal.scale[i] == 0) continue;
      const double x = row[i] / normal.scale[i];
      normal.right[i] += x * b[r];
      for (size_t j = 0; j < n; ++j) {
        if (normal.scale[j] > 0) normal.gram[i * n + j] += x * row[j] / normal.scale[j];
      }
    }
  }
  return normal;
}

// Solves the least squares over the chosen columns only, by Gaussian elimination with a small
// ridge.
std::vector<double> solve_chosen(const Normal& normal, const std::vector<bool>& chosen) {
  std::vector<size_t> index;
  for (size_t i = 0; i < normal.n; ++i) {
    if (chosen[i]) index.push_back(i);
  }
  const size_t m = index.size();
  std::vector<double> a(m * (m + 1));
  const auto at = [&](size_t r, size_t c) -> double& { return a[r * (m + 1) + c]; };
  for (size_t r = 0; r < m; ++r) {
    for (size_t c = 0; c < m; ++c) at(r, c) = normal.gram[index[r] * normal.n + index[c]];
    at(r, r) += 1e-10;
    at(r, m) = normal.right[index[r]];
  }
  for (size_t p = 0; p < m; ++p) {
    for (size_t r = p + 1; r < m; ++r) {
      const double factor = at(r, p) / at(p, p);
      for (size_t c = p; c <= m; ++c) at(r, c) -= factor * at(p, c);
    }
  }
  std::vector<double> x(normal.n);
  for (size_t p = m; p-- > 0;) {
    double sum = at(p, m);
    for (size_t c = p + 1; c < m; ++c) sum -= at(p, c) * x[index[c]];
    x[index[p]] = sum / at(p, p);
  }
  return x;
}

double gradient(const Normal& normal, const std::vector<double>& x, size_t i) {
  double sum = normal.right[i];
  for (size_t j = 0; j < normal.n; ++j) sum -= normal.gram[i * normal.n + j] * x[j];
  return sum;
}

// Moves x towards `target` until the first chosen coefficient reaches 0, which leaves the set.
void step_towards(const std::vector<double>& target, std::vector<double>& x,
                  std::vector<bool>& chosen) {
  double alpha = 1;
  for (size_t i = 0; i < x.size(); ++i) {
    if (chosen[i] && target[i] <= 0) alpha = std::min(alpha, x[i] / (x[i] - target[i]));
  }
  for (size_t i = 0; i < x.size(); ++i) {
    if (!chosen[i]) continue;
    x[i] += alpha * (target[i] - x[i]);
    if (x[i] <= 1e-12) {
      x[i] = 0;
      chosen[i] = false;
    }
  }
}

}  // namespace

std::vector<double> solve_nnls(std::span<const double> rows, std::span<const double> b,
                               size_t num_columns) {
  QUIRE_CHECK(rows.size() == b.size() * num_columns, "nnls: {} values for {} rows of {}",
              rows.size(), b.size(), num_columns);
  const Normal normal = make_normal(rows, b, num_columns);
  std::vector<double> x(num_columns);
  std::vector<bool> chosen(num_columns);
  double largest = 0;
  for (const double right : normal.right) largest = std::max(largest, std::abs(right));
  const double tolerance = 1e-9 * largest;
  for (size_t round = 0; round < 3 * num_columns; ++round) {
    size_t best = num_columns;
    double best_gradient = tolerance;
    for (size_t i = 0; i < num_columns; ++i) {
      const double g = chosen[i] || normal.scale[i] == 0 ? 0 : gradient(normal, x, i);
      if (g > best_gradient) {
        best = i;
        best_gradient = g;
      }
    }
    if (best == num_columns) break;
    chosen[best] = true;
    for (size_t inner = 0; inner <= num_columns; ++inner) {
      const std::vector<double> target = solve_chosen(normal, chosen);
      bool feasible = true;
      for (size_t i = 0; i < num_columns; ++i) feasible &= !chosen[i] || target[i] > 0;
      if (feasible) {
        x = target;
        break;
      }
      step_towards(target, x, chosen);
    }
  }
  for (size_t i = 0; i < num_columns; ++i) {
    x[i] = normal.scale[i] > 0 ? x[i] / normal.scale[i] : 0;
  }
  return x;
}

}  // namespace quire
