#include "nn/adapters/lora_batch.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/api/linear.h"

namespace quire {
namespace {

// How many rows at a time have their product computed again, for updates that scale it (DoRA) or
// with another matrix.
constexpr int64_t kBaseRows = kWholeHeadRows;

int64_t experts_bytes(const LoraLimits& limits, int64_t max_tokens) {
  return expert_updates_bytes(max_tokens * limits.num_experts_chosen, limits.num_experts,
                              limits.max_rank);
}

}  // namespace

int64_t LoraBatch::memory_bytes(const LoraLimits& limits, int64_t max_tokens) {
  if (limits.max_ranks == 0) return 0;
  int64_t bytes = Arena::padded(max_tokens * 4) +
                  Arena::padded(lora_workspace_floats(max_tokens, limits.max_ranks) * 4) +
                  Arena::padded(kBaseRows * limits.max_inputs * 4) +
                  Arena::padded(kBaseRows * limits.max_outputs * 4) +
                  Arena::padded(limits.head_workspace_bytes);
  if (limits.num_experts > 0)
    bytes += Arena::padded(max_tokens * 4) + Arena::padded(experts_bytes(limits, max_tokens));
  return bytes;
}

LoraBatch::LoraBatch(const LoraLimits& limits, int64_t max_tokens, Stream& stream, Arena& arena)
    : limits_(limits),
      stream_(stream),
      rows_(arena.allocate<int32_t>(max_tokens)),
      workspace_(arena.allocate<float>(lora_workspace_floats(max_tokens, limits.max_ranks))),
      base_x_(arena.allocate<float>(kBaseRows * limits.max_inputs)),
      base_y_(arena.allocate<float>(kBaseRows * limits.max_outputs)),
      head_workspace_(arena.allocate_bytes(limits.head_workspace_bytes)) {
  norms_.reserve(static_cast<size_t>(max_tokens));
  if (limits.num_experts == 0) return;
  adapter_of_ = arena.allocate<int32_t>(max_tokens);
  experts_workspace_ = arena.allocate_bytes(experts_bytes(limits, max_tokens));
}

void LoraBatch::begin(std::span<const LoraRows> adapters, const LoraSlots& slots,
                      int64_t num_tokens) {
  adapters_ = adapters;
  slots_ = slots;
  select(0, num_tokens);
}

void LoraBatch::select(int64_t begin, int64_t count) {
  QUIRE_CHECK(slots_.table == nullptr || begin == 0, "a GPU's batch is not cut");
  tokens_ = nullptr;
  num_selected_ = count;
  selected_.clear();
  int32_t* to = rows_;
  for (const LoraRows& adapter : adapters_) {
    const auto first = std::lower_bound(adapter.rows.begin(), adapter.rows.end(), begin);
    const auto last = std::lower_bound(first, adapter.rows.end(), begin + count);
    if (first == last) continue;
    int32_t* const end = std::transform(
        first, last, to, [begin](int32_t row) { return row - static_cast<int32_t>(begin); });
    selected_.push_back({.weights = adapter.weights, .rows = {to, end}});
    to = end;
  }
}

void LoraBatch::select(std::span<const int32_t> tokens) {
  tokens_ = tokens.data();
  num_selected_ = std::ssize(tokens);
  selected_.clear();
  int32_t* to = rows_;
  for (const LoraRows& adapter : adapters_) {
    int32_t* const first = to;
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (std::binary_search(adapter.rows.begin(), adapter.rows.end(), tokens[i]))
        *to++ = static_cast<int32_t>(i);
    }
    if (first != to) selected_.push_back({.weights = adapter.weights, .rows = {first, to}});
  }
}

bool LoraBatch::changes(const MatrixWeight& matrix) const {
  if (slots_.table != nullptr) return slots_.table->parts_of(matrix).count > 0;
  return std::any_of(selected_.begin(), selected_.end(), [&](const LoraRows& adapter) {
    return !adapter.weights->parts(matrix).empty() ||
           adapter.weights->replaced().matrix(matrix) != nullptr;
  });
}

LoraSlotsParams LoraBatch::slots_params(const Product& product) const {
  const LoraTable::Parts parts = slots_.table->parts_of(product.matrix);
  return {.x = product.x,
          .x_stride = product.x_stride,
          .k = product.matrix.k,
          .parts = slots_.parts + parts.first,
          .slot_stride = slots_.table->slot_stride(),
          .num_parts = parts.count,
          .max_rank = limits_.max_rank,
          .slots = slots_.slots,
          .tokens = tokens_,
          .order = tokens_ == nullptr ? slots_.order : nullptr,
          .num_rows = num_selected_,
          .y = product.y,
          .y_stride = product.y_stride,
          .num_outputs = product.matrix.n,
          .workspace = workspace_};
}

void LoraBatch::prepare(const Product& product) {
  if (slots_.table != nullptr && changes(product.matrix))
    shrink_lora(stream_, slots_params(product));
}

void LoraBatch::apply(const Product& product) {
  if (slots_.table != nullptr) {
    if (changes(product.matrix)) expand_lora(stream_, slots_params(product));
    return;
  }
  segments_.clear();
  for (const LoraRows& adapter : selected_) {
    if (const LinearWeights* own = adapter.weights->replaced().matrix(product.matrix))
      replace(product, *own, adapter);
    const std::span<const LoraPart> parts = adapter.weights->parts(product.matrix);
    if (parts.empty()) continue;
    if (adapter.weights->scales_base()) {
      apply_to_scaled(product, adapter);
    } else {
      segments_.push_back({.rows = adapter.rows, .parts = parts});
    }
  }
  if (!segments_.empty()) apply(product, segments_);
}

