#include "kernels/api/placement.h"

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/quant_layout.h"

namespace quire {
namespace {

constexpr int64_t kPageBytes = 4096;  // the least there are

}  // namespace

WorkRange weight_bytes_of(const WeightSpec& spec, int thread, int num_threads) {
  const bool is_quantized = spec.quant.is_quantized();
  const int64_t width = is_quantized ? cpu::kQuantPanel : cpu::kPanelWidth;
  const int64_t panel_bytes = is_quantized ? cpu::quant_layout(spec).panel_bytes
                                           : cpu::padded_k(spec) * width * size_bytes(spec.dtype);
  // As linear() deals it: small ones are not worth waking the others.
  const bool is_small = spec.n * spec.k < cpu::kLinearWorthWaking;
  const WorkRange columns = is_small
                                ? (thread == 0 ? WorkRange{0, spec.n} : WorkRange{spec.n, spec.n})
                                : split_work(spec.n, width, thread, num_threads);
  const auto first_byte = [&](int64_t column) {
    return column >= spec.n ? packed_weight_bytes(spec) : column / width * panel_bytes;
  };
  return {first_byte(columns.begin), first_byte(columns.end)};
}

void touch_weight(Stream& stream, const PackedWeight& weight) {
  ThreadTeam& team = cpu::host(stream).team();
  if (team.size() == 1) return;
  team.run([&](int thread) {
    const WorkRange mine = weight_bytes_of(weight.spec, thread, team.size());
    auto* bytes = static_cast<volatile uint8_t*>(weight.data);
    for (int64_t at = mine.begin; at < mine.end; at += kPageBytes) bytes[at] = bytes[at];
  });
}

}  // namespace quire
