// GraphDispatcher decides which captured graph runs a step. A graph has a fixed size; a smaller
// step is padded up to it.
//
// With GraphMode::kFull, a step in which every request has one token runs as one whole graph,
// chosen by the number of requests. Any other step of few tokens runs in pieces: what lies between
// two attentions is a graph, chosen by the number of tokens, and attention, whose work depends on
// the requests, is queued between the pieces. A step of more tokens runs without a graph, because
// computing it takes longer than queueing it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace quire {

enum class GraphMode : uint8_t {
  kNone,    // no step runs as a graph
  kPieces,  // every step runs in pieces, also one in which each request has one token
  kFull,    // steps with one token per request run as whole graphs, all others in pieces
};
// Parses none, piecewise or full; returns nothing for any other text.
std::optional<GraphMode> parse_graph_mode(std::string_view text);

struct StepSize {
  int32_t num_reqs = 0;
  int64_t num_tokens = 0;
  int32_t max_query_len = 0;
  int64_t total_len = 0;      // sum of its requests' sequence lengths
  bool has_adapters = false;  // at least one row uses an adapter
};

enum class GraphKind : uint8_t { kWhole, kPieces };

struct GraphBucket {
  GraphKind kind = GraphKind::kWhole;
  size_t index = 0;           // among the buckets of the kind
  int32_t size = 0;           // the step is padded to so many requests (kWhole) or tokens (kPieces)
  bool has_adapters = false;  // graphs with adapters run other kernels, for any adapters and rows
  bool operator==(const GraphBucket&) const = default;
};

// Counts since the start.
struct GraphStats {
  std::vector<int64_t> launches;        // per bucket of kWhole
  std::vector<int64_t> piece_launches;  // per bucket of kPieces
  int64_t eager_mixed = 0;              // above every bucket, and a request has several tokens
  int64_t eager_too_large = 0;          // larger than every bucket, with one token per request
  int64_t eager_uncaptured = 0;         // their bucket's graph was not captured yet
  int64_t tokens = 0;                   // of requests, computed by graphs
  int64_t padding_tokens = 0;           // computed by graphs beside them
  int64_t num_graph_steps() const;
  int64_t num_eager_steps() const { return eager_mixed + eager_too_large + eager_uncaptured; }
};

class GraphDispatcher {
 public:
  // Never chooses a graph.
  GraphDispatcher() = default;
  // The sizes of whole graphs, in requests, are 1, 2, 4, 8, 16, 24, 32, … (steps of 8 up to 64,
  // then of 16 up to 256, then of 64) and end with `max_reqs`. The sizes of pieces, in tokens,
  // begin at 8, take the same steps, and end with the smaller of `max_tokens` and kMaxPieceTokens.
  GraphDispatcher(GraphMode mode, int32_t max_reqs, int64_t max_tokens);
  static constexpr int64_t kMaxPieceTokens = 512;
  // The largest total_len of a step that runs as a whole graph. A graph is captured once for all
  // steps of its size, and would otherwise have to allow for the greatest sequence length of every
  // request.
  static constexpr int64_t kMaxTotalLen = int64_t{3} << 20;

  std::span<const int32_t> buckets(GraphKind kind) const {
    return kind == GraphKind::kWhole ? whole_ : pieces_;
  }
  size_t num_buckets() const { return whole_.size() + pieces_.size(); }
  // Returns the bucket to run the step in, or nothing if no graph has a fitting shape.
  std::optional<GraphBucket> bucket_of(const StepSize& step) const;
  // Counts a step that is about to run, with the bucket that bucket_of() returned.
  void count(const StepSize& step, const std::optional<GraphBucket>& bucket, bool is_captured);
  const GraphStats& stats() const { return stats_; }

 private:
  std::vector<int32_t> whole_;  // ascending
  std::vector<int32_t> pieces_;
  GraphStats stats_;
};

}  // namespace quire
