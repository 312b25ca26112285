// SourceStage stores the keys and values of each source that plans name, for the cross-attention of
// a decoder, and lists which tokens of a step attend to which source.
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

// One thread at a time may use it. A source is stored in blocks of 16 rows, as many as it needs:
//
//   block b   | K, V of layer 0 | K, V of layer 1 | … |
class SourceStage {
 public:
  struct Shape {
    DType kv_dtype = DType::kF32;
    int32_t num_places = 1;    // how many sources of the longest kind are kept
    TextSourceInfo text = {};  // if sources are texts
  };
  // Borrows spec, weights and stream, which must outlive it.
  SourceStage(std::unique_ptr<SourceEncoder> encoder, const DecoderSpec& spec,
              const DecoderWeights& weights, const DecoderLimits& limits, const Shape& shape,
              HostStream& stream);

  // Returns the bytes of the keys and values of one source of the greatest length, over all layers
  // that read it.
  static int64_t place_bytes(const DecoderSpec& spec, DType kv_dtype);

  MediaInfo info() const;
  int64_t memory_bytes() const;
  Status load(const LoadOptions& options);

  // Frees sources, then encodes new ones. A source that cannot be encoded has no rows. Appends the
  // time that each source took, in microseconds, to `encode_us`.
  void apply(const StepPlan& plan, std::vector<int64_t>& encode_us);

  // The sources of the tokens of the step's batch. clear_segments() empties the list; then
  // add_segments() is called for each scheduled request, with its media, and fails if its source
  // has no rows.
  void clear_segments();
  Status add_segments(const ScheduledRequest& scheduled, std::span<const MediaSpan> media);
  // num_rows() returns the rows of a source that is stored; read_keys() returns their keys in one
  // head of a layer that reads it, [D, rows].
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
  // Consecutive tokens that attend to the same rows of a source, or that take no part in
  // cross-attention.
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
  const Kept nothing_;          // the source of requests that only warm up
  std::vector<int64_t> slots_;  // [max_source_len], of the source that is being encoded
  std::vector<int32_t> start_loc_, source_lens_, block_table_;
  std::vector<uint8_t> reads_, shown_;  // per token
  int32_t max_len_ = 0;
};

}  // namespace quire
