#include "quire/roofline/roofline_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "quire/roofline/roofline_text.h"

namespace quire::roofline {
namespace {

constexpr double kGiga = 1e9;

class Columns {
 public:
  explicit Columns(const std::vector<CostModel>& models) : models_(models) {
    for (const CostModel& model : models) {
      width_ = std::max({width_, model.model().name.size(), model.hardware().name.size()});
    }
  }
  void row(std::string_view name, const std::function<std::string(const CostModel&)>& cell) {
    text_ += fmt::format("{:<34}", name);
    for (const CostModel& model : models_) text_ += fmt::format("  {:>{}}", cell(model), width_);
    text_.push_back('\n');
  }
  // Adds a figure that is better when it is larger, with its ratio to the first column.
  void rates(std::string_view name, const std::function<double(const CostModel&)>& figure) {
    const double first = figure(models_.front());
    row(name, [&](const CostModel& model) {
      const double value = figure(model);
      if (value <= 0) return std::string("-");
      return &model == &models_.front()
                 ? rate_text(value)
                 : fmt::format("{} x{:.2f}", rate_text(value), value / first);
    });
  }
  std::string take() { return std::move(text_); }

 private:
  const std::vector<CostModel>& models_;
  size_t width_ = 14;
  std::string text_;
};

double cached_tokens(const CostModel& model) {
  const Result<MemoryEstimate> memory =
      estimate_memory(model.model(), model.hardware(), model.parallelism());
  return memory.ok() ? static_cast<double>(memory->num_tokens) : 0;
}

}  // namespace

std::string compare(const std::vector<CostModel>& columns, const ReportOptions& options) {
  Columns table(columns);
  table.row("model", [](const CostModel& m) { return m.model().name; });
  table.row("hardware", [](const CostModel& m) { return m.hardware().name; });
  table.row("devices",
            [](const CostModel& m) { return fmt::format("{}", m.parallelism().num_devices()); });
  table.row("parameters, B (per token)", [](const CostModel& m) {
    return fmt::format("{:.2f} ({:.2f})", static_cast<double>(m.model().num_parameters()) / kGiga,
                       static_cast<double>(m.model().num_active_parameters()) / kGiga);
  });
  table.row("peak, TFLOP/s a device", [](const CostModel& m) {
    const MathType math = m.hardware().effective_math(m.model().weights.math);
    return fmt::format("{:.4g}", m.hardware().peak(math) * 1e-12);
  });
  table.row("memory, GB/s a device", [](const CostModel& m) {
    return fmt::format("{:.4g}", m.hardware().memory_bytes_per_s / kGiga);
  });
  table.rates("KV tokens that fit", cached_tokens);
  for (const int32_t context : options.contexts) {
    for (const int32_t batch : options.batch_sizes) {
      table.rates(fmt::format("decode tokens/s, {} x {}", batch, context), [&](const CostModel& m) {
        if (cached_tokens(m) < static_cast<double>(batch) * context) return 0.0;
        return batch / m.predict_us(decode_step(m, batch, context)) * 1e6;
      });
    }
  }
  for (const int32_t tokens : options.prompts) {
    table.rates(fmt::format("prompt tokens/s, {}", tokens), [&](const CostModel& m) {
      return tokens / m.predict_us(prompt_step(m, tokens)) * 1e6;
    });
  }
  return table.take();
}

}  // namespace quire::roofline
