#include "roofline/model/operator_tables.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "roofline/model/csv.h"

namespace quire {
namespace {

constexpr int32_t kMaxSize = 1'000'000'000;

ScatterPoint gemm_point(const GemmWork& work) {
  return {std::log2(work.m), std::log2(work.n), std::log2(work.k), std::log2(work.batch)};
}

ScatterPoint experts_point(const ExpertsWork& work) {
  return {std::log2(work.rows), std::log2(work.distinct), std::log2(work.hidden_size),
          std::log2(work.down_depth), std::log2(1 + work.foreign_rows / work.rows)};
}

ScatterPoint prefill_point(const AttentionWork& work, double batch, double tokens, double context) {
  return {std::log2(batch), std::log2(tokens), std::log2(context / tokens + 1),
          std::log2(work.num_heads), std::log2(work.num_kv_heads)};
}

ScatterPoint decode_point(const AttentionWork& work, double batch, double context) {
  return {std::log2(batch), std::log2(std::max(context, 1.0)), std::log2(work.num_heads),
          std::log2(work.num_kv_heads)};
}

struct Points {
  std::vector<ScatterPoint> points;
  std::vector<double> values;
  void add(const ScatterPoint& point, double value) {
    points.push_back(point);
    values.push_back(value);
  }
};

double scaled(double predicted_us, double log_ratio, double bound_us) {
  return std::max(predicted_us * std::exp(log_ratio), bound_us);
}

void scale(KernelTime& time, double log_ratio) {
  time.predicted_us = scaled(time.predicted_us, log_ratio, time.bound_us);
  time.launch_us = std::min(time.launch_us, time.predicted_us - time.bound_us);
}

Result<AttentionSample> read_attention_row(const CsvTable& table, size_t row, NumberFormat kv) {
  AttentionSample sample;
  QUIRE_ASSIGN_OR_RETURN(sample.batch, table.whole(row, "batch_size", 1, kMaxSize));
  QUIRE_ASSIGN_OR_RETURN(sample.num_tokens, table.whole(row, "isl", 1, kMaxSize));
  QUIRE_ASSIGN_OR_RETURN(sample.context, table.whole(row, "step", 0, kMaxSize));
  QUIRE_ASSIGN_OR_RETURN(const int32_t heads, table.whole(row, "num_heads", 1, kMaxSize));
  QUIRE_ASSIGN_OR_RETURN(const int32_t kv_heads,
                         table.whole(row, "num_key_value_heads", 0, kMaxSize));
  QUIRE_ASSIGN_OR_RETURN(const int32_t dim, table.whole(row, "head_dim", 1, kMaxSize));
  int32_t window = 0;
  if (table.has("window_size")) {
    QUIRE_ASSIGN_OR_RETURN(window, table.whole(row, "window_size", 0, kMaxSize));
  }
  const double real_kv_heads = kv_heads > 0 ? kv_heads : heads;  // 0: one per query head
  sample.work = {.num_heads = static_cast<double>(heads),
                 .num_kv_heads = real_kv_heads,
                 .qk_dim = static_cast<double>(dim),
                 .v_dim = static_cast<double>(dim),
                 .kv_bytes_per_token = 2 * real_kv_heads * dim * kv.bytes(),
                 .window = window,
                 .kv = kv};
  QUIRE_ASSIGN_OR_RETURN(sample.us, table.latency_us(row));
  return sample;
}

}  // namespace

Result<std::vector<GemmSample>> read_gemm_csv(std::string_view text, std::string_view where) {
  QUIRE_ASSIGN_OR_RETURN(const CsvTable table, CsvTable::parse(text, where));
  std::vector<GemmSample> samples;
  for (size_t row = 0; row < table.num_rows(); ++row) {
    QUIRE_ASSIGN_OR_RETURN(const std::string_view dtype, table.field(row, "gemm_dtype"));
    const std::optional<NumberFormat> format = parse_number_format(dtype);
    if (!format) continue;
    GemmSample sample;
    for (const auto& [column, size] :
         {std::pair("m", &sample.work.m), std::pair("n", &sample.work.n),
          std::pair("k", &sample.work.k)}) {
      QUIRE_ASSIGN_OR_RETURN(*size, table.whole(row, column, 1, kMaxSize));
    }
    QUIRE_ASSIGN_OR_RETURN(sample.us, table.latency_us(row));
    sample.work.weights = *format;
    samples.push_back(sample);
  }
  return samples;
}

Result<std::vector<AttentionSample>> read_attention_csv(std::string_view text,
                                                        std::string_view where) {
  QUIRE_ASSIGN_OR_RETURN(const CsvTable table, CsvTable::parse(text, where));
  std::vector<AttentionSample> samples;
  for (size_t row = 0; row < table.num_rows(); ++row) {
    QUIRE_ASSIGN_OR_RETURN(const std::string_view dtype, table.field(row, "kv_cache_dtype"));
    const std::optional<NumberFormat> kv = parse_number_format(dtype);
    if (!kv) continue;
    QUIRE_ASSIGN_OR_RETURN(AttentionSample sample, read_attention_row(table, row, *kv));
    samples.push_back(std::move(sample));
  }
  return samples;
}

KernelTime analytic_time(const GemmSample& sample, const Hardware& hardware) {
  return gemm_time(sample.work, hardware);
}

KernelTime analytic_time(const AttentionSample& sample, const Hardware& hardware) {
  if (sample.num_tokens > 1) {
    const std::vector<PromptChunk> chunks(static_cast<size_t>(sample.batch),
                                          {sample.num_tokens, sample.context});
    return prefill_attention_time(sample.work, chunks, hardware);
  }
  const int32_t keys = sample.context + 1;
  const int32_t seen = sample.work.window > 0 ? std::min(keys, sample.work.window) : keys;
  return decode_attention_time(sample.work, sample.batch, double(sample.batch) * seen, hardware);
}

OperatorTables::AttentionKind OperatorTables::kind_of(const AttentionWork& work) {
  return {static_cast<int32_t>(work.qk_dim), work.window, work.kv.math == MathType::kFp8};
}

OperatorTables::OperatorTables(const Hardware& hardware, std::span<const GemmSample> gemm,
                               std::span<const AttentionSample> attention,
                               std::span<const ExpertsSample> experts) {
  std::map<KernelKind, Points> products;
  for (const GemmSample& sample : gemm) {
    const double ratio = sample.us / analytic_time(sample, hardware).predicted_us;
    products[kernel_kind(sample.work.weights)].add(gemm_point(sample.work), std::log(ratio));
  }
  for (auto& [kind, points] : products) {
    gemm_.emplace(kind, ScatterTable(4, std::move(points.points), std::move(points.values)));
  }
  std::map<KernelKind, Points> routed;
  for (const ExpertsSample& sample : experts) {
    const double ratio = sample.us / analytic_time(sample, hardware).predicted_us;
    routed[kernel_kind(sample.work.weights)].add(experts_point(sample.work), std::log(ratio));
  }
  for (auto& [kind, points] : routed) {
    experts_.emplace(kind, ScatterTable(5, std::move(points.points), std::move(points.values)));
  }
  std::map<AttentionKind, Points> prefill;
  std::map<AttentionKind, Points> decode;
  for (const AttentionSample& sample : attention) {
    const double ratio = std::log(sample.us / analytic_time(sample, hardware).predicted_us);
    if (sample.num_tokens > 1) {
      prefill[kind_of(sample.work)].add(
          prefill_point(sample.work, sample.batch, sample.num_tokens, sample.context), ratio);
    } else {
      const int32_t window = sample.work.window;
      const int32_t keys = sample.context + 1;
      decode[kind_of(sample.work)].add(
          decode_point(sample.work, sample.batch, window > 0 ? std::min(keys, window) : keys),
          ratio);
    }
  }
  for (auto& [kind, points] : prefill) {
    prefill_.emplace(kind, ScatterTable(5, std::move(points.points), std::move(points.values)));
  }
  for (auto& [kind, points] : decode) {
    decode_.emplace(kind, ScatterTable(4, std::move(points.points), std::move(points.values)));
  }
}

void OperatorTables::apply(const GemmWork& work, KernelTime& time) const {
  const auto it = gemm_.find(kernel_kind(work.weights));
  if (it == gemm_.end() || work.m <= 0) return;
  scale(time, it->second.at(gemm_point(work)));
}

void OperatorTables::apply(const ExpertsWork& work, KernelTime& time) const {
  const auto it = experts_.find(kernel_kind(work.weights));
  if (it == experts_.end() || work.rows <= 0) return;
  scale(time, it->second.at(experts_point(work)));
}

void OperatorTables::apply_prefill(const AttentionWork& work, std::span<const PromptChunk> chunks,
                                   KernelTime& time) const {
  const auto it = prefill_.find(kind_of(work));
  if (it == prefill_.end() || chunks.empty()) return;
  double tokens = 0;
  double context = 0;
  for (const PromptChunk& chunk : chunks) {
    tokens += chunk.num_tokens;
    context += chunk.context;
  }
  const auto batch = static_cast<double>(chunks.size());
  scale(time, it->second.at(prefill_point(work, batch, tokens / batch, context / batch)));
}

double OperatorTables::scaled_decode_us(const AttentionWork& work, double num_requests,
                                        double context_sum, double predicted_us,
                                        double bound_us) const {
  const auto it = decode_.find(kind_of(work));
  if (it == decode_.end() || num_requests <= 0) return predicted_us;
  const double ratio = it->second.at(decode_point(work, num_requests, context_sum / num_requests));
  return scaled(predicted_us, ratio, bound_us);
}

void OperatorTables::apply_decode(const AttentionWork& work, double num_requests,
                                  double context_sum, KernelTime& time) const {
  const double us =
      scaled_decode_us(work, num_requests, context_sum, time.predicted_us, time.bound_us);
  if (us == time.predicted_us) return;
  time.predicted_us = us;
  time.launch_us = std::min(time.launch_us, time.predicted_us - time.bound_us);
}

}  // namespace quire
