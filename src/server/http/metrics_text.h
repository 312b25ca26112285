// These functions write the engine's counters as Prometheus text (version 0.0.4) under vLLM's
// names, so that dashboards and routers made for vLLM work unchanged.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/observe/engine_stats.h"

namespace quire::server {

struct MetricLabel {
  std::string_view name;
  std::string value;
};

// MetricsWriter appends metrics in the text format.
class MetricsWriter {
 public:
  void family(std::string_view name, std::string_view type, std::string_view help);
  void sample(std::string_view name, std::span<const MetricLabel> labels, double value);
  // Writes _bucket (cumulative), _sum and _count.
  void histogram(std::string_view name, std::span<const MetricLabel> labels,
                 const Histogram& histogram);
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

// The engines that serve one model.
struct ModelEngines {
  std::string model_name;
  std::vector<EngineStats> stats;
};
// Returns all metrics whose names begin with vllm: and quire:, with one series for each engine of
// each model. `now_s` is Unix time.
std::string engine_metrics_text(std::span<const ModelEngines> models, double now_s);
// Returns the same for one model.
std::string engine_metrics_text(std::span<const EngineStats> engines, std::string_view model_name,
                                double now_s);

}  // namespace quire::server
