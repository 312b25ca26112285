#include "nn/rank_exchange.h"

#include <algorithm>
#include <cstring>

#include "base/threads/thread_team.h"
#include "kernels/api/rows/copy_rows.h"
#include "tensor/arena.h"

namespace quire {

// The bytes of the shared buffers, in their order.
struct RankExchange::Places {
  int64_t heads = 0, inside = 0, experts = 0, num_experts_buffers = 1, outputs = 0, logits = 0;
  static constexpr int64_t kNumbers = Arena::padded(RankGroup::kMaxRanks);

  Places(const DecoderSpec& whole, const RankShare& share, const DecoderLimits& limits) {
    const BufferSizes sizes(whole, limits);
    const auto inside_elements = std::max(sizes.ffn, sizes.gate_up);
    heads = Arena::padded(sizes.attention * sizes.element_bytes);
    inside = Arena::padded(inside_elements * sizes.element_bytes);
    const int64_t mlp_tokens = std::min(limits.max_tokens, limits.mlp_tokens);
    for (const LayerSpec& layer : whole.layers) {
      const int64_t pairs = mlp_tokens * layer.ffn.experts.router.experts_per_token;
      const int64_t columns =
          share.whole_experts ? whole.hidden_size : layer.ffn.experts.intermediate_size;
      experts = std::max(experts, Arena::padded(pairs * columns * int64_t{sizeof(float)}));
    }
    num_experts_buffers = share.whole_experts ? 2 : 1;
    outputs = Arena::padded(sizes.hidden * int64_t{sizeof(float)});
    logits = Arena::padded(limits.max_logit_rows * whole.vocab_size * int64_t{sizeof(float)});
  }
};

int64_t RankExchange::shared_bytes(const DecoderSpec& whole, const RankShare& share,
                                   const DecoderLimits& limits) {
  const Places places(whole, share, limits);
  return places.heads + places.inside + places.num_experts_buffers * places.experts +
         2 * places.outputs + places.logits + Places::kNumbers;
}

RankExchange::RankExchange(const DecoderSpec& whole, const RankShare& share,
                           const DecoderLimits& limits, RankGroup& group, Stream& stream)
    : whole_(whole),
      share_(share),
      group_(group),
      stream_(stream),
      is_on_gpu_(stream.device() == DeviceKind::kCuda),
      type_(limits.activation_type) {
  QUIRE_CHECK(std::ssize(group.memory()) >= shared_bytes(whole, share, limits),
              "{} bytes are shared, too few", group.memory().size());
  const Places places(whole, share, limits);
  heads_ = group.memory().data();
  inside_ = heads_ + places.heads;
  experts_[0] = inside_ + places.inside;
  experts_[1] = experts_[0] + (places.num_experts_buffers - 1) * places.experts;
  outputs_[0] = experts_[1] + places.experts;
  outputs_[1] = outputs_[0] + places.outputs;
  logits_ = outputs_[1] + places.outputs;
  numbers_ = logits_ + places.logits;
}

template <typename Own>
void RankExchange::cut_columns(int64_t element_bytes, const Own& own) {
  columns_.clear();
  for (int32_t rank = 0; rank < share_.num_ranks; ++rank) {
    const RowRange columns = own(RankShare{rank, share_.num_ranks});
    columns_.push_back({columns.begin * element_bytes, columns.end * element_bytes});
  }
}

template <typename Own>
void RankExchange::gather(const std::byte* at, int64_t num_columns, int64_t element_bytes,
                          int64_t num_rows, bool first_only, const Own& own) {
  cut_columns(element_bytes, own);
  group_.gather({.offset_bytes = at - group_.memory().data(),
                 .row_stride_bytes = num_columns * element_bytes,
                 .num_rows = num_rows,
                 .columns = columns_,
                 .first_only = first_only});
}

void RankExchange::begin_pass() {
  if (!is_on_gpu_) return;
  group_.release();
  turn_ = 0;
  experts_turn_ = 0;
}

ConstActivations RankExchange::gather_heads(size_t layer, ConstActivations own,
                                            int64_t num_tokens) {
  const AttentionSpec& attention = whole_.layers[layer].attention;
  const int64_t head_dim = attention.head_dim, head_bytes = head_dim * size_bytes(type_);
  const RowRange heads = share_of(attention, share_).heads;
  copy_columns({.from = own,
                .from_stride = heads.size() * head_dim,
                .to = Activations(heads_, type_).from(heads.begin * head_dim),
                .to_stride = attention.num_heads * head_dim,
                .width = heads.size() * head_dim},
               num_tokens);
  gather(heads_, attention.num_heads, head_bytes, num_tokens, false,
         [&](const RankShare& share) { return share_of(attention, share).heads; });
  return {heads_, type_};
}

Activations RankExchange::own_inside(size_t layer) const {
  const RowRange own = share_.outputs(inside_stride(layer));
  return {inside_ + own.begin * size_bytes(type_), type_};
}

int64_t RankExchange::inside_stride(size_t layer) const {
  return whole_.layers[layer].ffn.intermediate_size;
}

void RankExchange::put_inside(size_t layer, ConstActivations own, int64_t num_tokens) {
  const int64_t width = share_.outputs(inside_stride(layer)).size();
  copy_columns({.from = own,
                .from_stride = width,
                .to = own_inside(layer),
                .to_stride = inside_stride(layer),
                .width = width},
               num_tokens);
}

ConstActivations RankExchange::gather_inside(size_t layer, int64_t num_tokens) {
  const int64_t size = inside_stride(layer);
  gather(inside_, size, size_bytes(type_), num_tokens, false,
         [&](const RankShare& share) { return share.outputs(size); });
  return {inside_, type_};
}

ExpertsExchange RankExchange::experts(size_t layer, int64_t num_tokens) {
  experts_layer_ = layer;
  experts_tokens_ = num_tokens;
  const int64_t size = whole_.layers[layer].ffn.experts.intermediate_size;
  return {.inside = reinterpret_cast<float*>(experts_[0]),
          .inside_stride = size,
          .first_inside = share_.outputs(size).begin,
          .out_stride = whole_.hidden_size,
          .gather = [](void* exchange) { static_cast<RankExchange*>(exchange)->gather_experts(); },
          .context = this};
}

void RankExchange::gather_experts() {
  const ExpertsSpec& experts = whole_.layers[experts_layer_].ffn.experts;
  gather(experts_[0], experts.intermediate_size, size_bytes(type_),
         experts_tokens_ * experts.router.experts_per_token, false,
         [&](const RankShare& share) { return share.outputs(experts.intermediate_size); });
}

ExpertsSpread RankExchange::spread_experts(size_t layer, int64_t num_tokens,
                                           const int32_t* expert_ids) {
  experts_layer_ = layer;
  experts_tokens_ = num_tokens;
  expert_ids_ = expert_ids;
  experts_turn_ = 1 - experts_turn_;
  const RowRange own = share_.expert_slots(whole_.layers[layer].ffn.experts.router.num_experts);
  RowRange columns{0, whole_.hidden_size};
  if (combines_columns(layer)) columns = share_.outputs(whole_.hidden_size);
  return {.first = static_cast<int32_t>(own.begin),
          .end = static_cast<int32_t>(own.end),
          .outputs = reinterpret_cast<float*>(experts_[experts_turn_]),
          .first_column = columns.begin,
          .end_column = columns.end,
          .gather =
              [](void* exchange, std::span<const int32_t> first_row) {
                auto* const ranks = static_cast<RankExchange*>(exchange);
                if (ranks->is_on_gpu_) return ranks->combine_expert_rows_on_gpu();
                ranks->combine_expert_rows(first_row);
              },
          .context = this};
}

bool RankExchange::combines_columns(size_t layer) const {
  constexpr int64_t kGpuColumns = 8;  // summed at once by a thread of a GPU
  for (RankShare share{0, share_.num_ranks}; is_on_gpu_ && share.rank < share.num_ranks;
       ++share.rank)
    if (share.outputs(whole_.hidden_size).begin % kGpuColumns != 0) return false;
  return share_.combines_by_all_to_all(whole_.layers[layer].ffn.experts.router.experts_per_token);
}

// The rows of one slot follow those of another, so that a rank's rows are contiguous.
void RankExchange::combine_expert_rows(std::span<const int32_t> first_row) {
  const ExpertsSpec& experts = whole_.layers[experts_layer_].ffn.experts;
  rows_.clear();
  for (int32_t rank = 0; rank < share_.num_ranks; ++rank) {
    RankShare share = share_;
    share.rank = rank;
    const RowRange slots = share.expert_slots(experts.router.num_experts);
    rows_.push_back(
        {first_row[static_cast<size_t>(slots.begin)], first_row[static_cast<size_t>(slots.end)]});
  }
  const int64_t row_bytes = whole_.hidden_size * int64_t{sizeof(float)};
  const std::byte* at = experts_[experts_turn_];
  if (!combines_columns(experts_layer_)) {
    // All rows are one row to the group, and each rank has a piece of it.
    const int64_t num_rows = experts_tokens_ * experts.router.experts_per_token;
    return gather(at, num_rows, row_bytes, 1, false, [&](const RankShare& share) {
      const MatrixRows& rows = rows_[static_cast<size_t>(share.rank)];
      return RowRange{rows.begin, rows.end};
    });
  }
  cut_columns(sizeof(float),
              [&](const RankShare& share) { return share.outputs(whole_.hidden_size); });
  group_.all_to_all({.offset_bytes = at - group_.memory().data(),
                     .row_stride_bytes = row_bytes,
                     .rows = rows_,
                     .columns = columns_});
}

// The rows are in the order of the pairs of token and expert.
void RankExchange::combine_expert_rows_on_gpu() {
  const RouterSpec& router = whole_.layers[experts_layer_].ffn.experts.router;
  rows_.clear();
  for (int32_t rank = 0; rank < share_.num_ranks; ++rank) {
    RankShare share = share_;
    share.rank = rank;
    const RowRange slots = share.expert_slots(router.num_experts);
    rows_.push_back({slots.begin, slots.end});
  }
  const RowRange all{0, whole_.hidden_size};
  const bool combines = combines_columns(experts_layer_);
  cut_columns(sizeof(float), [&](const RankShare& share) {
    return combines ? share.outputs(whole_.hidden_size) : all;
  });
  group_.all_to_all({.offset_bytes = experts_[experts_turn_] - group_.memory().data(),
                     .row_stride_bytes = whole_.hidden_size * int64_t{sizeof(float)},
                     .rows = rows_,
                     .columns = columns_,
                     .row_numbers = expert_ids_,
                     .num_rows = experts_tokens_ * router.experts_per_token});
}

uint8_t RankExchange::least_of_all(uint8_t mine) {
  const auto own = static_cast<size_t>(share_.rank);
  const auto size = static_cast<size_t>(share_.num_ranks);
  numbers_[own] = static_cast<std::byte>(mine);
  gather(numbers_, share_.num_ranks, 1, 1, false, [](const RankShare& share) {
    return RowRange{share.rank, share.rank + 1};
  });
  const std::byte* least = std::min_element(numbers_, numbers_ + size);
  return std::to_integer<uint8_t>(*least);
}

void RankExchange::gather_outputs(Activations x, int64_t num_tokens) {
  const int64_t width = whole_.hidden_size;
  const Activations shared(outputs_[turn_], x.dtype());
  turn_ = 1 - turn_;
  const auto columns = [&](const RowRange& range, Activations from, Activations to) {
    copy_columns({.from = from.from(range.begin),
                  .from_stride = width,
                  .to = to.from(range.begin),
                  .to_stride = width,
                  .width = range.size()},
                 num_tokens);
  };
  const RowRange own = share_.outputs(width);
  columns(own, x, shared);
  gather(static_cast<const std::byte*>(shared.data()), width, size_bytes(x.dtype()), num_tokens,
         false, [&](const RankShare& share) { return share.outputs(width); });
  columns({0, own.begin}, shared, x);
  columns({own.end, width}, shared, x);
}

float* RankExchange::begin_logits() {
  group_.release();
  return logits() + share_.outputs(whole_.vocab_size).begin;
}

void RankExchange::gather_logits(int64_t num_rows) {
  const bool first_only = !is_on_gpu_;
  gather(logits_, whole_.vocab_size, sizeof(float), num_rows, first_only,
         [&](const RankShare& share) { return share.outputs(whole_.vocab_size); });
}

void RankExchange::copy_columns(const CopiedColumns& columns, int64_t num_rows) {
  constexpr int64_t kBytesPerThread = int64_t{64} << 10;
  if (columns.width == 0) return;
  if (is_on_gpu_) {
    return copy_rows(stream_, {.x = columns.from,
                               .x_stride = columns.from_stride,
                               .out = columns.to,
                               .out_stride = columns.to_stride,
                               .num_tokens = num_rows,
                               .size = columns.width});
  }
  const int64_t row_bytes = columns.width * size_bytes(columns.to.dtype());
  const auto copy = [&](const WorkRange& rows) {
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      std::memcpy(columns.to.from(row * columns.to_stride).data(),
                  columns.from.from(row * columns.from_stride).data(),
                  static_cast<size_t>(row_bytes));
    }
  };
  ThreadTeam& team = static_cast<HostStream&>(stream_).team();
  if (team.size() == 1 || num_rows * row_bytes < kBytesPerThread) return copy({0, num_rows});
  team.run([&](int slot) { copy(split_work(num_rows, 1, slot, team.size())); });
}

}  // namespace quire
