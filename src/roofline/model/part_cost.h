// Sums of kernel times: one cost for many kernels, or a cost for each kernel. Private to the cost
// model.
#pragma once

#include <array>

#include "roofline/model/cost_model.h"
#include "roofline/model/kernel_time.h"

namespace quire {

// The cost of some kernels together.
struct PartCost {
  double us = 0;
  double bound_us = 0;
  double flops = 0;
  double read_bytes = 0;
  double write_bytes = 0;
  std::array<double, kNumTerms> terms{};        // of us
  std::array<double, kNumTerms> bound_terms{};  // of bound_us
};

void add(PartCost& cost, const PartCost& part);

// A visitor that sums over kernels; each kernel runs in `layers` layers.
class KernelSum {
 public:
  explicit KernelSum(PartCost& cost) : cost_(cost) {}
  void operator()(Kernel kernel, const KernelTime& time, double layers);

 private:
  PartCost& cost_;
};

class KernelBreakdown {
 public:
  void operator()(Kernel kernel, const KernelTime& time, double layers);
  std::array<KernelCost, kNumKernels> costs{};
};

}  // namespace quire
