// The Executor interface: an executor carries out StepPlans. Implementations are a model on a
// device, a hash for tests, and a cost model for simulation.
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

// What the engine must know about the model behind an executor.
struct ExecutorInfo {
  int32_t vocab_size = 0;
  int32_t max_model_len = 0;  // tokens, prompt and output, that the model can attend to
  bool generates = true;      // false: the executor takes only requests of kind kPool
  PoolingInfo pooling = {};
  MediaInfo media = {};
};

// The number of steps that ran as graphs of one shape.
struct GraphShapeCount {
  // If true, the graph covers a whole step; if false, the pieces between attentions.
  bool is_whole = false;
  int32_t size = 0;  // requests of a whole step, or tokens of the pieces
  int64_t num_steps = 0;
};

// Counts since the start, by executors that run steps as captured graphs.
struct GraphCounts {
  int64_t num_graph_steps = 0;     // steps run as a graph
  int64_t num_eager_steps = 0;     // steps run without a graph
  int64_t num_padding_tokens = 0;  // rows that graphs computed and nobody needed
  int32_t num_graphs = 0;          // captured so far
  std::vector<GraphShapeCount> shapes;
  // Steps that ran without a graph: their queries were longer (mixed) or their requests more (too
  // large) than any graph takes, or the graph of their shape was not there yet (uncaptured).
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
  // Returns whether it can keep blocks in host memory beside those of its device
  // (StepPlan::host_copies).
  virtual bool keeps_blocks_on_host() const { return false; }
  // Describes the blocks of host memory; valid after initialize(). A plan that schedules nothing
  // may still copy blocks to or from them.
  virtual KvHostMemory host_memory() { return {}; }
  // Allocates the KV pools. Called once.
  virtual Status initialize(const KvPlan& plan) = 0;
  // Runs dummy batches so that the first request is as fast as the second.
  virtual Status warm_up() = 0;
  // Runs one forward pass. An error means that the whole step failed: the engine fails the requests
  // in the plan and goes on. kUnavailable means that the device, and with it the executor, is lost.
  // An executor that cannot make the host_copies of a plan is lost too, since nobody knows any
  // longer what the blocks hold.
  //
  // After a step has failed, here, in submit() or in collect(), without the loss of the executor:
  //   - `dropped` and `host_copies` of its plan have taken effect and are not sent again
  //   - the state of its requests is unknown. The next plan drops them, and may send them again
  //   - a plan may drop requests that the executor does not know
  //   - other requests and the steps under way are as if the step had never been
  virtual Result<StepResult> execute(const StepPlan& plan) = 0;

  // Returns how many steps may be under way at once. If more than 1, the next step is planned and
  // submitted while one runs: submit() queues a step and returns, and collect() waits for the
  // oldest. The next position of a request may then hold a token that a step under way is still
  // sampling: the executor fills it in by itself. If a request failed in a step, its results in the
  // steps submitted behind that one are errors too.
  virtual int32_t max_steps_in_flight() const { return 1; }
  // If false, the executor cannot feed sampled tokens into a step behind (pipeline parallel). Steps
  // under way then share no request except for chunks of one prompt, and each should have about as
  // many requests as the others, so that all stages have work.
  virtual bool feeds_its_samples() const { return true; }
  // Queues a step. After an error the step has failed and must not be collected. `plan` need not
  // outlive the call.
  virtual Status submit(const StepPlan&) {
    return {StatusCode::kUnimplemented, "this executor runs one step at a time"};
  }
  virtual Result<StepResult> collect() {
    return Status{StatusCode::kUnimplemented, "this executor runs one step at a time"};
  }

  // Returns kUnavailable when a part of the executor, and with it the executor, is lost, whether or
  // not steps run. Any thread may call it.
  virtual Status health() const { return {}; }

  // Gives the memory of the KV pools back to the system, where that is possible, until steps write
  // to it again. Called only while no block holds anything still wanted and no step is under way.
  virtual void discard_kv() {}

  // Does a short piece of deferred work. Called while there is nothing to run. Returns false when
  // nothing is left to do.
  virtual bool work_while_idle() { return false; }
  // Returns counts that are valid until the next step, or null when the executor has no graphs.
  virtual const GraphCounts* graph_counts() const { return nullptr; }

  // Reads an adapter of the model from a directory; requests may then use it (NewRequest::adapter).
  // Errors: kNotFound if there is no such directory or file; kInvalidArgument, kDataLoss or
  // kUnimplemented if it does not fit the model, its files are damaged, or it needs a feature that
  // is not supported; kResourceExhausted if no more adapters fit beside those that are alive.
  virtual Result<std::shared_ptr<const Adapter>> load_adapter(const std::string& /*name*/,
                                                              const std::string& /*path*/) const {
    return Status{StatusCode::kUnimplemented, "this executor takes no adapters"};
  }

  // Takes back a result that nobody reads any longer, so that a later step can use its memory
  // again.
  virtual void recycle(StepResult&&) {}
};

}  // namespace quire
