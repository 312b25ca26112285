#include "exec/speech/source_stage.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace quire {
namespace {

constexpr int32_t kBlockSize = 16;

int64_t half_block_bytes(const CrossSpec& cross, DType dtype) {
  return kv_half_block_bytes(dtype, cross.num_heads, cross.head_dim, kBlockSize);
}

int64_t blocks_of(const CrossSpec& cross) {
  return (int64_t{cross.max_source_len} + kBlockSize - 1) / kBlockSize;
}

}  // namespace

SourceStage::SourceStage(std::unique_ptr<SpeechEncoder> encoder, const DecoderSpec& spec,
                         const DecoderWeights& weights, const DecoderLimits& limits,
                         const Shape& shape, HostStream& stream)
    : encoder_(std::move(encoder)),
      spec_(spec),
      weights_(weights),
      limits_(limits),
      shape_(shape),
      stream_(stream) {
  free_places_.resize(static_cast<size_t>(shape.num_places));
  std::iota(free_places_.rbegin(), free_places_.rend(), 0);
  slots_.resize(static_cast<size_t>(spec.cross.max_source_len));
  const auto most = static_cast<size_t>(CrossBlock::max_segments(limits));
  start_loc_.reserve(most + 1);
  source_lens_.reserve(most);
  block_table_.reserve(most * static_cast<size_t>(blocks_per_place()));
}

int64_t SourceStage::place_bytes(const CrossSpec& cross, int64_t num_layers, DType kv_dtype) {
  return blocks_of(cross) * num_layers * 2 * half_block_bytes(cross, kv_dtype);
}

int64_t SourceStage::blocks_per_place() const { return blocks_of(spec_.cross); }

MediaInfo SourceStage::info() const {
  return {.max_item_embeddings = spec_.cross.max_source_len,
          .max_cached_embeddings = spec_.cross.max_source_len * shape_.num_places,
          .is_source = true};
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
    free_places_.push_back(it->second.place);
    kept_.erase(it);
  }
  for (const auto& item : plan.media_inputs) {
    const auto [it, is_new] = kept_.try_emplace(item->key);
    if (is_new) {
      QUIRE_CHECK(!free_places_.empty(), "more sources than the {} that plans keep to",
                  shape_.num_places);
      it->second.place = free_places_.back();
      free_places_.pop_back();
    }
    it->second.status = encode(*item, it->second.place);
  }
}

Status SourceStage::encode(const MediaItem& item, int32_t place) {
  QUIRE_ASSIGN_OR_RETURN(const float* rows, encoder_->encode(item));
  const int64_t first = place * blocks_per_place() * kBlockSize;
  std::iota(slots_.begin(), slots_.end(), first);
  block_->write(rows, slots_.data(), item.num_embeddings);
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
  // Requests that warm up look at nothing in particular.
  const auto it = media.empty() ? kept_.end() : kept_.find(media.front().item->key);
  const int32_t place = it == kept_.end() ? 0 : it->second.place;
  // No run is longer than the source: attention that is not causal wants it so.
  const int32_t longest = spec_.cross.max_source_len;
  for (int32_t first = 0; first < scheduled.num_scheduled_tokens; first += longest) {
    const int32_t count = std::min(longest, scheduled.num_scheduled_tokens - first);
    start_loc_.push_back(start_loc_.back() + count);
    source_lens_.push_back(longest);
    for (int64_t block = 0; block < blocks_per_place(); ++block)
      block_table_.push_back(static_cast<int32_t>(place * blocks_per_place() + block));
    max_len_ = std::max(max_len_, count);
  }
  if (it != kept_.end()) return it->second.status;
  if (media.empty()) return {};
  return internal_error("step plan: a recording was not encoded");
}

CrossSegments SourceStage::segments() const {
  return {.count = static_cast<int32_t>(source_lens_.size()),
          .max_len = max_len_,
          .start_loc = start_loc_.data(),
          .source_lens = source_lens_.data(),
          .block_table = block_table_.data(),
          .max_blocks = blocks_per_place()};
}

}  // namespace quire
