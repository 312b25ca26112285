#include "roofline/model/latent_modules.h"

#include <cmath>
#include <optional>

#include "roofline/model/cost_model.h"
#include "roofline/model/csv.h"
#include "roofline/model/layer_plan.h"
#include "roofline/shape/model_shape.h"

namespace quire {
namespace {

constexpr std::string_view kModel = "deepseek-ai/DeepSeek-V3";
constexpr int32_t kMaxModuleSize = 10'000'000;
constexpr int64_t kMaxStepTokens = int64_t{1} << 24;

// Returns one dense layer of DeepSeek-V3 (its config.json), of which only attention matters here.
Result<ModelShape> one_layer(const LatentModuleSample& sample) {
  const std::string config = fmt::format(
      R"({{"model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 1,
          "num_attention_heads": {0}, "num_key_value_heads": {0}, "kv_lora_rank": 512,
          "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
          "intermediate_size": 18432, "vocab_size": 129280, "max_position_embeddings": 10000000,
          "tie_word_embeddings": false, "torch_dtype": "bfloat16"}})",
      sample.num_heads);
  QUIRE_ASSIGN_OR_RETURN(ModelShape model, parse_model_shape(config));
  model.weights = sample.weights;
  model.kv = sample.kv;
  return model;
}

// Returns whether the kernel is part of the module. Norms and copies are added separately
// (latent_copies_time).
bool in_module(Kernel kernel) {
  return kernel == Kernel::kQkvProjection || kernel == Kernel::kPrefillAttention ||
         kernel == Kernel::kDecodeAttention || kernel == Kernel::kOutputProjection;
}

Result<double> module_us(const LatentModuleSample& sample, const Hardware& hardware) {
  QUIRE_ASSIGN_OR_RETURN(const ModelShape model, one_layer(sample));
  QUIRE_ASSIGN_OR_RETURN(const CostModel cost,
                         CostModel::create(model, hardware, {}, {.max_memoised_tokens = 0}));
  StepShape step;
  for (int32_t i = 0; i < sample.batch; ++i) {
    step.add(sample.context, sample.num_tokens, true, {});
  }
  const auto kernels = cost.explain(step);
  const DevicePlan plan = plan_device(model, {});
  double us =
      latent_copies_time(plan.groups.front(), step.num_tokens, plan.activation_bytes, hardware)
          .predicted_us;
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (in_module(static_cast<Kernel>(i))) us += kernels[i].predicted_us;
  }
  return us;
}

Result<LatentModuleSample> read_row(const CsvTable& table, size_t row) {
  LatentModuleSample sample;
  QUIRE_ASSIGN_OR_RETURN(sample.num_heads, table.whole(row, "num_heads", 1, kMaxModuleSize));
  QUIRE_ASSIGN_OR_RETURN(sample.batch, table.whole(row, "batch_size", 1, kMaxModuleSize));
  QUIRE_ASSIGN_OR_RETURN(sample.num_tokens, table.whole(row, "isl", 1, kMaxModuleSize));
  QUIRE_ASSIGN_OR_RETURN(sample.context, table.whole(row, "step", 0, kMaxModuleSize));
  if (int64_t{sample.batch} * sample.num_tokens > kMaxStepTokens) {
    return invalid_argument("{}: expected up to {} tokens, got {} x {}", table.place(row),
                            kMaxStepTokens, sample.batch, sample.num_tokens);
  }
  QUIRE_ASSIGN_OR_RETURN(sample.us, table.latency_us(row));
  return sample;
}

}  // namespace

Result<std::vector<LatentModuleSample>> read_latent_modules_csv(std::string_view text,
                                                                std::string_view where) {
  QUIRE_ASSIGN_OR_RETURN(const CsvTable table, CsvTable::parse(text, where));
  std::vector<LatentModuleSample> samples;
  for (size_t row = 0; row < table.num_rows(); ++row) {
    QUIRE_ASSIGN_OR_RETURN(const std::string_view model, table.field(row, "model"));
    QUIRE_ASSIGN_OR_RETURN(const std::string_view gemm, table.field(row, "gemm_type"));
    QUIRE_ASSIGN_OR_RETURN(const std::string_view cache, table.field(row, "kv_cache_dtype"));
    const std::optional<NumberFormat> weights = parse_number_format(gemm);
    const std::optional<NumberFormat> kv = parse_number_format(cache);
    if (model != kModel || !weights || !kv) continue;
    QUIRE_ASSIGN_OR_RETURN(LatentModuleSample sample, read_row(table, row));
    sample.weights = *weights;
    sample.kv = *kv;
    samples.push_back(std::move(sample));
  }
  return samples;
}

Result<LatentModuleReport> judge_latent_modules(std::span<const LatentModuleSample> samples,
                                                const NumberFormat& weights, const NumberFormat& kv,
                                                const Hardware& hardware) {
  LatentModuleReport report;
  for (const LatentModuleSample& sample : samples) {
    if (sample.weights != weights || sample.kv != kv) continue;
    QUIRE_ASSIGN_OR_RETURN(const double us, module_us(sample, hardware));
    report.mape += std::abs(us / sample.us - 1);
    report.bias += us / sample.us - 1;
    ++report.num_samples;
  }
  if (report.num_samples == 0) return invalid_argument("latent attention: no such rows");
  report.mape *= 100 / static_cast<double>(report.num_samples);
  report.bias *= 100 / static_cast<double>(report.num_samples);
  return report;
}

}  // namespace quire
