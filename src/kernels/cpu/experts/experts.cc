// run_experts() on CPUs. It makes two rounds of products over all experts that have rows: gate and
// up, whose outputs go through the activation while they are in a cache, and then down. Then it
// sums the outputs of each token in the order of its choice. A piece of work is some columns of an
// expert. The products are those of linear(), so every type of weight works, and the bits of a row
// do not depend on the number of rows.
#include "kernels/api/experts.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/experts/grouping.h"
#include "kernels/cpu/experts/updates.h"
#include "kernels/cpu/experts/workspace.h"
#include "kernels/cpu/linear/product.h"
#include "kernels/cpu/linear_columns.h"
#include "kernels/cpu/ops.h"

namespace quire {
namespace {

using cpu::ExpertsCut;
using cpu::Grouping;
using cpu::kMostBlockRows;
using cpu::kPrivateRows;
using cpu::pack_alike;
using cpu::round_up;

constexpr int64_t kPanel = cpu::kExpertsPanel;

// With fewer elements in the sum, waking the team costs more than it saves.
constexpr int64_t kSumElements = 1 << 15;
// The bytes at the start of a stream of weights that are prefetched while another stream is still
// read. Until the hardware has recognized a stream, a thread waits for each line of it.
constexpr int64_t kPrefetchBytes = 4096;

// One call of run_experts().
class ExpertsCall {
 public:
  ExpertsCall(const HostStream& stream, const RunExpertsParams& params)
      : stream_(stream),
        params_(params),
        elements_(cpu::element_kernels(stream.isa())),
        cut_(stream, params.num_tokens, params.experts, params.experts_per_token),
        num_pairs_(params.num_tokens * params.experts_per_token),
        expert_size_(cut_.sample->up->spec.n),
        input_size_(cut_.sample->up->spec.k),
        output_size_(cut_.sample->down->spec.n),
        out_stride_(output_size_),
        summed_{0, output_size_} {
    const int threads = stream.team().size();
    auto* at = reinterpret_cast<uint8_t*>(
        round_up(static_cast<int64_t>(reinterpret_cast<uintptr_t>(params.workspace)), 64));
    const auto take = [&](int64_t bytes) {
      uint8_t* taken = at;
      at += bytes;
      return taken;
    };
    grouping_ =
        cpu::group_pairs(params.expert_ids, params.num_tokens, params.experts_per_token,
                         static_cast<int32_t>(params.experts.size()), take(cut_.grouping_bytes));
    packed_ = take(cut_.packed_bytes);
    up_packed_ = take(cut_.up_packed_bytes);
    scratch_ = take(threads * round_up(cut_.scratch_bytes, 64));
    slabs_ = reinterpret_cast<float*>(take(threads * round_up(cut_.slab_floats, 16) * 4));
    gathers_ = reinterpret_cast<float*>(take(threads * cut_.gather_floats * 4));
    hidden_ = reinterpret_cast<float*>(take(round_up(cut_.hidden_floats, 16) * 4));
    outputs_ = reinterpret_cast<float*>(at);
    own_hidden_ = hidden_;
    hidden_stride_ = cut_.hidden_stride;
    if (params.spread != nullptr) keep_own(*params.spread);
    if (params.updates != nullptr) {
      updates_.emplace(*params.updates, grouping_, num_pairs_,
                       static_cast<int64_t>(params.experts.size()), stream.isa());
    }
    if (params.exchange == nullptr) return;
    hidden_ = params.exchange->inside;
    own_hidden_ = hidden_ + params.exchange->first_inside;
    hidden_stride_ = params.exchange->inside_stride;
    out_stride_ = params.exchange->out_stride;
  }

  void run() {
    if (updates_) updates_->shrink_inputs(stream_, params_.x, input_size_);
    run_round(expert_size_, input_size_, &ExpertsCall::pack_inputs, &ExpertsCall::multiply_inputs);
    if (params_.exchange != nullptr) params_.exchange->gather(params_.exchange->context);
    if (updates_)
      updates_->shrink_inside(stream_, hidden_, hidden_stride_, cut_.sample->down->spec.k);
    run_round(output_size_, expert_size_, &ExpertsCall::pack_hidden, &ExpertsCall::multiply_down);
    if (params_.spread != nullptr) {
      params_.spread->gather(params_.spread->context,
                             {grouping_.first_row, params_.experts.size() + 1});
    }
    sum_outputs();
  }

 private:
  // Leaves the rows of other ranks' experts to those ranks. All ranks use the same row numbers.
  void keep_own(const ExpertsSpread& spread) {
    int32_t* const begin = grouping_.active;
    int32_t* const end = begin + grouping_.num_active;
    grouping_.active = std::lower_bound(begin, end, spread.first);
    grouping_.num_active =
        static_cast<int32_t>(std::lower_bound(begin, end, spread.end) - grouping_.active);
    outputs_ = spread.outputs;
    summed_ = {spread.first_column, spread.end_column};
  }

