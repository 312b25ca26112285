// StepGraphs holds the captured graphs of a GPU's forward passes (graph_dispatcher.h lists them). A
// graph is captured when the second step of its bucket comes, or earlier, while the engine is idle.
// Thus the server is ready before any graph is, and the first step of a bucket, which runs eagerly,
// has chosen the algorithms of its shapes; that cannot happen during a capture.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "core/executor.h"
#include "device/device.h"
#include "exec/gpu/graphs/graph_dispatcher.h"
#include "exec/gpu/ranks/gpu_ranks.h"
#include "nn/decoder/decoder.h"

namespace quire {

// Borrows its arguments. One thread may use it.
class StepGraphs {
 public:
  // `with_adapters` says that some steps have adapters and some do not, so that each bucket needs a
  // graph for both. `ranks` is the group of a decoder that computes a rank's share: either all
  // ranks have a graph or none has. It is null where one decoder computes everything.
  StepGraphs(GraphDispatcher dispatcher, bool with_adapters, Device& device, Decoder& decoder,
             GpuRanks* ranks);

  // Returns an estimate of the device memory of all graphs: an upper bound by argument, not by
  // measurement.
  static int64_t device_bytes(const GraphDispatcher& dispatcher, bool with_adapters,
                              size_t num_pieces);

  std::optional<GraphBucket> bucket_of(const StepSize& step) const {
    return dispatcher_.bucket_of(step);
  }
  // Captures the graph of a step like this one if its bucket has run once. Must be called before
  // any work of the step is queued that waits for another GPU, because a capture may wait for the
  // device.
  void capture_in_turn(const std::optional<GraphBucket>& bucket, const ForwardInputs& inputs);
  // Queues the forward pass of a step whose inputs are padded to its bucket: to its requests and
  // tokens for a whole graph, to its tokens for pieces.
  void forward(const StepSize& step, const std::optional<GraphBucket>& bucket,
               const ForwardInputs& inputs);

  // Returns a bucket that has no graph yet: the largest, because smaller graphs reuse its memory.
  std::optional<GraphBucket> next_uncaptured() const;
  // Captures the bucket's graph with inputs of no request, and waits for the device until that is
  // done.
  void prepare(const GraphBucket& bucket, const ForwardInputs& inputs);

  const GraphStats& stats() const { return dispatcher_.stats(); }
  // Copies the same counts to a struct that names no GPU. Only the first call allocates memory.
  void count(GraphCounts& counts) const;

 private:
  static constexpr int32_t kMaxFailures = 3;

  // What runs a bucket: one whole graph, or one graph per piece.
  struct Captured {
    std::vector<std::unique_ptr<Graph>> graphs;
    bool has_run = false;  // once, without graphs
  };
  // The graphs of steps with adapters, or of those without, by bucket.
  struct Graphs {
    std::vector<Captured> whole;
    std::vector<Captured> pieces;
  };
  Captured& captured(const GraphBucket& bucket) {
    Graphs& graphs = graphs_[bucket.has_adapters ? 1 : 0];
    return (bucket.kind == GraphKind::kWhole ? graphs.whole : graphs.pieces)[bucket.index];
  }
  Status capture(const GraphBucket& bucket, const ForwardInputs& inputs);
  Result<std::vector<std::unique_ptr<Graph>>> capture_own(const GraphBucket& bucket,
                                                          const ForwardInputs& inputs);
  void launch(const GraphBucket& bucket, const ForwardInputs& inputs);
  void note(const Status& captured);
  bool gave_up() const { return num_failures_ >= kMaxFailures; }

  GraphDispatcher dispatcher_;
  Device& device_;
  Decoder& decoder_;
  GpuRanks* ranks_;
  std::vector<Graphs> graphs_;  // [0] without adapters; [1], if there are any, with adapters
  int32_t num_graphs_ = 0;
  int32_t num_failures_ = 0;  // consecutive failed captures
};

}  // namespace quire
