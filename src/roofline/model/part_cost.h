// These are sums of kernel times: many kernels as one cost, or kernel by kernel. The header is
// private to the cost model.
#pragma once

#include <array>

#include "roofline/model/cost_model.h"
#include "roofline/model/kernel_time.h"

namespace quire {

// A PartCost is what some kernels cost together.
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

// These visit kernels; `layers` layers run the same one.
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
