// Deals the columns of a product to threads, and keeps of their outputs all, the greatest of each
// row, or what a gate makes of them.
#pragma once

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "kernels/api/linear.h"
#include "kernels/cpu/dispatch.h"

namespace quire::cpu {

// The bytes of outputs that a thread computes before it reads them, so that they are still in a
// cache of its core. With smaller slabs the activations would be read more often.
inline constexpr int64_t kSlabBytes = 1 << 20;

// Returns the columns of a slab: whole panels, or `most` if that is less than a panel. It avoids
// rows that would all start in the same cache sets.
inline int64_t slab_columns(int64_t num_rows, int64_t panel, int64_t most) {
  if (most < panel) return most;
  constexpr int64_t kAliased = 1024;
  const int64_t columns = std::max(panel, kSlabBytes / int64_t{sizeof(float)} / num_rows);
  const int64_t whole = std::min(columns, most) / panel * panel;
  return whole > panel && whole % kAliased == 0 ? whole - panel : whole;
}

// Returns whether `value`, in a slab that begins at `column`, replaces `found`. Of equal values the
// one in the lower column wins.
inline bool goes_before(float value, int64_t column, const RowGreatest& found) {
  return value > found.value || (value == found.value && column < found.column);
}

// `words` are the bits of a row's columns; null allows all.
inline bool is_allowed(const uint32_t* words, int64_t column) {
  return words == nullptr || (words[column / 32] >> (column % 32) & 1u) != 0;
}

// Merges a row's outputs from column `first` on into `found`. `words` are the bits of these
// outputs.
inline void merge_greatest(const ElementKernels& kernels, const float* y, int64_t count,
                           int64_t first, const uint32_t* words, RowGreatest& found) {
  bool all_finite = true;
  float value = kernels.greatest(y, count, &all_finite);
  found.all_finite = found.all_finite && all_finite;
  if (found.column >= 0 && !goes_before(value, first, found)) return;
  if (words != nullptr) {
    value = kernels.greatest_allowed(y, words, count);
    if (value == -std::numeric_limits<float>::infinity()) return;
    if (found.column >= 0 && !goes_before(value, first, found)) return;
  }
  int64_t at = 0;
  while (at < count - 1 && !(y[at] == value && is_allowed(words, at))) ++at;
  found.value = value;
  found.column = static_cast<int32_t>(first + at);
}

// Merges the rows of `slots` [threads, M] into the first.
inline void merge_threads(RowGreatest* slots, int64_t num_rows, int num_threads) {
  for (int thread = 1; thread < num_threads; ++thread) {
    for (int64_t row = 0; row < num_rows; ++row) {
      RowGreatest& found = slots[row];
      const RowGreatest& next = slots[thread * num_rows + row];
      found.all_finite = found.all_finite && next.all_finite;
      if (next.column < 0) continue;
      if (found.column >= 0 && !goes_before(next.value, next.column, found)) continue;
      found.value = next.value;
      found.column = next.column;
    }
  }
}

// Returns whether all outputs are stored, without a pass through scratch.
inline bool keeps_all(const LinearParams& params) {
  return params.greatest == nullptr && params.gate == nullptr;
}

// Returns how many columns are dealt to threads: those of the outputs, or half of them with a gate.
inline int64_t dealt_columns(const LinearParams& params) {
  return params.gate == nullptr ? params.weight->spec.n : params.weight->spec.n / 2;
}

// One thread's part in a product whose outputs are not stored. Its scratch is the place of the
// `own` columns in a matrix of all outputs. multiply(columns, y, y_stride) computes the outputs of
// some columns.
template <class Multiply>
class SlabProduct {
 public:
  SlabProduct(const HostStream& stream, const LinearParams& params, int64_t panel, int thread,
              WorkRange own, Multiply& multiply)
      : kernels_(element_kernels(stream.isa())),
        params_(params),
        thread_(thread),
        multiply_(multiply),
        num_products_(params.gate == nullptr ? 1 : 2),
        slab_(slab_columns(num_products_ * params.num_rows, panel, own.end - own.begin)) {
    float* outputs = params.gate == nullptr ? static_cast<float*>(params.y) : params.gate->scratch;
    scratch_ = outputs + num_products_ * params.num_rows * own.begin;
  }

