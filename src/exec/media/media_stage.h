// MediaStage encodes the media items of a step, keeps their embeddings as long as plans say, and
// puts them in the rows of their tokens.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "core/step.h"
#include "exec/media/vision_tower.h"
#include "nn/decoder/decoder.h"

namespace quire {

// One thread at a time may use it.
class MediaStage {
 public:
  // Plans never keep more than `max_cached_embeddings`.
  MediaStage(std::unique_ptr<VisionTower> tower, int32_t max_cached_embeddings)
      : tower_(std::move(tower)), max_cached_embeddings_(max_cached_embeddings) {}

  MediaInfo info() const;
  VisionTower& tower() { return *tower_; }
  // Returns the bytes of the most embeddings that may be kept.
  int64_t cache_bytes() const;

  // Frees items, then encodes new ones. An item that cannot be encoded has no embeddings. Appends
  // the time that each item took, in microseconds, to `encode_us`.
  void apply(const StepPlan& plan, std::vector<int64_t>& encode_us);

  // The rows of the step's batch that get their embeddings from media. clear_rows() empties the
  // list; then add_rows() is called for each scheduled request with media, whose first token is row
  // `first_row`, and fails if an item has no embeddings.
  void clear_rows() { rows_.clear(); }
  Status add_rows(const ScheduledRequest& scheduled, int64_t first_row,
                  std::span<const MediaSpan> media);
  std::span<const GivenRows> rows() const { return rows_; }

 private:
  std::unique_ptr<VisionTower> tower_;
  int32_t max_cached_embeddings_;
  struct Encoded {
    std::vector<float> rows;  // empty if encoding failed
    Status status;
  };
  std::unordered_map<std::string, Encoded> encoded_;  // by MediaItem::key
  std::vector<GivenRows> rows_;
};

}  // namespace quire
