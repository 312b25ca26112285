#include "quire/roofline/roofline_explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>

#include "quire/roofline/roofline_text.h"

namespace quire::roofline {
namespace {

constexpr double kMicro = 1e6;

// A Part is the sum of all kernels that have the same kind of bound.
struct Part {
  std::string_view name;
  double flops = 0;
  double bytes = 0;
  double bound_us = 0;
  double predicted_us = 0;
};

using KernelCosts = std::array<KernelCost, kNumKernels>;

Part sum_of(std::string_view name, const KernelCosts& costs,
            std::initializer_list<Kernel> kernels) {
  Part part{.name = name};
  for (const Kernel kernel : kernels) {
    const KernelCost& cost = costs[static_cast<size_t>(kernel)];
    part.flops += cost.flops;
    part.bytes += cost.read_bytes + cost.write_bytes;
    part.bound_us += cost.bound_us;
    part.predicted_us += cost.predicted_us;
  }
  return part;
}

class Explanation {
 public:
  Explanation(const CostModel& model, const StepShape& step)
      : hardware_(model.hardware()), shape_(model.model()), step_(step) {}

  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_ += "          ";
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_.push_back('\n');
  }

  // Adds both sides of the roof for one part, the time for computing and the time for reading, and
  // the part's bound and prediction.
  void add(const Part& part, MathType math) {
    if (part.predicted_us <= 0) return;
    const double peak = hardware_.peak(hardware_.effective_math(math));
    const double compute_us = part.flops / peak * kMicro;
    const double memory_us = part.bytes / hardware_.memory_bytes_per_s * kMicro;
    line("{}: {} FLOP / {} {} FLOP/s = {}; {}B / {}B/s = {}", part.name, scaled(part.flops),
         scaled(peak), to_string(hardware_.effective_math(math)), time_text(compute_us),
         scaled(part.bytes), scaled(hardware_.memory_bytes_per_s), time_text(memory_us));
    line("  bound {} (for each kernel the longer of the two times), {} predicted",
         time_text(part.bound_us), time_text(part.predicted_us));
  }

  // Adds the number of tokens per step above which the matrix products are bound by
  // multiplications.
  void add_bend() {
    const double peak = hardware_.peak(hardware_.effective_math(shape_.weights.math));
    const double bend = peak / hardware_.memory_bytes_per_s;
    const double tokens = bend * shape_.weights.bytes() / 2;
    line("the roof bends at {:.0f} FLOP/byte; a weight of {:g} bits needs 2 FLOP per token, so its",
         bend, shape_.weights.bits);
    line("  product is bound by memory below {:.0f} tokens per step; this step has {}", tokens,
         step_.num_tokens);
  }

  // Adds the terms of the predicted time, the largest first.
  void add_terms(const StepCost& cost) {
    std::vector<std::pair<double, Term>> terms;
    for (size_t i = 0; i < kNumTerms; ++i) {
      if (cost.terms[i] > 0) terms.emplace_back(cost.terms[i], static_cast<Term>(i));
    }
    std::sort(terms.begin(), terms.end(), std::greater<>());
    std::string shares;
    for (const auto& [us, term] : terms) {
      shares += fmt::format("{}{} {:.0f} %", shares.empty() ? "" : ", ", to_string(term),
                            100 * us / cost.total_us);
    }
    line("bound {}, mostly {}; predicted {}: {}", time_text(cost.bound_us), to_string(cost.binding),
         time_text(cost.total_us), shares);
    line("what binds: {}", remedy(cost.binding));
  }

  std::string take() { return std::move(text_); }

 private:
  static std::string_view remedy(Term term) {
    switch (term) {
      case Term::kWeights:
        return "weights are read once per step, whatever the batch is; more requests per step, "
               "fewer bits per weight or more devices help";
      case Term::kKv:
        return "every request reads its own keys and values; a smaller cache format, shorter "
               "contexts or more bandwidth help";
      case Term::kActivations:
        return "values between kernels go through memory; fused kernels help";
      case Term::kCompute:
        return "the arithmetic units are busy; a narrower number format, more devices or fewer "
               "tokens help";
      case Term::kNetwork:
        return "devices wait for each other; fewer devices or faster links help";
      case Term::kLaunch:
      case Term::kHost:
        break;
    }
    return "the program around the kernels takes the time; larger steps help";
  }

  const Hardware& hardware_;
  const ModelShape& shape_;
  const StepShape& step_;
  std::string text_;
};

}  // namespace

std::string explain_step(const CostModel& model, const StepShape& step, std::string_view title) {
  const KernelCosts costs = model.explain(step);
  Explanation text(model, step);
  text.add(sum_of("matrix products", costs,
                  {Kernel::kQkvProjection, Kernel::kOutputProjection, Kernel::kMlp, Kernel::kRouter,
                   Kernel::kHead}),
           model.model().weights.math);
  text.add(sum_of("experts", costs, {Kernel::kExperts}), model.model().expert_weights.math);
  text.add(sum_of("attention", costs, {Kernel::kPrefillAttention, Kernel::kDecodeAttention}),
           MathType::kBf16);
  text.add(sum_of("convolutions and states", costs, {Kernel::kStateScan}), MathType::kBf16);
  text.add(sum_of("norms, rope, activation, sampling", costs,
                  {Kernel::kElementwise, Kernel::kEmbedding, Kernel::kSampling}),
           MathType::kF32);
  const Part network = sum_of("between devices", costs,
                              {Kernel::kAllReduce, Kernel::kAllToAll, Kernel::kPipelineHop});
  if (network.predicted_us > 0) {
    text.line("between devices: bound {}, {} predicted", time_text(network.bound_us),
              time_text(network.predicted_us));
  }
  text.add_bend();
  text.add_terms(model.predict(step));
  return fmt::format("\nwhy       {}\n", title) + text.take();
}

}  // namespace quire::roofline
