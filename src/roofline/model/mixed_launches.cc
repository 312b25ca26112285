#include "roofline/model/mixed_launches.h"

#include <cmath>
#include <optional>
#include <utility>

#include "roofline/model/csv.h"

namespace quire {
namespace {

constexpr int32_t kMaxLaunchSize = 100'000'000;

Result<MixedSample> read_row(const CsvTable& table, size_t row, const NumberFormat& kv) {
  QUIRE_ASSIGN_OR_RETURN(const int32_t heads, table.whole(row, "num_heads", 1, kMaxLaunchSize));
  QUIRE_ASSIGN_OR_RETURN(const int32_t kv_heads,
                         table.whole(row, "num_key_value_heads", 1, kMaxLaunchSize));
  QUIRE_ASSIGN_OR_RETURN(const int32_t dim, table.whole(row, "head_dim", 1, kMaxLaunchSize));
  MixedSample sample;
  sample.work = {.num_heads = static_cast<double>(heads),
                 .num_kv_heads = static_cast<double>(kv_heads),
                 .qk_dim = static_cast<double>(dim),
                 .v_dim = static_cast<double>(dim),
                 .kv_bytes_per_token = 2.0 * kv_heads * dim * kv.bytes(),
                 .kv = kv};
  QUIRE_ASSIGN_OR_RETURN(sample.chunk.num_tokens, table.whole(row, "chunk", 2, kMaxLaunchSize));
  QUIRE_ASSIGN_OR_RETURN(sample.chunk.context, table.whole(row, "kv_prefill", 0, kMaxLaunchSize));
  QUIRE_ASSIGN_OR_RETURN(sample.num_decodes, table.whole(row, "n_decode", 1, kMaxLaunchSize));
  QUIRE_ASSIGN_OR_RETURN(sample.decode_context, table.whole(row, "kv_decode", 1, kMaxLaunchSize));
  QUIRE_ASSIGN_OR_RETURN(sample.us, table.number(row, "us"));
  if (!(sample.us > 0 && sample.us < 1e10)) {
    return invalid_argument("{}: us: expected microseconds above 0, got {:g}", table.place(row),
                            sample.us);
  }
  return sample;
}

}  // namespace

Result<std::vector<MixedSample>> read_mixed_csv(std::string_view text, std::string_view where) {
  QUIRE_ASSIGN_OR_RETURN(const CsvTable table, CsvTable::parse(text, where));
  std::vector<MixedSample> samples;
  for (size_t row = 0; row < table.num_rows(); ++row) {
    QUIRE_ASSIGN_OR_RETURN(const std::string_view dtype, table.field(row, "kv_cache_dtype"));
    const std::optional<NumberFormat> kv = parse_number_format(dtype);
    if (!kv) continue;
    QUIRE_ASSIGN_OR_RETURN(MixedSample sample, read_row(table, row, *kv));
    samples.push_back(std::move(sample));
  }
  return samples;
}

MixedReport judge_mixed(std::span<const MixedSample> samples, const Hardware& hardware) {
  MixedReport report{.num_samples = static_cast<int64_t>(samples.size())};
  if (samples.empty()) return report;
  for (const MixedSample& sample : samples) {
    const std::span<const PromptChunk> chunks(&sample.chunk, 1);
    const double keys = static_cast<double>(sample.num_decodes) * sample.decode_context;
    const double prompt = prefill_attention_time(sample.work, chunks, hardware).predicted_us;
    const double apart =
        prompt +
        decode_attention_time(sample.work, sample.num_decodes, keys, hardware).predicted_us;
    const double joined =
        prompt +
        joined_decode_time(sample.work, chunks, sample.num_decodes, keys, hardware).predicted_us;
    report.apart_mape += std::abs(apart / sample.us - 1);
    report.apart_bias += apart / sample.us - 1;
    report.joined_mape += std::abs(joined / sample.us - 1);
    report.joined_bias += joined / sample.us - 1;
  }
  const double percent = 100 / static_cast<double>(samples.size());
  for (double* value :
       {&report.apart_mape, &report.apart_bias, &report.joined_mape, &report.joined_bias}) {
    *value *= percent;
  }
  return report;
}

}  // namespace quire
