#include "exec/sources/source_stage.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/float8.h"
#include "weights/tensors/element.h"

namespace quire {
namespace {

constexpr int32_t kBlockSize = TextSourceInfo::kBlockSize;

int64_t half_block_bytes(const CrossSpec& cross, DType dtype) {
  return kv_half_block_bytes(dtype, cross.num_kv_heads, cross.head_dim, kBlockSize);
}

// The bytes of a block, over all layers that read sources.
int64_t block_bytes(const DecoderSpec& spec, DType dtype) {
  const auto num_layers = std::count_if(spec.layers.begin(), spec.layers.end(),
                                        [](const LayerSpec& layer) { return layer.reads_source; });
  return 2 * half_block_bytes(spec.cross, dtype) * num_layers;
}

// Returns element `at` of a cache's keys, without its scale.
float key_element(const KvCacheView& kv, int64_t at) {
  if (kv.dtype == DType::kI8) return static_cast<const int8_t*>(kv.key)[at];
  if (is_fp8(kv.dtype)) {
    const auto format = kv.dtype == DType::kF8E4M3 ? Float8::kE4M3 : Float8::kE5M2;
    return float8_to_float(format, static_cast<const uint8_t*>(kv.key)[at]);
  }
  return read_element(static_cast<const std::byte*>(kv.key), kv.dtype, at);
}

int32_t blocks_of(int32_t num_rows) { return (num_rows + kBlockSize - 1) / kBlockSize; }

}  // namespace

SourceStage::SourceStage(std::unique_ptr<SourceEncoder> encoder, const DecoderSpec& spec,
                         const DecoderWeights& weights, const DecoderLimits& limits,
                         const Shape& shape, HostStream& stream)
    : encoder_(std::move(encoder)),
      spec_(spec),
      weights_(weights),
      limits_(limits),
      shape_(shape),
      stream_(stream),
      nothing_{.blocks = std::vector<int32_t>(static_cast<size_t>(max_blocks()), 0),
               .num_rows = spec.cross.max_source_len,
               .num_shown = spec.cross.max_source_len} {
  free_blocks_.resize(static_cast<size_t>(shape.num_places * max_blocks()));
  std::iota(free_blocks_.rbegin(), free_blocks_.rend(), 0);
  slots_.resize(static_cast<size_t>(spec.cross.max_source_len));
  const auto most = static_cast<size_t>(CrossBlock::max_segments(limits));
  start_loc_.reserve(most + 1);
  source_lens_.reserve(most);
  block_table_.reserve(most * static_cast<size_t>(max_blocks()));
}

int64_t SourceStage::place_bytes(const DecoderSpec& spec, DType kv_dtype) {
  return blocks_of(spec.cross.max_source_len) * block_bytes(spec, kv_dtype);
}

int64_t SourceStage::max_blocks() const { return blocks_of(spec_.cross.max_source_len); }

// A text counts as many rows as its blocks hold.
MediaInfo SourceStage::info() const {
  const bool is_text = shape_.text.any();
  const int32_t longest =
      is_text ? blocks_of(spec_.cross.max_source_len) * kBlockSize : spec_.cross.max_source_len;
  return {.max_item_embeddings = longest,
          .max_cached_embeddings = longest * shape_.num_places,
          .is_source = true,
          .may_lack_source = spec_.cross.gated,
          .text_source = shape_.text};
}

int64_t SourceStage::memory_bytes() const {
  return encoder_->weight_bytes() + encoder_->workspace_bytes() +
         shape_.num_places * place_bytes(spec_, shape_.kv_dtype) +
         CrossBlock::memory_bytes(spec_, weights_, limits_, stream_);
}

Status SourceStage::load(const LoadOptions& options) {
  QUIRE_RETURN_IF_ERROR(encoder_->load(options));
  const int64_t bytes = shape_.num_places * place_bytes(spec_, shape_.kv_dtype);
  QUIRE_ASSIGN_OR_RETURN(pool_, Arena::create(bytes));
  QUIRE_ASSIGN_OR_RETURN(
      workspace_, Arena::create(CrossBlock::memory_bytes(spec_, weights_, limits_, stream_)));
  views_ = views(pool_.allocate_bytes(bytes));
  block_.emplace(spec_, weights_, limits_, views_, stream_, workspace_);
  return {};
}

std::vector<KvCacheView> SourceStage::views(void* pool) const {
  const int64_t half = half_block_bytes(spec_.cross, shape_.kv_dtype);
  auto* key = static_cast<std::byte*>(pool);
  std::vector<KvCacheView> views;
  for (const LayerSpec& layer : spec_.layers) {
    if (!layer.reads_source) {
      views.emplace_back();
      continue;
    }
    views.push_back(
        {.key = key,
         .value = key + half,
         .dtype = shape_.kv_dtype,
         .block_stride = block_bytes(spec_, shape_.kv_dtype) / size_bytes(shape_.kv_dtype),
         .block_size = kBlockSize,
         .num_kv_heads = spec_.cross.num_kv_heads,
         .head_dim = spec_.cross.head_dim});
    key += 2 * half;
  }
  return views;
}

void SourceStage::apply(const StepPlan& plan, std::vector<int64_t>& encode_us) {
  const SteadyClock clock;
  for (const std::string& key : plan.freed_media) {
    const auto it = kept_.find(key);
    if (it == kept_.end()) continue;
    const std::vector<int32_t>& blocks = it->second.blocks;
    free_blocks_.insert(free_blocks_.end(), blocks.begin(), blocks.end());
    kept_.erase(it);
  }
  for (const auto& item : plan.media_inputs) {
    const int64_t begin_us = clock.now_us();
    Kept& kept = kept_[item->key];
    kept.status = encode(*item, kept);
    encode_us.push_back(clock.now_us() - begin_us);
  }
}

Status SourceStage::encode(const MediaItem& item, Kept& kept) {
  QUIRE_ASSIGN_OR_RETURN(const SourceRows rows, encoder_->encode(item));
  kept.num_rows = rows.count;
  kept.num_shown = rows.num_shown > 0 ? rows.num_shown : rows.count;
  while (std::ssize(kept.blocks) < blocks_of(rows.count)) {
    QUIRE_CHECK(!free_blocks_.empty(), "more sources than the {} that plans keep to",
                shape_.num_places);
    kept.blocks.push_back(free_blocks_.back());
    free_blocks_.pop_back();
  }
  for (int32_t row = 0; row < rows.count; ++row) {
    const auto block = kept.blocks[static_cast<size_t>(row / kBlockSize)];
    slots_[static_cast<size_t>(row)] = int64_t{block} * kBlockSize + row % kBlockSize;
  }
  block_->write(rows.rows, slots_.data(), rows.count);
  return {};
}

std::vector<float> SourceStage::read_keys(const std::string& key,
                                          CrossSpec::AlignmentHead head) const {
  const Kept& kept = kept_.at(key);
  const KvCacheView& kv = views_[static_cast<size_t>(head.layer)];
  const int64_t kv_head = head.head / (spec_.cross.num_heads / kv.num_kv_heads);
  std::vector<float> keys(static_cast<size_t>(int64_t{kept.num_rows} * kv.head_dim));
  for (int32_t row = 0; row < kept.num_rows; ++row) {
    const int32_t block = kept.blocks[static_cast<size_t>(row / kBlockSize)];
    const int64_t offset = row % kBlockSize;
    float scale = 1.0f;
    if (has_token_scales(kv.dtype)) {
      scale = to_float(
          static_cast<const bfloat16*>(kv.key)[token_scale_index(kv, block, kv_head, offset)]);
    }
    for (int64_t i = 0; i < kv.head_dim; ++i) {
      keys[static_cast<size_t>(i * kept.num_rows + row)] =
          scale * key_element(kv, key_index(kv, block, kv_head, offset, i));
    }
  }
  return keys;
}

void SourceStage::clear_segments() {
  start_loc_.assign(1, 0);
  source_lens_.clear();
  block_table_.clear();
  reads_.clear();
  shown_.clear();
  max_len_ = 0;
}

void SourceStage::add_run(const Kept& kept, const Run& run) {
  // A run must not have more tokens than rows that it attends to, because attention without a
  // causal mask requires that.
  for (int32_t first = 0; first < run.num_tokens; first += run.num_rows) {
    const int32_t count = std::min(run.num_rows, run.num_tokens - first);
    start_loc_.push_back(start_loc_.back() + count);
    source_lens_.push_back(run.num_rows);
    block_table_.insert(block_table_.end(), kept.blocks.begin(), kept.blocks.end());
    block_table_.resize(source_lens_.size() * static_cast<size_t>(max_blocks()), 0);
    max_len_ = std::max(max_len_, count);
  }
  const auto end = static_cast<size_t>(start_loc_.back());
  reads_.resize(end, run.reads ? 1 : 0);
  shown_.resize(end, run.reads && run.is_shown ? 1 : 0);
}

Status SourceStage::add_segments(const ScheduledRequest& scheduled,
                                 std::span<const MediaSpan> media) {
  const auto it = media.empty() ? kept_.end() : kept_.find(media.front().item->key);
  const bool is_there = it != kept_.end() && it->second.status.ok();
  const Kept& kept = is_there ? it->second : nothing_;
  const int32_t num_tokens = scheduled.num_scheduled_tokens;
  const int32_t shown_from = media.empty() ? 0 : media.front().shown_from;
  const int32_t num_before = std::clamp(shown_from - scheduled.num_computed_tokens, 0, num_tokens);
  const bool reads = is_there || !spec_.cross.gated;
  // Tokens that attend to no source are computed all the same, with as few rows as possible.
  const int32_t num_shown =
      reads ? kept.num_shown : std::min(num_tokens, spec_.cross.max_source_len);
  add_run(kept,
          {.num_tokens = num_before, .num_rows = kept.num_rows, .reads = reads, .is_shown = false});
  add_run(kept, {.num_tokens = num_tokens - num_before, .num_rows = num_shown, .reads = reads});
  if (it != kept_.end()) return it->second.status;
  if (media.empty()) return {};
  return internal_error("step plan: a source was not encoded");
}

CrossSegments SourceStage::segments() const {
  const auto any = [](const std::vector<uint8_t>& flags) {
    return std::find(flags.begin(), flags.end(), 1) != flags.end();
  };
  return {.reads = reads_.data(),
          .shown = shown_.data(),
          .any_reads = any(reads_),
          .any_shown = any(shown_),
          .count = static_cast<int32_t>(source_lens_.size()),
          .max_len = max_len_,
          .start_loc = start_loc_.data(),
          .source_lens = source_lens_.data(),
          .block_table = block_table_.data(),
          .max_blocks = max_blocks()};
}

}  // namespace quire