  // Some columns of an expert, which a thread multiplies.
  struct Piece {
    int32_t expert;
    WorkRange columns;
    int32_t next_expert;  // of the columns after these, which this thread most likely takes next
    int64_t next_column;
    int thread;
    uint8_t* packed;
    uint8_t* up_packed;
  };

  // Return the expert's rows of the inside, from the first column and from the first own column on.
  const float* hidden_of(int32_t expert) const {
    return hidden_ + grouping_.first_row[expert] * hidden_stride_;
  }
  float* own_hidden_of(int32_t expert) const {
    return own_hidden_ + grouping_.first_row[expert] * hidden_stride_;
  }
  // Returns the active expert after active[rank]; after the last one comes the first.
  int32_t expert_after(int32_t rank) const {
    return grouping_.active[rank + 1 < grouping_.num_active ? rank + 1 : 0];
  }
  uint8_t* scratch_of(int thread) const {
    return scratch_ + thread * round_up(cut_.scratch_bytes, 64);
  }

  // The blocks of an expert's rows that a thread packs (first, first + step, …), and where to.
  struct Packing {
    int32_t expert;
    int thread;
    int64_t first;
    int64_t step;
    uint8_t* packed;
    uint8_t* up_packed;
  };

  void pack_inputs(const Packing& packing) const {
    const ExpertWeights& weights = params_.experts[static_cast<size_t>(packing.expert)];
    if (weights.gate != nullptr) pack_tokens(*weights.gate, packing, packing.packed);
    if (weights.gate == nullptr) {
      pack_tokens(*weights.up, packing, packing.packed);
    } else if (!pack_alike(weights.gate->spec, weights.up->spec)) {
      pack_tokens(*weights.up, packing, packing.up_packed);
    }
  }

  // Packs rows of x, which are not contiguous: a block of them is copied first.
  void pack_tokens(const PackedWeight& weight, const Packing& packing, uint8_t* packed) const {
    const float* x = params_.x;
    float* rows = gathers_ + packing.thread * cut_.gather_floats;
    const int32_t* tokens = grouping_.token_of + grouping_.first_row[packing.expert];
    pack(weight, packing, packed, [&](int64_t first, int64_t end) {
      QUIRE_CHECK(end - first <= kMostBlockRows, "a block of {} rows", end - first);
      for (int64_t row = first; row < end; ++row) {
        std::copy_n(x + tokens[row] * input_size_, input_size_, rows + (row - first) * input_size_);
      }
      return std::pair<const float*, int64_t>(rows, input_size_);
    });
  }

  void pack_hidden(const Packing& packing) const {
    const ExpertWeights& weights = params_.experts[static_cast<size_t>(packing.expert)];
    const float* hidden = hidden_of(packing.expert);
    pack(*weights.down, packing, packing.packed, [&](int64_t first, int64_t /*end*/) {
      return std::pair(hidden + first * hidden_stride_, hidden_stride_);
    });
  }

  // rows(first, end) returns the address and stride of these rows.
  template <typename Rows>
  void pack(const PackedWeight& weight, const Packing& packing, uint8_t* packed,
            const Rows& rows) const {
    const int64_t num_rows = grouping_.num_rows(packing.expert);
    cpu::with_product(stream_.isa(), weight, num_rows, [&](const auto& product) {
      for (int64_t block = packing.first; block < product.num_blocks(); block += packing.step) {
        const auto [x, stride] = rows(product.first_row(block), product.first_row(block + 1));
        product.pack_block(block, x, stride, packed);
      }
    });
  }

