// GraphDispatcher says which captured graph runs a step. A graph is of one size; a smaller step is
// padded up to it.
//
// With GraphMode::kFull a step in which every request brings one token runs as one whole graph, by the number of
// requests. Any other step of few tokens runs piece by piece: what lies between attentions are
// graphs, by the number of tokens, and attention, whose work depends on the requests, is queued
// between them. More tokens keep a GPU busy for longer than queueing them takes: no graph.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace quire {

enum class GraphMode : uint8_t {
  kNone,    // no step
  kPieces,  // all steps piece by piece, those in which every request brings one token as well
  kFull,    // these as whole graphs
};
// The text is none, piecewise or full; any other gives nothing.
std::optional<GraphMode> parse_graph_mode(std::string_view text);

struct StepSize {
  int32_t num_reqs = 0;
  int64_t num_tokens = 0;
  int32_t max_query_len = 0;
  int64_t total_len = 0;      // the positions that its requests see, all together
  bool has_adapters = false;  // some row has one
};

enum class GraphKind : uint8_t { kWhole, kPieces };

struct GraphBucket {
  GraphKind kind = GraphKind::kWhole;
  size_t index = 0;           // among the buckets of the kind
  int32_t size = 0;           // requests, or tokens of kPieces, that the step is padded to
  bool has_adapters = false;  // other kernels run, for whichever adapters and rows
  bool operator==(const GraphBucket&) const = default;
};

// Counts since the start.
struct GraphStats {
  std::vector<int64_t> launches;        // per bucket of kWhole
  std::vector<int64_t> piece_launches;  // per bucket of kPieces
  int64_t eager_mixed = 0;              // steps with a longer query above the largest bucket
  int64_t eager_too_large = 0;          // decode steps above the largest bucket
  int64_t eager_uncaptured = 0;         // steps of a bucket whose graph was not there yet
  int64_t tokens = 0;                   // that graphs ran for requests
  int64_t padding_tokens = 0;           // that they ran for nobody
  int64_t num_graph_steps() const;
  int64_t num_eager_steps() const { return eager_mixed + eager_too_large + eager_uncaptured; }
};

class GraphDispatcher {
 public:
  // No graphs.
  GraphDispatcher() = default;
  // Buckets 1, 2, 4, 8, 16, 24, 32, … in steps of 8 to 64, then of 16 to 256, then of 64: of
  // requests up to `max_reqs`, which is always one; of tokens from 8 up to `max_tokens` or
  // kMaxPieceTokens, the smaller of which is always one.
  GraphDispatcher(GraphMode mode, int32_t max_reqs, int64_t max_tokens);
  static constexpr int64_t kMaxPieceTokens = 512;
  // The requests of a whole graph see at most so many positions together. It is captured once for
  // all steps of its size, and would have to be ready for as many contexts of the greatest length.
  static constexpr int64_t kMaxTotalLen = int64_t{3} << 20;

  std::span<const int32_t> buckets(GraphKind kind) const {
    return kind == GraphKind::kWhole ? whole_ : pieces_;
  }
  size_t num_buckets() const { return whole_.size() + pieces_.size(); }
  // Returns the bucket to run the step in, or nothing where the step is of no graph's shape.
  std::optional<GraphBucket> bucket_of(const StepSize& step) const;
  // Counts a step that runs now, in the bucket that bucket_of() said.
  void count(const StepSize& step, const std::optional<GraphBucket>& bucket, bool is_captured);
  const GraphStats& stats() const { return stats_; }

 private:
  std::vector<int32_t> whole_;  // ascending
  std::vector<int32_t> pieces_;
  GraphStats stats_;
};

}  // namespace quire
