#include "kernels/api/placement.h"

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/quant/quant_layout.h"

namespace quire {
namespace {

constexpr int64_t kPageBytes = 4096;  // the smallest pages

}  // namespace

WorkRange weight_bytes_of(const WeightSpec& spec, WeightBlock block, int thread, int num_threads) {
  const bool is_quantized = spec.quant.is_quantized();
  const int64_t width = is_quantized ? cpu::kQuantPanel : cpu::kPanelWidth;
  const int64_t panel_bytes = is_quantized ? cpu::quant_layout(spec).panel_bytes
                                           : cpu::padded_k(spec) * width * size_bytes(spec.dtype);
  // As in linear(), one thread multiplies a small weight alone.
  const bool is_small = spec.n * spec.k < cpu::kLinearWorthWaking;
  const int64_t count = spec.n / block.num_blocks;
  const WorkRange columns = is_small ? (thread == 0 ? WorkRange{0, count} : WorkRange{count, count})
                                     : split_work(count, width, thread, num_threads);
  const auto first_byte = [&](int64_t column) {
    const int64_t of_weight = block.index * count + column;
    return of_weight >= spec.n ? packed_weight_bytes(spec) : of_weight / width * panel_bytes;
  };
  return {first_byte(columns.begin), first_byte(columns.end)};
}

void touch_weight(Stream& stream, const PackedWeight& weight, int num_blocks) {
  ThreadTeam& team = cpu::host(stream).team();
  if (team.size() == 1) return;
  team.run([&](int thread) {
    auto* bytes = static_cast<volatile uint8_t*>(weight.data);
    for (int block = 0; block < num_blocks; ++block) {
      const WorkRange mine = weight_bytes_of(weight.spec, {block, num_blocks}, thread, team.size());
      for (int64_t at = mine.begin; at < mine.end; at += kPageBytes) bytes[at] = bytes[at];
    }
  });
}

}  // namespace quire
