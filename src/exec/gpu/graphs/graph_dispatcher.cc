#include "exec/gpu/graphs/graph_dispatcher.h"

#include <algorithm>
#include <numeric>

namespace quire {
namespace {

// Padding of sizes above 64 costs at most a quarter, and each further bucket would cost a capture.
std::vector<int32_t> sizes_up_to(int32_t first, int32_t largest) {
  std::vector<int32_t> sizes;
  for (int32_t size = first; size < largest;) {
    sizes.push_back(size);
    if (size < 8) {
      size *= 2;
    } else {
      size += size < 64 ? 8 : size < 256 ? 16 : 64;
    }
  }
  if (largest > 0) sizes.push_back(largest);
  return sizes;
}

bool is_decode(const StepSize& step) {
  return step.max_query_len == 1 && step.num_tokens == step.num_reqs;
}
bool fits_whole_graph(const StepSize& step) {
  return is_decode(step) && step.total_len <= GraphDispatcher::kMaxTotalLen;
}

std::optional<GraphBucket> smallest(GraphKind kind, std::span<const int32_t> sizes, int64_t need) {
  const auto bucket = std::lower_bound(sizes.begin(), sizes.end(), need);
  if (bucket == sizes.end()) return std::nullopt;
  return GraphBucket{kind, static_cast<size_t>(bucket - sizes.begin()), *bucket};
}

}  // namespace

int64_t GraphStats::num_graph_steps() const {
  return std::accumulate(launches.begin(), launches.end(), int64_t{0}) +
         std::accumulate(piece_launches.begin(), piece_launches.end(), int64_t{0});
}

std::optional<GraphMode> parse_graph_mode(std::string_view text) {
  if (text == "none") return GraphMode::kNone;
  if (text == "piecewise") return GraphMode::kPieces;
  if (text == "full") return GraphMode::kFull;
  return std::nullopt;
}

GraphDispatcher::GraphDispatcher(GraphMode mode, int32_t max_reqs, int64_t max_tokens) {
  if (mode == GraphMode::kFull) whole_ = sizes_up_to(1, max_reqs);
  if (mode != GraphMode::kNone)
    pieces_ = sizes_up_to(8, static_cast<int32_t>(std::min(max_tokens, kMaxPieceTokens)));
  stats_.launches.assign(whole_.size(), 0);
  stats_.piece_launches.assign(pieces_.size(), 0);
}

std::optional<GraphBucket> GraphDispatcher::bucket_of(const StepSize& step) const {
  const bool is_whole = fits_whole_graph(step) && !whole_.empty();
  std::optional<GraphBucket> bucket = is_whole
                                          ? smallest(GraphKind::kWhole, whole_, step.num_reqs)
                                          : smallest(GraphKind::kPieces, pieces_, step.num_tokens);
  if (bucket) bucket->has_adapters = step.has_adapters;
  return bucket;
}

void GraphDispatcher::count(const StepSize& step, const std::optional<GraphBucket>& bucket,
                            bool is_captured) {
  if (!bucket) {
    ++(is_decode(step) ? stats_.eager_too_large : stats_.eager_mixed);
  } else if (!is_captured) {
    ++stats_.eager_uncaptured;
  } else {
    ++(bucket->kind == GraphKind::kWhole ? stats_.launches : stats_.piece_launches)[bucket->index];
    stats_.tokens += step.num_tokens;
    stats_.padding_tokens += bucket->size - step.num_tokens;
  }
}

}  // namespace quire
