#include "exec/sources/source_stage.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace quire {
namespace {

constexpr int32_t kBlockSize = TextSourceInfo::kBlockSize;

int64_t half_block_bytes(const CrossSpec& cross, DType dtype) {
  return kv_half_block_bytes(dtype, cross.num_heads, cross.head_dim, kBlockSize);
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
               .num_rows = spec.cross.max_source_len} {
  free_blocks_.resize(static_cast<size_t>(shape.num_places * max_blocks()));
  std::iota(free_blocks_.rbegin(), free_blocks_.rend(), 0);
  slots_.resize(static_cast<size_t>(spec.cross.max_source_len));
  const auto most = static_cast<size_t>(CrossBlock::max_segments(limits));
  start_loc_.reserve(most + 1);
  source_lens_.reserve(most);
  block_table_.reserve(most * static_cast<size_t>(max_blocks()));
}

int64_t SourceStage::place_bytes(const CrossSpec& cross, int64_t num_layers, DType kv_dtype) {
  return blocks_of(cross.max_source_len) * num_layers * 2 * half_block_bytes(cross, kv_dtype);
}

int64_t SourceStage::max_blocks() const { return blocks_of(spec_.cross.max_source_len); }

// Texts count as many rows as their blocks have.
MediaInfo SourceStage::info() const {
  const bool is_text = shape_.text.any();
  const int32_t longest =
      is_text ? blocks_of(spec_.cross.max_source_len) * kBlockSize : spec_.cross.max_source_len;
  return {.max_item_embeddings = longest,
          .max_cached_embeddings = longest * shape_.num_places,
          .is_source = true,
          .text_source = shape_.text};
}

int64_t SourceStage::memory_bytes() const {
  return encoder_->weight_bytes() + encoder_->workspace_bytes() +
         shape_.num_places * place_bytes(spec_.cross, std::ssize(spec_.layers), shape_.kv_dtype) +
         CrossBlock::memory_bytes(spec_, weights_, limits_, stream_);
}

Status SourceStage::load(const LoadOptions& options) {
  QUIRE_RETURN_IF_ERROR(encoder_->load(options));
  const int64_t bytes =
      shape_.num_places * place_bytes(spec_.cross, std::ssize(spec_.layers), shape_.kv_dtype);
  QUIRE_ASSIGN_OR_RETURN(pool_, Arena::create(bytes));
  QUIRE_ASSIGN_OR_RETURN(
      workspace_, Arena::create(CrossBlock::memory_bytes(spec_, weights_, limits_, stream_)));
  block_.emplace(spec_, weights_, limits_, views(pool_.allocate_bytes(bytes)), stream_, workspace_);
  return {};
}

std::vector<KvCacheView> SourceStage::views(void* pool) const {
  const int64_t half = half_block_bytes(spec_.cross, shape_.kv_dtype);
  const int64_t block_bytes = 2 * half * std::ssize(spec_.layers);
  std::vector<KvCacheView> views;
  for (int64_t layer = 0; layer < std::ssize(spec_.layers); ++layer) {
    std::byte* const key = static_cast<std::byte*>(pool) + 2 * half * layer;
    views.push_back({.key = key,
                     .value = key + half,
                     .dtype = shape_.kv_dtype,
                     .block_stride = block_bytes / size_bytes(shape_.kv_dtype),
                     .block_size = kBlockSize,
                     .num_kv_heads = spec_.cross.num_heads,
                     .head_dim = spec_.cross.head_dim});
  }
  return views;
}

void SourceStage::apply(const StepPlan& plan) {
  for (const std::string& key : plan.freed_media) {
    const auto it = kept_.find(key);
    if (it == kept_.end()) continue;
    const std::vector<int32_t>& blocks = it->second.blocks;
    free_blocks_.insert(free_blocks_.end(), blocks.begin(), blocks.end());
    kept_.erase(it);
  }
  for (const auto& item : plan.media_inputs) {
    Kept& kept = kept_[item->key];
    kept.status = encode(*item, kept);
  }
}

Status SourceStage::encode(const MediaItem& item, Kept& kept) {
  QUIRE_ASSIGN_OR_RETURN(const SourceRows rows, encoder_->encode(item));
  kept.num_rows = rows.count;
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

void SourceStage::clear_segments() {
  start_loc_.assign(1, 0);
  source_lens_.clear();
  block_table_.clear();
  max_len_ = 0;
}

Status SourceStage::add_segments(const ScheduledRequest& scheduled,
                                 std::span<const MediaSpan> media) {
  const auto it = media.empty() ? kept_.end() : kept_.find(media.front().item->key);
  const bool is_there = it != kept_.end() && it->second.status.ok();
  const Kept& kept = is_there ? it->second : nothing_;
  // No run is longer than the source: attention that is not causal wants it so.
  const int32_t longest = kept.num_rows;
  for (int32_t first = 0; first < scheduled.num_scheduled_tokens; first += longest) {
    const int32_t count = std::min(longest, scheduled.num_scheduled_tokens - first);
    start_loc_.push_back(start_loc_.back() + count);
    source_lens_.push_back(longest);
    block_table_.insert(block_table_.end(), kept.blocks.begin(), kept.blocks.end());
    block_table_.resize(source_lens_.size() * static_cast<size_t>(max_blocks()), 0);
    max_len_ = std::max(max_len_, count);
  }
  if (it != kept_.end()) return it->second.status;
  if (media.empty()) return {};
  return internal_error("step plan: a source was not encoded");
}

CrossSegments SourceStage::segments() const {
  return {.count = static_cast<int32_t>(source_lens_.size()),
          .max_len = max_len_,
          .start_loc = start_loc_.data(),
          .source_lens = source_lens_.data(),
          .block_table = block_table_.data(),
          .max_blocks = max_blocks()};
}

}  // namespace quire
