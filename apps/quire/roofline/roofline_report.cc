#include "quire/roofline/roofline_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>

#include "quire/roofline/roofline_explain.h"
#include "quire/roofline/roofline_text.h"
#include "quire/roofline/what_ifs.h"

namespace quire::roofline {
namespace {

constexpr double kGiga = 1e9;

class Table {
 public:
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_.push_back('\n');
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

void add_head(Table& table, const CostModel& cost, const Result<MemoryEstimate>& memory) {
  const ModelShape& model = cost.model();
  const Hardware& hardware = cost.hardware();
  table.line(
      "model     {}: {} layers, {:.2f}B parameters ({:.2f}B per token), {} weights, KV "
      "{:.1f} KB a token",
      model.name, model.num_layers(), static_cast<double>(model.num_parameters()) / kGiga,
      static_cast<double>(model.num_active_parameters()) / kGiga, weights_text(model),
      model.kv_bytes_per_token() * 1e-3);
  if (const double bytes = model.state_bytes_per_sequence(); bytes > 0) {
    table.line("states    {:.2f} MB a sequence, and as much for each snapshot", bytes * 1e-6);
  }
  if (model.source.any()) {
    table.line(
        "sources   up to {} rows of {:.1f} KB each; the encoder has {:.3f}B of the parameters",
        model.source.max_rows, model.source_bytes_per_row() * 1e-3,
        model.source.num_encoder_parameters() / kGiga);
  }
  const MathType math = hardware.effective_math(model.weights.math);
  const double peak = hardware.peak(math);
  table.line(
      "hardware  {}: {} {:.4g} TFLOP/s, {:.4g} GB/s, {:.4g} GB; the roof bends at {:.0f} "
      "FLOP/byte",
      hardware.name, to_string(math), peak * 1e-12, hardware.memory_bytes_per_s / kGiga,
      hardware.memory_bytes / kGiga, peak / hardware.memory_bytes_per_s);
  table.line("          {}", hardware.provenance.source);
  const Parallelism& parallel = cost.parallelism();
  if (parallel.num_devices() > 1) {
    table.line("devices   {}: tp {}, pp {}, ep {}, dp {}", parallel.num_devices(), parallel.tp,
               parallel.pp, parallel.ep, parallel.dp);
  }
  if (memory.ok()) {
    table.line(
        "memory    weights {:.2f} GB, activations {:.2f} GB, other {:.2f} GB, KV {:.2f} GB "
        "per device: {} tokens in {} blocks",
        memory->weight_bytes / kGiga, memory->activation_bytes / kGiga, memory->other_bytes / kGiga,
        memory->kv_bytes / kGiga, memory->num_tokens, memory->num_blocks);
  } else {
    table.line("memory    {}", memory.status().message());
  }
}

void add_decode(Table& table, const CostModel& cost, const ReportOptions& options,
                const Result<MemoryEstimate>& memory) {
  table.line("");
  table.line("decode    batch  context  step bound  predicted  of bound  tokens/s  at most  binds");
  for (const int32_t context : options.contexts) {
    for (const int32_t batch : options.batch_sizes) {
      const StepCost step = cost.predict(decode_step(cost, batch, context));
      const bool fits = memory.ok() && int64_t{batch} * context <= memory->num_tokens;
      table.line("          {:5}  {:7}  {:>10}  {:>9}  {:6.0f} %  {:>8}  {:>7}  {}{}", batch,
                 context, time_text(step.bound_us), time_text(step.total_us),
                 100 * step.bound_us / step.total_us, rate_text(batch / step.total_us * 1e6),
                 rate_text(batch / step.bound_us * 1e6), to_string(step.binding),
                 fits ? "" : "  (more KV than fits)");
    }
  }
}

void add_prompts(Table& table, const CostModel& cost, const ReportOptions& options) {
  table.line("");
  table.line("prompt    tokens  bound      predicted  of bound  tokens/s  binds");
  for (const int32_t tokens : options.prompts) {
    const StepCost step = cost.predict(prompt_step(cost, tokens));
    table.line("          {:6}  {:>9}  {:>9}  {:6.0f} %  {:>8}  {}", tokens,
               time_text(step.bound_us), time_text(step.total_us),
               100 * step.bound_us / step.total_us, rate_text(tokens / step.total_us * 1e6),
               to_string(step.binding));
  }
}

void add_image(Table& table, const CostModel& cost, const ReportOptions& options) {
  if (options.image_items.empty()) return;
  const KernelCost image = image_cost(cost, options);
  table.line("");
  table.line("image     {}: {} tokens in {} items, {}FLOP, {}B, bound {}, predicted {}, binds {}",
             options.image_size,
             std::accumulate(options.image_items.begin(), options.image_items.end(), 0),
             options.image_items.size(), scaled(image.flops),
             scaled(image.read_bytes + image.write_bytes), time_text(image.bound_us),
             time_text(image.predicted_us), to_string(image.bound_by));
}

void add_kernels(Table& table, const CostModel& cost, std::string_view title,
                 const StepShape& step) {
  table.line("");
  table.line("kernels of {}", title);
  table.line("          {:<18} {:>9} {:>9} {:>9} {:>10} {:>10}  {}", "kernel", "GFLOP", "GB",
             "FLOP/byte", "bound us", "predicted", "binds");
  const auto costs = cost.explain(step);
  for (int i = 0; i < kNumKernels; ++i) {
    const KernelCost& kernel = costs[static_cast<size_t>(i)];
    if (kernel.predicted_us <= 0) continue;
    table.line("          {:<18} {:>9.2f} {:>9.3f} {:>9.1f} {:>10.1f} {:>10.1f}  {}",
               to_string(static_cast<Kernel>(i)), kernel.flops / kGiga,
               (kernel.read_bytes + kernel.write_bytes) / kGiga, kernel.intensity(),
               kernel.bound_us, kernel.predicted_us, to_string(kernel.bound_by));
  }
}

void add_what_ifs(Table& table, const CostModel& cost, const ReportOptions& options) {
  const int32_t context = options.contexts.front();
  table.line("");
  table.line("what if, tokens/s at context {} (change)", context);
  std::string head = fmt::format("          {:<22}", "batch");
  for (const int32_t batch : options.batch_sizes) head += fmt::format(" {:>16}", batch);
  table.line("{}", head);
  const std::vector<WhatIf> rows = what_ifs(cost);
  for (const WhatIf& what : rows) {
    std::string line = fmt::format("          {:<22}", what.name);
    for (const int32_t batch : options.batch_sizes) {
      const auto base = tokens_per_s(rows.front(), cost.hardware(), batch, context);
      const auto speed = tokens_per_s(what, cost.hardware(), batch, context);
      line += speed && base
                  ? fmt::format(" {:>8} ({:+4.0f}%)", rate_text(*speed), 100 * (*speed / *base - 1))
                  : fmt::format(" {:>16}", "-");
    }
    table.line("{}", line);
  }
}

}  // namespace

ExplainedSteps explained_steps(const ReportOptions& options) {
  return {.batch = options.batch_sizes[options.batch_sizes.size() / 2],
          .context = options.contexts.front(),
          .prompt = options.prompts.back()};
}

StepShape decode_step(const CostModel& model, int32_t batch, int32_t context) {
  StepShape step;
  for (int32_t i = 0; i < batch; ++i) step.add(context - 1, 1, true, model.windows());
  return step;
}

StepShape prompt_step(const CostModel& model, int32_t tokens) {
  StepShape step;
  step.add(0, tokens, true, model.windows());
  return step;
}

KernelCost image_cost(const CostModel& model, const ReportOptions& options) {
  StepShape step = prompt_step(model, 2);  // an encoder has no step of its own
  step.pictures = options.image_items;
  return model.explain(step)[static_cast<size_t>(Kernel::kEncoder)];
}

std::string report(const CostModel& model, const ReportOptions& options) {
  Table table;
  const Result<MemoryEstimate> memory =
      estimate_memory(model.model(), model.hardware(), model.parallelism());
  add_head(table, model, memory);
  add_decode(table, model, options, memory);
  add_prompts(table, model, options);
  add_image(table, model, options);
  const auto [batch, context, prompt] = explained_steps(options);
  add_kernels(table, model, fmt::format("one decode step, batch {}, context {}", batch, context),
              decode_step(model, batch, context));
  add_kernels(table, model, fmt::format("a prompt of {} tokens", prompt),
              prompt_step(model, prompt));
  if (options.explain) {
    table.line("{}",
               explain_step(model, decode_step(model, batch, context),
                            fmt::format("one decode step, batch {}, context {}", batch, context)));
    table.line("{}", explain_step(model, prompt_step(model, prompt),
                                  fmt::format("a prompt of {} tokens", prompt)));
  }
  add_what_ifs(table, model, options);
  return table.take();
}

}  // namespace quire::roofline