  void run(WorkRange columns) {
    for (int64_t first = columns.begin; first < columns.end; first += slab_) {
      const WorkRange slab{first, std::min(first + slab_, columns.end)};
      multiply_(slab, scratch_, slab_);
      params_.gate == nullptr ? find_greatest(slab) : apply_gate(slab);
    }
  }

 private:
  void find_greatest(WorkRange slab) {
    RowGreatest* found = params_.greatest + thread_ * params_.num_rows;
    for (int64_t row = 0; row < params_.num_rows; ++row) {
      const uint32_t* words = params_.allowed == nullptr ? nullptr : params_.allowed[row];
      if (words != nullptr) words += slab.begin / 32;
      merge_greatest(kernels_, scratch_ + row * slab_, slab.end - slab.begin, slab.begin, words,
                     found[row]);
    }
  }

  void apply_gate(WorkRange slab) {
    const int64_t half = params_.weight->spec.n / 2;
    float* up = scratch_ + params_.num_rows * slab_;
    multiply_({half + slab.begin, half + slab.end}, up, slab_);
    float* y = params_.y;
    for (int64_t row = 0; row < params_.num_rows; ++row) {
      kernels_.activate(activation_kind(params_.gate->activation), scratch_ + row * slab_,
                        up + row * slab_, y + row * params_.y_stride + slab.begin,
                        slab.end - slab.begin);
    }
  }

  const ElementKernels& kernels_;
  const LinearParams& params_;
  const int thread_;
  Multiply& multiply_;
  const int64_t num_products_;  // per column: gate and up
  const int64_t slab_;
  float* scratch_;
};

// The least bytes of weights in a piece: smaller ones take longer to start than to read.
inline constexpr int64_t kPieceBytes = 128 << 10;

// Deals out the columns of a product and runs body(thread, num_threads), which takes them. Pieces
// have at least `least_panels` panels if each thread gets that many. A thread that starts when all
// pieces are taken does not run `body`, which would only prepare for nothing.
template <class Body>
void run_dealt(const HostStream& stream, const LinearParams& params, int64_t panel,
               int64_t least_panels, Body&& body) {
  const WeightSpec& spec = params.weight->spec;
  const int64_t panel_bytes = packed_weight_bytes(spec) / ((spec.n + panel - 1) / panel);
  const int64_t work = spec.n * spec.k;
  const int num_threads = threads_for(stream, work, kLinearWorthWaking);
  const int64_t panels_each = std::max<int64_t>(dealt_columns(params) / panel / num_threads, 1);
  const int64_t least = std::max(kPieceBytes / panel_bytes, least_panels);
  const int64_t grain = std::clamp<int64_t>(least, 1, panels_each) * panel;
  stream.team().deal(dealt_columns(params), grain, num_threads);
  run_parallel(stream, work, kLinearWorthWaking, [&](int thread, int threads) {
    if (stream.team().has_dealt_work()) body(thread, threads);
  });
}

// Computes a thread's share of a product whose kernel writes to y: all outputs, or those that it
// gates.
template <class Multiply>
void multiply_kept(const HostStream& stream, const LinearParams& params, int thread,
                   Multiply&& multiply) {
  ThreadTeam& team = stream.team();
  float* y = params.y;
  for (WorkRange piece = team.take(thread); piece.begin < piece.end; piece = team.take(thread)) {
    multiply(piece, y + piece.begin, params.y_stride);
  }
}

// Computes a thread's share of a product whose dealt_columns() were dealt to `num_threads` threads.
template <class Multiply>
void multiply_columns(const HostStream& stream, const LinearParams& params, int64_t panel,
                      int thread, int num_threads, Multiply&& multiply) {
  if (keeps_all(params)) return multiply_kept(stream, params, thread, multiply);
  ThreadTeam& team = stream.team();
  // Only threads whose scratch holds a whole panel take part.
  const int64_t columns = dealt_columns(params);
  const auto owners = std::clamp<int64_t>(columns / panel, 1, num_threads);
  if (thread >= owners) return;
  const WorkRange own = split_work(columns, panel, thread, static_cast<int>(owners));
  SlabProduct product(stream, params, panel, thread, own, multiply);
  for (WorkRange piece = team.take(thread); piece.begin < piece.end; piece = team.take(thread)) {
    product.run(piece);
  }
}

}  // namespace quire::cpu
