#include "kernels/api/lora.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/lora/lora_kernels.h"
#include "kernels/cpu/ops.h"

namespace quire {
namespace {

// The work that a thread takes at once: rows whose x stay in a core's second-level cache, and
// enough ranks or outputs to be worth a call.
constexpr int64_t kChunkRows = 64;
constexpr int64_t kChunkRanks = 4;
constexpr int64_t kChunkOutputs = 16 * kLoraPanel;

// The least multiply-adds for which to wake the team.
constexpr int64_t kWorthWaking = 1 << 14;

int64_t chunks(int64_t count, int64_t size) { return (count + size - 1) / size; }

// One part with its sums A x for all rows of the segment: [rows, rank] from `h` on.
struct PartWork {
  const LoraSegment* segment;
  const LoraPart* part;
  float* h;
  int64_t num_rows() const { return std::ssize(segment->rows); }
};

template <class Work>
void for_each_part(const LoraParams& params, Work&& work) {
  float* h = params.workspace;
  for (const LoraSegment& segment : params.segments) {
    for (const LoraPart& part : segment.parts) {
      const PartWork one{&segment, &part, h};
      h += one.num_rows() * part.rank;
      work(one);
    }
  }
}

// Calls run(chunk) for those of a part's `num_chunks` chunks that are in the thread's share.
// `before` of all `total` chunks are those of earlier parts.
template <class Run>
void run_share(WorkRange mine, int64_t& before, int64_t num_chunks, Run&& run) {
  const int64_t begin = std::max<int64_t>(mine.begin - before, 0);
  const int64_t end = std::min(mine.end - before, num_chunks);
  for (int64_t chunk = begin; chunk < end; ++chunk) run(chunk);
  before += num_chunks;
}

void shrink_chunk(const LoraParams& params, const PartWork& work, const cpu::LoraKernels& kernels,
                  int64_t chunk) {
  const LoraPart& part = *work.part;
  const int64_t rank_chunks = chunks(part.rank, kChunkRanks);
  const int64_t row = chunk / rank_chunks * kChunkRows;
  const int64_t rank = chunk % rank_chunks * kChunkRanks;
  const auto* a = static_cast<const uint8_t*>(part.a);
  kernels.shrink({.x = params.x,
                  .x_stride = params.x_stride,
                  .rows = work.segment->rows.data() + row,
                  .num_rows = std::min(kChunkRows, work.num_rows() - row),
                  .a = a + rank * params.k * size_bytes(params.dtype),
                  .num_ranks = std::min(kChunkRanks, part.rank - rank),
                  .k = params.k,
                  .storage = cpu::storage_of(params.dtype),
                  .scale = part.scale,
                  .h = work.h + row * part.rank + rank,
                  .h_stride = part.rank});
}

void expand_chunk(const LoraParams& params, const PartWork& work, const cpu::LoraKernels& kernels,
                  int64_t chunk) {
  const LoraPart& part = *work.part;
  const int64_t output_chunks = chunks(part.num_outputs, kChunkOutputs);
  const int64_t row = chunk / output_chunks * kChunkRows;
  const int64_t output = chunk % output_chunks * kChunkOutputs;
  const auto* b = static_cast<const uint8_t*>(part.b);
  const auto from = [output](const float* values) {
    return values == nullptr ? nullptr : values + output;
  };
  const LoraSegment& segment = *work.segment;
  float* y = params.y;
  kernels.expand({.h = work.h + row * part.rank,
                  .h_stride = part.rank,
                  .rows = segment.rows.data() + row,
                  .num_rows = std::min(kChunkRows, work.num_rows() - row),
                  .b = b + output * part.rank * size_bytes(params.dtype),
                  .rank = part.rank,
                  .num_outputs = std::min(kChunkOutputs, part.num_outputs - output),
                  .storage = cpu::storage_of(params.dtype),
                  .bias = from(part.bias),
                  .gain = from(part.gain),
                  .base_gain = from(part.base_gain),
                  .base = part.base_gain == nullptr ? nullptr
                                                    : segment.base + row * segment.base_stride +
                                                          part.first_output + output,
                  .base_stride = segment.base_stride,
                  .y = y + part.first_output + output,
                  .y_stride = params.y_stride});
}

}  // namespace

void pack_lora_b(const void* rows, int64_t num_outputs, int64_t rank, int64_t bytes_per_element,
                 void* packed) {
  const auto* from = static_cast<const uint8_t*>(rows);
  auto* to = static_cast<uint8_t*>(packed);
  std::memset(to, 0, static_cast<size_t>(lora_b_elements(num_outputs, rank) * bytes_per_element));
  for (int64_t n = 0; n < num_outputs; ++n) {
    const int64_t panel = n / kLoraPanel * kLoraPanel * rank;
    for (int64_t r = 0; r < rank; ++r) {
      std::memcpy(to + (panel + r * kLoraPanel + n % kLoraPanel) * bytes_per_element,
                  from + (n * rank + r) * bytes_per_element,
                  static_cast<size_t>(bytes_per_element));
    }
  }
}

const cpu::LoraKernels& cpu::lora_kernels(Isa isa) {
#ifdef QUIRE_X86_KERNELS
  return by_width(isa, kLoraPortable, kLoraAvx2, kLoraAvx512);
#else
  (void)isa;
  return kLoraPortable;
#endif
}

void cpu::apply_lora(Stream& stream, const LoraParams& params) {
  const HostStream& host_stream = cpu::host(stream);
  const LoraKernels& kernels = lora_kernels(host_stream.isa());
  int64_t shrinks = 0, expands = 0, shrink_work = 0, expand_work = 0;
  for_each_part(params, [&](const PartWork& work) {
    const LoraPart& part = *work.part;
    const int64_t row_chunks = chunks(work.num_rows(), kChunkRows);
    shrinks += row_chunks * chunks(part.rank, kChunkRanks);
    expands += row_chunks * chunks(part.num_outputs, kChunkOutputs);
    shrink_work += work.num_rows() * part.rank * params.k;
    expand_work += work.num_rows() * part.rank * part.num_outputs;
  });
  cpu::run_parallel(host_stream, shrink_work, kWorthWaking, [&](int thread, int num_threads) {
    const WorkRange mine = split_work(shrinks, 1, thread, num_threads);
    int64_t before = 0;
    for_each_part(params, [&](const PartWork& work) {
      const int64_t count =
          chunks(work.num_rows(), kChunkRows) * chunks(work.part->rank, kChunkRanks);
      run_share(mine, before, count,
                [&](int64_t chunk) { shrink_chunk(params, work, kernels, chunk); });
    });
  });
  cpu::run_parallel(host_stream, expand_work, kWorthWaking, [&](int thread, int num_threads) {
    const WorkRange mine = split_work(expands, 1, thread, num_threads);
    int64_t before = 0;
    for_each_part(params, [&](const PartWork& work) {
      const int64_t count =
          chunks(work.num_rows(), kChunkRows) * chunks(work.part->num_outputs, kChunkOutputs);
      run_share(mine, before, count,
                [&](int64_t chunk) { expand_chunk(params, work, kernels, chunk); });
    });
  });
}

}  // namespace quire
