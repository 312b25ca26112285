// StepGraphs holds the captured graphs of a GPU's forward passes (graph_dispatcher.h says which
// there are). A graph is captured when the second step of its bucket comes, or before, while
// nothing is to be run: the server is ready before any is, and the first step of a bucket has
// chosen the algorithms of its shapes, which capturing must not meet.
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

// Borrows what it is made of. One thread.
class StepGraphs {
 public:
  // `with_adapters` says that there are steps with and without, and graphs for both. `ranks` are
  // those of a decoder that computes a rank's share, whose graphs are there for all ranks or for
  // none; it is null where one decoder computes all.
  StepGraphs(GraphDispatcher dispatcher, bool with_adapters, Device& device, Decoder& decoder,
             GpuRanks* ranks);

  // Returns the device memory of all graphs: an upper bound that was argued and not measured.
  static int64_t device_bytes(const GraphDispatcher& dispatcher, bool with_adapters,
                              size_t num_pieces);

  std::optional<GraphBucket> bucket_of(const StepSize& step) const {
    return dispatcher_.bucket_of(step);
  }
  // Captures the graph of a step like this one, if it is its turn. Before anything of the step is
  // queued that waits for another GPU: a capture may wait for the device.
  void capture_in_turn(const std::optional<GraphBucket>& bucket, const ForwardInputs& inputs);
  // Queues the forward pass of a step whose inputs are padded to its bucket: requests and tokens
  // of a whole graph, tokens of pieces.
  void forward(const StepSize& step, const std::optional<GraphBucket>& bucket,
               const ForwardInputs& inputs);

  // Returns a bucket that is not captured yet, the largest first, since smaller ones reuse its
  // memory.
  std::optional<GraphBucket> next_uncaptured() const;
  // Captures the bucket's graph with inputs of no request; the device waits until it is done.
  void prepare(const GraphBucket& bucket, const ForwardInputs& inputs);

  const GraphStats& stats() const { return dispatcher_.stats(); }
  // The same for whoever knows no GPU; nothing is allocated from the second call on.
  void count(GraphCounts& counts) const;

 private:
  static constexpr int32_t kMaxFailures = 3;

  // What runs a bucket: one graph, or one per piece.
  struct Captured {
    std::vector<std::unique_ptr<Graph>> graphs;
    bool has_run = false;  // without graphs
  };
  // These are the graphs of one kind of steps, by bucket.
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
  std::vector<Graphs> graphs_;  // without adapters and, where there are any, with
  int32_t num_graphs_ = 0;
  int32_t num_failures_ = 0;  // of captures, on end
};

}  // namespace quire