void LoraBatch::apply(const Product& product, std::span<const LoraSegment> segments) {
  apply_lora(stream_, {.x = product.x,
                       .x_stride = product.x_stride,
                       .k = product.matrix.k,
                       .segments = segments,
                       .dtype = limits_.dtype,
                       .y = product.y,
                       .y_stride = product.y_stride,
                       .workspace = workspace_});
}

// A row of a product depends on no other row, so it has the same bits as among others.
void LoraBatch::multiply_rows(const Product& product, const MatrixWeight& matrix, void* workspace,
                              std::span<const int32_t> rows) {
  const float* const x = product.x;
  for (size_t i = 0; i < rows.size(); ++i)
    std::copy_n(x + rows[i] * product.x_stride, matrix.k,
                base_x_ + static_cast<int64_t>(i) * matrix.k);
  int64_t first = 0;
  for (const PackedWeight& part : matrix.parts) {
    linear(stream_, {.x = base_x_,
                     .x_stride = matrix.k,
                     .weight = &part,
                     .y = base_y_ + first,
                     .y_stride = matrix.n,
                     .num_rows = std::ssize(rows),
                     .workspace = workspace});
    first += part.spec.n;
  }
}

// By now y includes a bias, a residual or more, so the product alone is computed again.
void LoraBatch::apply_to_scaled(const Product& product, const LoraRows& adapter) {
  for (size_t begin = 0; begin < adapter.rows.size(); begin += kBaseRows) {
    const std::span<const int32_t> rows =
        adapter.rows.subspan(begin, std::min<size_t>(kBaseRows, adapter.rows.size() - begin));
    multiply_rows(product, product.matrix, product.linear_workspace, rows);
    const LoraSegment segment{.rows = rows,
                              .parts = adapter.weights->parts(product.matrix),
                              .base = base_y_,
                              .base_stride = product.matrix.n};
    apply(product, {&segment, 1});
  }
}

void LoraBatch::replace(const Product& product, const LinearWeights& weights,
                        const LoraRows& adapter) {
  const float* const bias = weights.bias != nullptr ? weights.bias : product.bias;
  const int64_t width = weights.weight.n;
  float* const y = product.y;
  for (size_t begin = 0; begin < adapter.rows.size(); begin += kBaseRows) {
    const std::span<const int32_t> rows =
        adapter.rows.subspan(begin, std::min<size_t>(kBaseRows, adapter.rows.size() - begin));
    multiply_rows(product, weights.weight, head_workspace_, rows);
    for (size_t i = 0; i < rows.size(); ++i) {
      const float* const from = base_y_ + static_cast<int64_t>(i) * width;
      float* const to = y + rows[i] * product.y_stride;
      for (int64_t n = 0; n < width; ++n) to[n] = from[n] + (bias == nullptr ? 0.0f : bias[n]);
    }
  }
}

const ExpertUpdates* LoraBatch::experts(size_t layer, int64_t num_rows) {
  expert_adapters_.clear();
  for (const LoraRows& adapter : selected_) {
    const std::span<const ExpertUpdate> updates = adapter.weights->experts(layer);
    if (updates.empty()) continue;
    if (expert_adapters_.empty()) std::fill_n(adapter_of_, num_rows, -1);
    for (const int32_t row : adapter.rows)
      adapter_of_[row] = static_cast<int32_t>(expert_adapters_.size());
    expert_adapters_.push_back(updates);
  }
  if (expert_adapters_.empty()) return nullptr;
  expert_updates_ = {.adapter_of = adapter_of_,
                     .adapters = expert_adapters_,
                     .dtype = limits_.dtype,
                     .max_rank = limits_.max_rank,
                     .workspace = experts_workspace_};
  return &expert_updates_;
}

void LoraBatch::apply_to_embeddings(const EmbeddingParams& params) {
  for (const LoraRows& adapter : selected_) {
    const ReplacedModules& replaced = adapter.weights->replaced();
    const TableWeight* const table = replaced.embedding();
    const EmbeddingUpdate* const update = replaced.embedding_update();
    if (table == nullptr && update == nullptr) continue;
    for (const int32_t row : adapter.rows) {
      if (table != nullptr) embed_row(params, *table, row);
      if (update != nullptr) add_to_row(params, *update, row);
    }
  }
}

void LoraBatch::embed_row(const EmbeddingParams& params, const TableWeight& table, int64_t row) {
  EmbeddingParams own = params;
  own.table = table.data;
  own.packed_table = nullptr;
  own.token_ids += row;
  if (own.positions != nullptr) own.positions += row;
  if (own.token_types != nullptr) own.token_types += row;
  own.out = params.out.from(row * params.hidden_size);
  own.num_tokens = 1;
  embedding(stream_, own);
}

void LoraBatch::add_to_row(const EmbeddingParams& params, const EmbeddingUpdate& update,
                           int64_t row) {
  const int64_t token = params.token_ids[row], width = params.hidden_size;
  float* const out = static_cast<float*>(params.out) + row * width;
  for (int64_t r = 0; r < update.rank && token < update.vocab_size; ++r) {
    const float factor = params.scale * update.a[token * update.rank + r];
    const float* const b = update.b + r * width;
    for (int64_t n = 0; n < width; ++n) out[n] += factor * b[n];
  }
}

bool LoraBatch::list_norms(const NormWeights& base, int64_t num_rows) {
  norms_.clear();
  for (const LoraRows& adapter : selected_) {
    const NormWeights* const own = adapter.weights->replaced().norm(base);
    if (own == nullptr) continue;
    if (norms_.empty()) norms_.assign(static_cast<size_t>(num_rows), &base);
    for (const int32_t row : adapter.rows) norms_[static_cast<size_t>(row)] = own;
  }
  return !norms_.empty();
}

}  // namespace quire
