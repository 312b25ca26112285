// Readers of the tables of experts and collectives.
#include <algorithm>
#include <cmath>
#include <optional>

#include "roofline/csv.h"
#include "roofline/layer_plan.h"
#include "roofline/operator_tables.h"

namespace quire {
namespace {

constexpr double kMaxSize = 1e9;

// The whole number in `column`, from 1 to kMaxSize.
Result<double> size_at(const CsvTable& table, size_t row, std::string_view column) {
  QUIRE_ASSIGN_OR_RETURN(const double value, table.number(row, column));
  if (value >= 1 && value <= kMaxSize && value == std::floor(value)) return value;
  return invalid_argument("row {}: {}: expected a whole number from 1 to {:g}, got {:g}", row + 1,
                          column, kMaxSize, value);
}

Result<double> latency_us(const CsvTable& table, size_t row) {
  QUIRE_ASSIGN_OR_RETURN(const double value, table.number(row, "latency"));
  if (value > 0 && value <= 1e7) return value * 1e3;
  return invalid_argument("row {}: latency: expected milliseconds above 0, got {:g}", row + 1,
                          value);
}

std::optional<NumberFormat> expert_format(std::string_view dtype) {
  if (dtype == "int4_wo") return parse_number_format("int4");
  if (dtype == "w4a16_mxfp4") return parse_number_format("mxfp4");
  return parse_number_format(dtype);
}

Result<ExpertsSample> read_experts_row(const CsvTable& table, size_t row, NumberFormat weights) {
  double tokens = 0, hidden = 0, inter = 0, topk = 0, experts = 0, tp = 0, ep = 0;
  for (const auto& [column, value] :
       {std::pair("num_tokens", &tokens), std::pair("hidden_size", &hidden),
        std::pair("inter_size", &inter), std::pair("topk", &topk),
        std::pair("num_experts", &experts), std::pair("moe_tp_size", &tp),
        std::pair("moe_ep_size", &ep)}) {
    QUIRE_ASSIGN_OR_RETURN(*value, size_at(table, row, column));
  }
  if (topk > experts || ep > experts) {
    return invalid_argument("row {}: expected topk and moe_ep_size up to num_experts", row + 1);
  }
  const double width = std::ceil(inter / tp);
  ExpertsSample sample;
  sample.work = {.rows = std::max(1.0, tokens * topk / ep),
                 .distinct = std::max(1.0, distinct_experts(experts, topk, tokens) / ep),
                 .hidden_size = hidden,
                 .gate_up_rows = 2 * width,
                 .down_depth = width,
                 .weights = weights};
  sample.work.rows = std::max(sample.work.rows, sample.work.distinct);
  QUIRE_ASSIGN_OR_RETURN(const std::string_view spread, table.field(row, "distribution"));
  sample.balanced = spread == "balanced";
  QUIRE_ASSIGN_OR_RETURN(sample.us, latency_us(table, row));
  return sample;
}

std::optional<Collective> collective_of(std::string_view name) {
  if (name == "all_reduce") return Collective::kAllReduce;
  if (name == "all_gather") return Collective::kAllGather;
  if (name == "alltoall") return Collective::kAllToAll;
  return std::nullopt;
}

}  // namespace

Result<std::vector<ExpertsSample>> read_experts_csv(std::string_view text, std::string_view where) {
  QUIRE_ASSIGN_OR_RETURN(const CsvTable table, CsvTable::parse(text, where));
  std::vector<ExpertsSample> samples;
  for (size_t row = 0; row < table.num_rows(); ++row) {
    QUIRE_ASSIGN_OR_RETURN(const std::string_view dtype, table.field(row, "moe_dtype"));
    const std::optional<NumberFormat> format = expert_format(dtype);
    if (!format) continue;
    Result<ExpertsSample> sample = read_experts_row(table, row, *format);
    if (!sample.ok()) return sample.status().with_context(where);
    samples.push_back(*sample);
  }
  return samples;
}

Result<std::vector<CollectiveSample>> read_collective_csv(std::string_view text,
                                                          std::string_view where) {
  QUIRE_ASSIGN_OR_RETURN(const CsvTable table, CsvTable::parse(text, where));
  const std::string_view dtype_column =
      table.has("allreduce_dtype") ? "allreduce_dtype" : "nccl_dtype";
  std::vector<CollectiveSample> samples;
  for (size_t row = 0; row < table.num_rows(); ++row) {
    QUIRE_ASSIGN_OR_RETURN(const std::string_view name, table.field(row, "op_name"));
    QUIRE_ASSIGN_OR_RETURN(const std::string_view dtype, table.field(row, dtype_column));
    const std::optional<Collective> kind = collective_of(name);
    const std::optional<NumberFormat> format = parse_number_format(dtype);
    if (!kind || !format) continue;
    if (table.has("backend")) {
      QUIRE_ASSIGN_OR_RETURN(const std::string_view backend, table.field(row, "backend"));
      if (backend.ends_with("eager")) continue;
    }
    const Result<double> devices = size_at(table, row, "num_gpus");
    const Result<double> elements = size_at(table, row, "message_size");
    const Result<double> us = latency_us(table, row);
    for (const Status& status : {devices.status(), elements.status(), us.status()}) {
      if (!status.ok()) return status.with_context(where);
    }
    samples.push_back({.kind = *kind,
                       .num_devices = static_cast<int32_t>(*devices),
                       .bytes = *elements * format->bytes(),
                       .us = *us});
  }
  return samples;
}

KernelTime analytic_time(const ExpertsSample& sample, const Hardware& hardware) {
  return experts_time(sample.work, hardware);
}

KernelTime analytic_time(const CollectiveSample& sample, const Hardware& hardware) {
  return collective_time(sample.kind, sample.num_devices, sample.bytes, hardware);
}

}  // namespace quire
