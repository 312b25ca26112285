// MediaStage: encodes the media items of a step and keeps their embeddings, as plans say, and puts
// them in the places of tokens.
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
  // Plans keep to `max_cached_embeddings`.
  MediaStage(std::unique_ptr<VisionTower> tower, int32_t max_cached_embeddings)
      : tower_(std::move(tower)), max_cached_embeddings_(max_cached_embeddings) {}

  MediaInfo info() const;
  VisionTower& tower() { return *tower_; }
  // Of the embeddings that may be kept.
  int64_t cache_bytes() const;

  // Frees, then encodes. An item that cannot be encoded has no embeddings. Appends how long each item
  // took, in microseconds, to `encode_us`.
  void apply(const StepPlan& plan, std::vector<int64_t>& encode_us);

  // The rows of the step's batch that are media's: first none, then those of each scheduled request
  // with media, whose first token is row `first_row`. An error: an item has no embeddings.
  void clear_rows() { rows_.clear(); }
  Status add_rows(const ScheduledRequest& scheduled, int64_t first_row,
                  std::span<const MediaSpan> media);
  std::span<const GivenRows> rows() const { return rows_; }

 private:
  std::unique_ptr<VisionTower> tower_;
  int32_t max_cached_embeddings_;
  struct Encoded {
    std::vector<float> rows;  // empty with an error
    Status status;
  };
  std::unordered_map<std::string, Encoded> encoded_;  // by MediaItem::key
  std::vector<GivenRows> rows_;
};

}  // namespace quire
