#include "exec/gpu/graphs/step_graphs.h"

#include <utility>

#include "base/log.h"

namespace quire {
namespace {

constexpr int64_t kGraphBytes = int64_t{8} << 20;  // upper bound for the nodes of a forward pass
constexpr int64_t kPieceBytes = int64_t{256} << 10;

}  // namespace

StepGraphs::StepGraphs(GraphDispatcher dispatcher, bool with_adapters, Device& device,
                       Decoder& decoder, GpuRanks* ranks)
    : dispatcher_(std::move(dispatcher)), device_(device), decoder_(decoder), ranks_(ranks) {
  graphs_.resize(with_adapters ? 2 : 1);
  for (Graphs& graphs : graphs_) {
    graphs.whole.resize(dispatcher_.buckets(GraphKind::kWhole).size());
    graphs.pieces.resize(dispatcher_.buckets(GraphKind::kPieces).size());
  }
}

int64_t StepGraphs::device_bytes(const GraphDispatcher& dispatcher, bool with_adapters,
                                 size_t num_pieces) {
  const auto whole = static_cast<int64_t>(dispatcher.buckets(GraphKind::kWhole).size());
  const auto pieces = static_cast<int64_t>(dispatcher.buckets(GraphKind::kPieces).size());
  const int64_t of_each =
      whole * kGraphBytes + pieces * static_cast<int64_t>(num_pieces) * kPieceBytes;
  return with_adapters ? 2 * of_each : of_each;
}

void StepGraphs::count(GraphCounts& counts) const {
  const GraphStats& stats = dispatcher_.stats();
  counts.num_graph_steps = stats.num_graph_steps();
  counts.num_eager_steps = stats.num_eager_steps();
  counts.num_padding_tokens = stats.padding_tokens;
  counts.num_graphs = num_graphs_;
  counts.num_eager_mixed = stats.eager_mixed;
  counts.num_eager_too_large = stats.eager_too_large;
  counts.num_eager_uncaptured = stats.eager_uncaptured;
  counts.shapes.clear();
  for (const GraphKind kind : {GraphKind::kWhole, GraphKind::kPieces}) {
    const bool is_whole = kind == GraphKind::kWhole;
    const std::vector<int64_t>& steps = is_whole ? stats.launches : stats.piece_launches;
    for (size_t i = 0; i < steps.size(); ++i)
      counts.shapes.push_back({is_whole, dispatcher_.buckets(kind)[i], steps[i]});
  }
}

void StepGraphs::capture_in_turn(const std::optional<GraphBucket>& bucket,
                                 const ForwardInputs& inputs) {
  if (!bucket) return;
  const Captured& graph = captured(*bucket);
  if (graph.graphs.empty() && graph.has_run && !gave_up()) note(capture(*bucket, inputs));
}

void StepGraphs::forward(const StepSize& step, const std::optional<GraphBucket>& bucket,
                         const ForwardInputs& inputs) {
  if (!bucket) {
    dispatcher_.count(step, bucket, false);
    return decoder_.forward(inputs);
  }
  Captured& graph = captured(*bucket);
  dispatcher_.count(step, bucket, !graph.graphs.empty());
  graph.has_run = true;
  if (graph.graphs.empty()) return decoder_.forward(inputs);
  launch(*bucket, inputs);
}

void StepGraphs::launch(const GraphBucket& bucket, const ForwardInputs& inputs) {
  const Captured& graph = captured(bucket);
  decoder_.take_adapters(inputs);
  for (size_t i = 0; i < graph.graphs.size(); ++i) {
    graph.graphs[i]->launch();
    if (i + 1 < graph.graphs.size()) decoder_.mix(inputs, i);
  }
}

Status StepGraphs::capture(const GraphBucket& bucket, const ForwardInputs& inputs) {
  Result<std::vector<std::unique_ptr<Graph>>> graphs = capture_own(bucket, inputs);
  // If one rank ran graphs and another did not, they would wait for each other's kernels forever.
  const bool for_all = ranks_ == nullptr || ranks_->all(graphs.ok());
  QUIRE_RETURN_IF_ERROR(graphs.status());
  if (!for_all) return unavailable("another rank did not capture its graph");
  captured(bucket).graphs = std::move(*graphs);
  ++num_graphs_;
  return {};
}

Result<std::vector<std::unique_ptr<Graph>>> StepGraphs::capture_own(const GraphBucket& bucket,
                                                                    const ForwardInputs& inputs) {
  std::vector<std::unique_ptr<Graph>> graphs;
  const size_t num_graphs = bucket.kind == GraphKind::kWhole ? 1 : decoder_.num_pieces();
  for (size_t i = 0; i < num_graphs; ++i) {
    QUIRE_RETURN_IF_ERROR(device_.begin_capture());
    if (bucket.kind == GraphKind::kWhole) {
      decoder_.forward(inputs);
    } else {
      decoder_.run_piece(inputs, i);
    }
    QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph, device_.end_capture());
    graphs.push_back(std::move(graph));
  }
  return graphs;
}

std::optional<GraphBucket> StepGraphs::next_uncaptured() const {
  if (gave_up()) return std::nullopt;
  for (size_t of = 0; of < graphs_.size(); ++of) {
    for (const GraphKind kind : {GraphKind::kWhole, GraphKind::kPieces}) {
      const std::vector<Captured>& all =
          kind == GraphKind::kWhole ? graphs_[of].whole : graphs_[of].pieces;
      for (size_t i = all.size(); i-- > 0;)
        if (all[i].graphs.empty())
          return GraphBucket{kind, i, dispatcher_.buckets(kind)[i], of == 1};
    }
  }
  return std::nullopt;
}

void StepGraphs::prepare(const GraphBucket& bucket, const ForwardInputs& inputs) {
  decoder_.forward(inputs);  // chooses the algorithms of these shapes
  Status status = device_.synchronize();
  if (status.ok()) status = capture(bucket, inputs);
  note(status);
}

// Other programs and libraries in the process can spoil a single capture. After several failures in
// a row, further attempts are given up; steps that have graphs keep them.
void StepGraphs::note(const Status& captured) {
  num_failures_ = captured.ok() ? 0 : num_failures_ + 1;
  if (captured.ok()) return;
  log_warn("graphs: {}; {}", captured.message(),
           gave_up() ? "no more are captured" : "it is tried again");
}

}  // namespace quire