  // Computes one round: the products [num_columns, depth] of all active experts.
  void run_round(int64_t num_columns, int64_t depth,
                 void (ExpertsCall::*pack_rows)(const Packing&) const,
                 void (ExpertsCall::*multiply)(const Piece&) const) {
    if (grouping_.num_active == 0) return;
    ThreadTeam& team = stream_.team();
    const bool share = num_pairs_ > kPrivateRows;
    if (share) {
      team.run([&](int thread) {
        for (int32_t i = 0; i < grouping_.num_active; ++i) {
          const int32_t expert = grouping_.active[i];
          const int64_t at = grouping_.first_row[expert] * cut_.row_bytes;
          // Experts with few rows have one block, so threads start with different experts.
          (this->*pack_rows)({expert, thread, (thread + i) % team.size(), team.size(), packed_ + at,
                              up_packed_ + at});
        }
      });
    }
    const int64_t padded_columns = round_up(num_columns, kPanel);
    const int64_t work = grouping_.num_active * num_columns * depth;
    const int num_threads = cpu::threads_for(stream_, work, cpu::kLinearWorthWaking);
    team.deal(grouping_.num_active * padded_columns, grain_columns(num_columns, num_threads),
              num_threads);
    cpu::run_parallel(stream_, work, cpu::kLinearWorthWaking, [&](int thread, int /*threads*/) {
      int32_t packed_expert = -1;
      for (WorkRange taken = team.take(thread); taken.begin < taken.end;
           taken = team.take(thread)) {
        for (int64_t at = taken.begin; at < taken.end;) {
          const auto rank = static_cast<int32_t>(at / padded_columns);
          const int32_t expert = grouping_.active[rank];
          const int64_t begin = at % padded_columns;
          const int64_t end = std::min(padded_columns, begin + taken.end - at);
          at += end - begin;
          const int64_t offset = share ? grouping_.first_row[expert] * cut_.row_bytes
                                       : thread * num_pairs_ * cut_.row_bytes;
          uint8_t* packed = packed_ + offset;
          uint8_t* up_packed = up_packed_ + offset;
          if (!share && expert != packed_expert)
            (this->*pack_rows)({expert, thread, 0, 1, packed, up_packed});
          packed_expert = expert;
          const bool ends = end == padded_columns;
          (this->*multiply)({.expert = expert,
                             .columns = {begin, std::min(end, num_columns)},
                             .next_expert = ends ? expert_after(rank) : expert,
                             .next_column = ends ? 0 : end,
                             .thread = thread,
                             .packed = packed,
                             .up_packed = up_packed});
        }
      }
    });
  }

  // Returns the columns of a piece: panels of at least kPieceBytes, but at most a thread's share.
  int64_t grain_columns(int64_t num_columns, int num_threads) const {
    const PackedWeight& weight =
        num_columns == expert_size_ ? *cut_.sample->up : *cut_.sample->down;
    const int64_t column_bytes =
        std::max<int64_t>(packed_weight_bytes(weight.spec) / num_columns, 1);
    const int64_t columns = round_up(cpu::kPieceBytes / column_bytes, kPanel);
    const int64_t share = grouping_.num_active * num_columns / num_threads;
    return std::max(std::min(columns, share / kPanel * kPanel), kPanel);
  }

  void multiply_inputs(const Piece& piece) const {
    const ExpertWeights& weights = params_.experts[static_cast<size_t>(piece.expert)];
    const int64_t num_rows = grouping_.num_rows(piece.expert);
    if (weights.gate == nullptr) {
      float* out = own_hidden_of(piece.expert) + piece.columns.begin;
      multiply_columns(*weights.up, weights.up_bias, piece, piece.columns, piece.packed, out,
                       hidden_stride_);
      if (updates_) updates_->add_up(piece.expert, piece.columns, out, hidden_stride_);
      for (int64_t row = 0; row < num_rows; ++row) {
        float* h = out + row * hidden_stride_;
        elements_.activate(cpu::activation_kind(params_.activation.activation), h, nullptr, h,
                           piece.columns.end - piece.columns.begin);
      }
      return;
    }
    const bool alike = pack_alike(weights.gate->spec, weights.up->spec);
    const int64_t slab =
        cpu::slab_columns(2 * num_rows, kPanel, piece.columns.end - piece.columns.begin);
    float* gate = slabs_ + piece.thread * round_up(cut_.slab_floats, 16);
    float* up = gate + num_rows * slab;
    for (int64_t at = piece.columns.begin; at < piece.columns.end; at += slab) {
      const WorkRange columns{at, std::min(at + slab, piece.columns.end)};
      prefetch(*weights.up, at);
      multiply_columns(*weights.gate, weights.gate_bias, piece, columns, piece.packed, gate, slab);
      prefetch(*params_.experts[static_cast<size_t>(piece.next_expert)].gate, piece.next_column);
      multiply_columns(*weights.up, weights.up_bias, piece, columns,
                       alike ? piece.packed : piece.up_packed, up, slab);
      if (updates_) {
        updates_->add_gate(piece.expert, columns, gate, slab);
        updates_->add_up(piece.expert, columns, up, slab);
      }
      float* out = own_hidden_of(piece.expert) + at;
      for (int64_t row = 0; row < num_rows; ++row) {
        activate(gate + row * slab, up + row * slab, out + row * hidden_stride_,
                 columns.end - columns.begin);
      }
    }
  }

  void activate(float* gate, float* up, float* out, int64_t n) const {
    const ExpertActivation& act = params_.activation;
    for (int64_t i = 0; i < n && act.has_clamp; ++i) {
      gate[i] = std::min(gate[i], act.limit);
      up[i] = std::max(std::min(up[i], act.limit), -act.limit) + 1.0f;
    }
    elements_.activate(cpu::activation_kind(act.activation), gate, up, out, n);
  }

