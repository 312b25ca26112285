// Reads the tables of experts and collectives.
#include <algorithm>
#include <cmath>
#include <optional>

#include "base/text_fields.h"
#include "roofline/model/csv.h"
#include "roofline/model/expert_routing.h"
#include "roofline/model/operator_tables.h"

namespace quire {
namespace {

constexpr int32_t kMaxCsvSize = 1'000'000'000;

std::optional<NumberFormat> expert_format(std::string_view dtype) {
  if (dtype == "int4_wo") return parse_number_format("int4");
  if (dtype == "w4a16_mxfp4") return parse_number_format("mxfp4");
  return parse_number_format(dtype);
}

// Returns whether a row is of the kernel that is not used. Tables have MXFP4 experts by two
// kernels: Triton's, on which models of this format run, and Marlin's, which serves other models of
// this format and takes up to twice as long.
Result<bool> is_of_other_kernel(const CsvTable& table, size_t row, std::string_view dtype) {
  if (dtype != "w4a16_mxfp4" || !table.has("kernel_source")) return false;
  QUIRE_ASSIGN_OR_RETURN(const std::string_view kernel, table.field(row, "kernel_source"));
  return kernel.find("marlin") != kernel.npos;
}

// Returns the exponent of "power_law_1.01"; 0 for any other distribution.
Result<double> skew_of(std::string_view distribution) {
  constexpr std::string_view kPowerLaw = "power_law_";
  if (!distribution.starts_with(kPowerLaw)) return 0.0;
  return parse_number(distribution.substr(kPowerLaw.size()), 0, 8, "distribution");
}

Result<ExpertsSample> read_experts_row(const CsvTable& table, size_t row, NumberFormat weights) {
  double tokens = 0, hidden = 0, inter = 0, topk = 0, experts = 0, tp = 0, ep = 0;
  for (const auto& [column, value] :
       {std::pair("num_tokens", &tokens), std::pair("hidden_size", &hidden),
        std::pair("inter_size", &inter), std::pair("topk", &topk),
        std::pair("num_experts", &experts), std::pair("moe_tp_size", &tp),
        std::pair("moe_ep_size", &ep)}) {
    QUIRE_ASSIGN_OR_RETURN(*value, table.whole(row, column, 1, kMaxCsvSize));
  }
  if (topk > experts || ep > experts) {
    return invalid_argument(
        "{}: expected topk and moe_ep_size up to num_experts, got {:g} and {:g} of {:g}",
        table.place(row), topk, ep, experts);
  }
  const double width = std::ceil(inter / tp);
  ExpertsSample sample;
  QUIRE_ASSIGN_OR_RETURN(const std::string_view spread, table.field(row, "distribution"));
  sample.balanced = spread == "balanced";
  const Result<double> skew = skew_of(spread);
  if (!skew.ok()) return skew.status().with_context(table.place(row));
  ExpertLoad load = spread_tokens({.num_experts = experts,
                                   .experts_per_token = topk,
                                   .num_ranks = ep,
                                   .skew = *skew,
                                   .rounded = true,
                                   .weights = weights},
                                  tokens);
  load.rows = std::max(1.0, load.rows);
  // With even shares, rows share an expert only if every expert has one.
  if (sample.balanced) load.distinct = std::max(1.0, std::min(load.rows, experts / ep));
  sample.work = {.rows = load.rows,
                 .distinct = load.distinct,
                 .foreign_rows = std::max(0.0, tokens * topk - load.rows),
                 .padding = load.padding,
                 .hidden_size = hidden,
                 .gate_up_rows = 2 * width,
                 .down_depth = width,
                 .weights = weights};
  sample.work.rows = std::max(sample.work.rows, sample.work.distinct);
  QUIRE_ASSIGN_OR_RETURN(sample.us, table.latency_us(row));
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
    QUIRE_ASSIGN_OR_RETURN(const bool other, is_of_other_kernel(table, row, dtype));
    if (!format || other) continue;
    QUIRE_ASSIGN_OR_RETURN(ExpertsSample sample, read_experts_row(table, row, *format));
    samples.push_back(std::move(sample));
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
    const bool library = !table.has("backend");
    if (!library) {
      QUIRE_ASSIGN_OR_RETURN(const std::string_view backend, table.field(row, "backend"));
      if (backend.ends_with("eager")) continue;
    }
    QUIRE_ASSIGN_OR_RETURN(const int32_t devices, table.whole(row, "num_gpus", 1, kMaxCsvSize));
    QUIRE_ASSIGN_OR_RETURN(const int32_t elements,
                           table.whole(row, "message_size", 1, kMaxCsvSize));
    QUIRE_ASSIGN_OR_RETURN(const double us, table.latency_us(row));
    samples.push_back({.kind = *kind,
                       .num_devices = devices,
                       .bytes = elements * format->bytes(),
                       .us = us,
                       .library = library});
  }
  return samples;
}

KernelTime analytic_time(const ExpertsSample& sample, const Hardware& hardware) {
  return experts_time(sample.work, hardware);
}

KernelTime analytic_time(const CollectiveSample& sample, const Hardware& hardware) {
  const auto time = sample.library ? library_collective_time : collective_time;
  return time(sample.kind, sample.num_devices, sample.bytes, hardware);
}

}  // namespace quire
