#include "kv/books/residency.h"

#include <algorithm>

#include "base/rng.h"

namespace quire {

ResidencySampler::ResidencySampler(int32_t num_blocks, double rate, int32_t max_samples)
    : rate_(static_cast<float>(rate)),
      max_samples_(static_cast<size_t>(std::max(max_samples, 0))),
      record_of_block_(static_cast<size_t>(num_blocks), -1) {}

ResidencySampler::Record* ResidencySampler::find(BlockId block) {
  if (records_.empty()) return nullptr;
  const int32_t index = record_of_block_[static_cast<size_t>(block.value)];
  return index < 0 ? nullptr : &records_[static_cast<size_t>(index)];
}

void ResidencySampler::on_allocate(BlockId block, int64_t now_us) {
  if (rate_ <= 0.0f) return;
  int32_t& index = record_of_block_[static_cast<size_t>(block.value)];
  if (index >= 0) {
    free_records_.push_back(index);  // it was followed, but its earlier content was never cached
    index = -1;
  }
  constexpr uint64_t kSamplingSeed = 0x7265736964656e63u;
  if (uniform_open(kSamplingSeed, num_allocations_++, 0) >= rate_) return;
  if (free_records_.empty()) {
    index = static_cast<int32_t>(records_.size());
    records_.emplace_back();
  } else {
    index = free_records_.back();
    free_records_.pop_back();
  }
  Record record{.allocated_us = now_us, .last_use_us = now_us, .num_accesses = 1};
  record.access_us[0] = now_us;
  records_[static_cast<size_t>(index)] = record;
}

void ResidencySampler::on_touch(BlockId block, int64_t now_us) {
  Record* record = find(block);
  if (record == nullptr) return;
  record->last_use_us = now_us;
  if (record->num_accesses == kNumAccesses) {
    std::rotate(record->access_us, record->access_us + 1, record->access_us + kNumAccesses);
  } else {
    ++record->num_accesses;
  }
  record->access_us[record->num_accesses - 1] = now_us;
}

void ResidencySampler::on_free(BlockId block, int64_t now_us) {
  if (Record* record = find(block)) record->last_use_us = now_us;
}

void ResidencySampler::on_evict(BlockId block, int64_t now_us) {
  const Record* record = find(block);
  if (record == nullptr) return;
  if (samples_.size() < max_samples_) {
    ResidencySample sample{.lifetime_us = now_us - record->allocated_us,
                           .idle_us = now_us - record->last_use_us,
                           .num_reuse_gaps = record->num_accesses - 1};
    for (int32_t i = 0; i + 1 < record->num_accesses; ++i) {
      sample.reuse_gap_us[i] = record->access_us[i + 1] - record->access_us[i];
    }
    samples_.push_back(sample);
  }
  int32_t& index = record_of_block_[static_cast<size_t>(block.value)];
  free_records_.push_back(index);
  index = -1;
}

void ResidencySampler::drain(std::vector<ResidencySample>& out) {
  out.insert(out.end(), samples_.begin(), samples_.end());
  samples_.clear();
}

}  // namespace quire