  void multiply_down(const Piece& piece) const {
    const ExpertWeights& weights = params_.experts[static_cast<size_t>(piece.expert)];
    float* out = outputs_ + grouping_.first_row[piece.expert] * output_size_ + piece.columns.begin;
    prefetch(*params_.experts[static_cast<size_t>(piece.next_expert)].down, piece.next_column);
    multiply_columns(*weights.down, weights.down_bias, piece, piece.columns, piece.packed, out,
                     output_size_);
    if (updates_) updates_->add_down(piece.expert, piece.columns, out, output_size_);
  }

  // Prefetches the start of the weights that are read after this piece.
  void prefetch(const PackedWeight& weight, int64_t column) const {
    const uint8_t* at = cpu::with_product(
        stream_.isa(), weight, 1, [&](const auto& product) { return product.panel(column); });
    for (int64_t i = 0; i < kPrefetchBytes; i += 64) __builtin_prefetch(at + i, 0, 2);
  }

  void multiply_columns(const PackedWeight& weight, const float* bias, const Piece& piece,
                        WorkRange columns, uint8_t* packed, float* y, int64_t y_stride) const {
    cpu::with_product(stream_.isa(), weight, grouping_.num_rows(piece.expert),
                      [&](const auto& product) {
                        product.multiply(columns, packed, scratch_of(piece.thread),
                                         {.y = y, .y_stride = y_stride, .bias = bias});
                      });
  }

  void sum_outputs() const {
    const int64_t width = summed_.end - summed_.begin;
    const int64_t total = params_.num_tokens * width;
    cpu::run_parallel(stream_, total * params_.experts_per_token, kSumElements,
                      [&](int thread, int num_threads) {
                        const WorkRange mine = split_work(total, 16, thread, num_threads);
                        for (int64_t at = mine.begin; at < mine.end;) {
                          const int64_t token = at / width;
                          const int64_t column = at % width;
                          const int64_t count = std::min(width - column, mine.end - at);
                          const int64_t first = summed_.begin + column;
                          sum_token(token, {first, first + count});
                          at += count;
                        }
                      });
  }

  // Sums in the order of the token's own choice.
  void sum_token(int64_t token, WorkRange columns) const {
    float* to = params_.out;
    float* out = to + token * out_stride_;
    if (!params_.accumulate) std::fill(out + columns.begin, out + columns.end, 0.0f);
    const int64_t k = params_.experts_per_token;
    constexpr int64_t kAtOnce = 256;
    for (int64_t first = columns.begin; first < columns.end; first += kAtOnce) {
      const int64_t n = std::min(kAtOnce, columns.end - first);
      float sums[kAtOnce] = {};
      for (int64_t pair = token * k; pair < (token + 1) * k; ++pair) {
        const float weight = params_.expert_weights[pair];
        const float* y = outputs_ + grouping_.row_of[pair] * output_size_ + first;
        for (int64_t i = 0; i < n; ++i) sums[i] += weight * y[i];
      }
      for (int64_t i = 0; i < n; ++i) out[first + i] += sums[i];
    }
  }

  const HostStream& stream_;
  const RunExpertsParams& params_;
  const cpu::ElementKernels& elements_;
  const ExpertsCut cut_;
  const int64_t num_pairs_;
  const int64_t expert_size_;  // columns of I that are here
  const int64_t input_size_;   // E
  const int64_t output_size_;  // columns of E that are here
  int64_t out_stride_;
  WorkRange summed_;  // columns of E
  Grouping grouping_;
  std::optional<cpu::ExpertUpdateRows> updates_;
  uint8_t* packed_;
  uint8_t* up_packed_;
  uint8_t* scratch_;
  float* slabs_;
  float* gathers_;
  float* hidden_;      // [T * k, I]
  float* own_hidden_;  // hidden_, from the first column on that is computed here
  int64_t hidden_stride_;
  float* outputs_;  // [T * k, columns of E]
};

}  // namespace

int64_t cpu::experts_workspace_bytes(const Stream& stream, int64_t max_tokens,
                                     std::span<const ExpertWeights> experts,
                                     int32_t experts_per_token) {
  const HostStream& host_stream = cpu::host(stream);
  return ExpertsCut(host_stream, max_tokens, experts, experts_per_token)
      .bytes(host_stream.team().size());
}

int64_t expert_updates_bytes(int64_t num_pairs, int64_t num_experts, int64_t max_rank) {
  return cpu::ExpertUpdateRows::bytes(num_pairs, num_experts, max_rank);
}

void cpu::run_experts(Stream& stream, const RunExpertsParams& params) {
  if (params.num_tokens == 0) return;
  QUIRE_DCHECK(!params.experts.empty() && params.experts_per_token >= 1 &&
               params.workspace != nullptr);
  ExpertsCall(cpu::host(stream), params).run();
}

}  // namespace quire
