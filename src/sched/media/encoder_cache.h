// EncoderCache: records which media items the executor holds embeddings of, and which requests need
// them. It has only counts and keys: the executor keeps the embeddings, and is told what to encode
// and what to free.
//
// An item is referenced from the step that encodes it, or first needs it, until the tokens that
// stand for it are computed. Items without references stay until room is needed, so that the next
// request with the same item need not encode it; those unused for longest go first.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/media.h"
#include "core/step.h"

namespace quire {

// Counts since the start, except for the first two, which are current.
struct EncoderCacheStats {
  int32_t num_items = 0;
  int64_t num_embeddings = 0;
  int64_t num_queries = 0;  // items that requests began to need
  int64_t num_hits = 0;     // of num_queries: items that were there already
  int64_t num_evictions = 0;
};

// One thread may use it.
class EncoderCache {
 public:
  // Keeps up to `capacity` embeddings. One step encodes at most `step_capacity`, or a single item
  // that has more; 0 means `capacity`.
  explicit EncoderCache(int64_t capacity, int64_t step_capacity = 0)
      : capacity_(capacity), step_capacity_(step_capacity > 0 ? step_capacity : capacity) {}

  int64_t capacity() const { return capacity_; }
  void begin_step() { num_left_in_step_ = step_capacity_; }

  // Adds a reference to the item, which is encoded in the next plan unless it is there already.
  // Returns false if there is no room beside referenced items, or too much to encode in this step.
  bool acquire(const std::shared_ptr<const MediaItem>& item);
  // Drops a reference. `keep`: the item may be used again; otherwise it is forgotten with its last
  // reference.
  void release(const std::string& key, bool keep);

  // Moves the items to encode and to free into a plan.
  void take(StepPlan& plan);

  const EncoderCacheStats& stats() const { return stats_; }
  bool holds(const std::string& key) const { return items_.contains(key); }
  // Checks that the counts agree with the items.
  Status check() const;

 private:
  struct Held {
    std::shared_ptr<const MediaItem> item;
    int32_t num_refs = 0;
    std::list<std::string>::iterator unused;  // place in unused_ if num_refs is 0
  };
  using Items = std::unordered_map<std::string, Held>;

  bool make_room(int64_t num_embeddings);
  void forget(Items::iterator it);

  const int64_t capacity_;
  const int64_t step_capacity_;
  int64_t num_left_in_step_ = 0;
  int64_t num_referenced_ = 0;  // embeddings of items with references
  Items items_;
  std::list<std::string> unused_;  // keys without references, the longest unused first
  std::vector<std::shared_ptr<const MediaItem>> inputs_;
  std::vector<std::string> freed_;
  EncoderCacheStats stats_;
};

}  // namespace quire
