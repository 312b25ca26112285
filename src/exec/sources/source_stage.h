// SourceStage keeps the keys and values that the layers of a decoder look at, for each source that
// plans name, and tells which tokens of a step look at which source.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "core/step.h"
#include "exec/sources/source_encoder.h"
#include "nn/decoder/cross_block.h"
#include "nn/decoder/decoder.h"

namespace quire {

// One thread at a time may use it. Sources lie in blocks of 16 rows, as many as each has need of:
//
//   block b   | K, V of layer 0 | K, V of layer 1 | … |
class SourceStage {
 public:
  struct Shape {
    DType kv_dtype = DType::kF32;
    int32_t num_places = 1;    // for sources of the longest kind that are kept
    TextSourceInfo text = {};  // with sources that are texts
  };
  // Borrows spec, weights and stream, which must outlive it.
  SourceStage(std::unique_ptr<SourceEncoder> encoder, const DecoderSpec& spec,
              const DecoderWeights& weights, const DecoderLimits& limits, const Shape& shape,
              HostStream& stream);

  // Returns the bytes of keys and values of one source of the greatest length, in all layers that read
  // it.
  static int64_t place_bytes(const DecoderSpec& spec, DType kv_dtype);

  MediaInfo info() const;
  int64_t memory_bytes() const;
  Status load(const LoadOptions& options);

  // Frees, then encodes. What cannot be encoded has no rows. Appends how long each source took, in
  // microseconds, to `encode_us`.
  void apply(const StepPlan& plan, std::vector<int64_t>& encode_us);

  // What the tokens of the step's batch look at: first nothing, then what those of each scheduled
  // request do, whose media these are. An error: its source has no rows.
  void clear_segments();
  Status add_segments(const ScheduledRequest& scheduled, std::span<const MediaSpan> media);
  // Rows of a source that is there, and their keys in one head of a layer that reads it: [D, rows].
  int32_t num_rows(const std::string& key) const { return kept_.at(key).num_rows; }
  std::vector<float> read_keys(const std::string& key, CrossSpec::AlignmentHead head) const;
  CrossBlock* block() { return &*block_; }
  CrossSegments segments() const;

 private:
  struct Kept {
    std::vector<int32_t> blocks;
    int32_t num_rows = 0;
    int32_t num_shown = 0;  // SourceRows::num_shown, or all
    Status status;
  };
  int64_t max_blocks() const;  // of a source
  std::vector<KvCacheView> views(void* pool) const;
  Status encode(const MediaItem& item, Kept& kept);
  // A run is tokens that look at some rows of a source, or stand beside it.
  struct Run {
    int32_t num_tokens = 0;
    int32_t num_rows = 0;
    bool reads = true;
    bool is_shown = true;
  };
  void add_run(const Kept& kept, const Run& run);

  std::unique_ptr<SourceEncoder> encoder_;
  const DecoderSpec& spec_;
  const DecoderWeights& weights_;
  const DecoderLimits limits_;
  const Shape shape_;
  HostStream& stream_;
  Arena pool_, workspace_;
  std::vector<KvCacheView> views_;  // per layer
  std::optional<CrossBlock> block_;
  std::unordered_map<std::string, Kept> kept_;  // by MediaItem::key
  std::vector<int32_t> free_blocks_;
  const Kept nothing_;          // what requests that warm up look at
  std::vector<int64_t> slots_;  // [max_source_len], of the source that is being written
  std::vector<int32_t> start_loc_, source_lens_, block_table_;
  std::vector<uint8_t> reads_, shown_;  // per token
  int32_t max_len_ = 0;
};

}  // namespace quire
