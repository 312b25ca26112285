#include "roofline/model/part_cost.h"

#include <algorithm>

namespace quire {
namespace {

size_t index(Term term) { return static_cast<size_t>(term); }

Term bound_term(Kernel kernel, const KernelTime& time) {
  if (kernel == Kernel::kAllReduce || kernel == Kernel::kAllToAll ||
      kernel == Kernel::kPipelineHop) {
    return Term::kNetwork;
  }
  if (time.compute_bound) return Term::kCompute;
  if (time.weight_bytes >= time.kv_bytes && time.weight_bytes >= time.activation_bytes) {
    return Term::kWeights;
  }
  return time.kv_bytes >= time.activation_bytes ? Term::kKv : Term::kActivations;
}

// Adds `us` to the terms: compute and network time as a whole, memory time in proportion to the
// bytes moved.
void split(std::array<double, kNumTerms>& terms, Term term, const KernelTime& time, double us) {
  if (term == Term::kCompute || term == Term::kNetwork || time.bytes() <= 0) {
    terms[index(term)] += us;
    return;
  }
  terms[index(Term::kWeights)] += us * time.weight_bytes / time.bytes();
  terms[index(Term::kKv)] += us * time.kv_bytes / time.bytes();
  terms[index(Term::kActivations)] += us * time.activation_bytes / time.bytes();
}

double read_bytes(const KernelTime& time) {
  return time.bytes() - std::min(time.bytes(), time.write_bytes);
}

}  // namespace

void add(PartCost& cost, const PartCost& part) {
  cost.us += part.us;
  cost.bound_us += part.bound_us;
  cost.flops += part.flops;
  cost.read_bytes += part.read_bytes;
  cost.write_bytes += part.write_bytes;
  for (size_t i = 0; i < kNumTerms; ++i) {
    cost.terms[i] += part.terms[i];
    cost.bound_terms[i] += part.bound_terms[i];
  }
}

void KernelSum::operator()(Kernel kernel, const KernelTime& time, double layers) {
  const Term term = bound_term(kernel, time);
  cost_.us += layers * time.predicted_us;
  cost_.bound_us += layers * time.bound_us;
  cost_.flops += layers * time.flops;
  cost_.read_bytes += layers * read_bytes(time);
  cost_.write_bytes += layers * time.write_bytes;
  split(cost_.terms, term, time, layers * (time.predicted_us - time.launch_us));
  cost_.terms[index(Term::kLaunch)] += layers * time.launch_us;
  split(cost_.bound_terms, term, time, layers * time.bound_us);
}

void KernelBreakdown::operator()(Kernel kernel, const KernelTime& time, double layers) {
  KernelCost& cost = costs[static_cast<size_t>(kernel)];
  if (time.bound_us * layers >= cost.bound_us) cost.bound_by = bound_term(kernel, time);
  cost.flops += layers * time.flops;
  cost.read_bytes += layers * read_bytes(time);
  cost.write_bytes += layers * time.write_bytes;
  cost.bound_us += layers * time.bound_us;
  cost.predicted_us += layers * time.predicted_us;
}

}  // namespace quire
