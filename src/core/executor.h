// Whatever carries out a StepPlan: a model on a device, a hash for tests, a cost model for
// simulation.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/adapter.h"
#include "core/kv_files.h"
#include "core/kv_spec.h"
#include "core/media.h"
#include "core/pooling.h"
#include "core/step.h"

namespace quire {

// What the engine must know of the model behind an executor.
struct ExecutorInfo {
  int32_t vocab_size = 0;
  int32_t max_model_len = 0;  // tokens, prompt and output, that the model can attend to
  bool generates = true;      // else requests of kind kPool are all that it takes
  PoolingInfo pooling = {};
  MediaInfo media = {};
};

// Counts steps that ran as the graphs of one shape.
struct GraphShapeCount {
  bool is_whole = false;  // the graph is of all of a step, else of the pieces between attentions
  int32_t size = 0;       // requests of a whole one, tokens of pieces
  int64_t num_steps = 0;
};

// Executors that run steps as captured graphs count these since the start.
struct GraphCounts {
  int64_t num_graph_steps = 0;     // steps run as a graph
  int64_t num_eager_steps = 0;     // steps run without
  int64_t num_padding_tokens = 0;  // that graphs ran for nobody
  int32_t num_graphs = 0;          // captured so far
  std::vector<GraphShapeCount> shapes;
  // These steps ran without a graph: their queries were longer or their requests more than any
  // graph has, or the graphs of their shapes were not there yet.
  int64_t num_eager_mixed = 0;
  int64_t num_eager_too_large = 0;
  int64_t num_eager_uncaptured = 0;
};

// An executor runs the steps of a model. One thread calls it, in this order: info, kv_spec and
// available_kv_bytes; initialize; warm_up; then execute again and again, or submit and collect. Any
// thread may call load_adapter().
class Executor {
 public:
  virtual ~Executor() = default;

  virtual ExecutorInfo info() const = 0;
  virtual KvSpec kv_spec() const = 0;
  // Returns how many bytes may go to KV blocks after weights and workspace, by arithmetic.
  virtual int64_t available_kv_bytes() const = 0;
  // Whether it can keep blocks in host memory beside those of its device (StepPlan::host_copies).
  virtual bool keeps_blocks_on_host() const { return false; }
  // Returns where blocks of host memory are, after initialize(). A plan that schedules nothing may
  // copy blocks there.
  virtual KvHostMemory host_memory() { return {}; }
  // Allocates the KV pool. Once.
  virtual Status initialize(const KvPlan& plan) = 0;
  // Runs dummy batches so that the first request is as fast as the second.
  virtual Status warm_up() = 0;
  // One forward pass. An error here means the whole step failed: the engine fails the requests in
  // the plan and goes on. kUnavailable: the device is lost, and with it the executor.
  //
  // After a step has failed, here, in submit() or in collect():
  //   - `dropped` and host_copies of its plan have taken effect; both are said once
  //   - its requests are in no known state. The next plan drops them, and may send them again
  //   - a plan may drop requests that the executor does not know
  //   - other requests and steps under way are as if the step had not been
  virtual Result<StepResult> execute(const StepPlan& plan) = 0;

  // Returns how many steps may be under way at once. Above 1 the next step is planned and submitted
  // while one runs: submit() queues a step and returns, collect() waits for the oldest. A request's
  // next position may then be one whose token a step under way samples: the executor puts it there
  // by itself. A request that failed in a step answers with an error in the steps behind it.
  virtual int32_t max_steps_in_flight() const { return 1; }
  // False: steps under way share no request but for chunks of one prompt, since it cannot put
  // sampled tokens there by itself. Each of them then wants as many requests as the others, so that
  // all parts of the executor have work (pipeline parallel).
  virtual bool feeds_its_samples() const { return true; }
  // An error: the step has failed and is not to be collected. `plan` need not outlive the call.
  virtual Status submit(const StepPlan&) {
    return {StatusCode::kUnimplemented, "this executor runs one step at a time"};
  }
  virtual Result<StepResult> collect() {
    return Status{StatusCode::kUnimplemented, "this executor runs one step at a time"};
  }

  // Returns kUnavailable when a part of the executor is lost, and with it the executor, whether or
  // not steps run. Any thread may call it.
  virtual Status health() const { return {}; }

  // Called while no block holds anything that is still wanted and no step is under way: gives the
  // memory of the KV pool back to the system until steps write to it again, where that can be done.
  virtual void discard_kv() {}

  // Called while nothing is to be run: does a short piece of what can wait. False: nothing is left.
  virtual bool work_while_idle() { return false; }
  // Returns counts that are valid until the next step, or null when the executor has no graphs.
  virtual const GraphCounts* graph_counts() const { return nullptr; }

  // Reads an adapter of the model from a directory, which requests may then bring along
  // (NewRequest::adapter). kNotFound: there is no such directory or file. kInvalidArgument,
  // kDataLoss, kUnimplemented: it does not fit the model, its files lie, or it asks for something
  // that is not supported. kResourceExhausted: no more adapters fit beside those that live.
  virtual Result<std::shared_ptr<const Adapter>> load_adapter(const std::string& /*name*/,
                                                              const std::string& /*path*/) const {
    return Status{StatusCode::kUnimplemented, "this executor takes no adapters"};
  }

  // Takes back a result that nobody reads any longer. A later step may use its memory.
  virtual void recycle(StepResult&&) {}
};

}  // namespace quire
