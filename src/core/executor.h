// Whatever carries out a StepPlan: a model on a device, a hash for tests, a cost model for
// simulation.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "core/kv_spec.h"
#include "core/step.h"

namespace quire {

// What the engine must know of the model behind an executor.
struct ExecutorInfo {
  int32_t vocab_size = 0;
  int32_t max_model_len = 0;  // tokens, prompt and output, that the model can attend to
};

// Called from one thread, in the order: info/kv_spec/available_kv_bytes, initialize, warm_up,
// execute ….
class Executor {
 public:
  virtual ~Executor() = default;

  virtual ExecutorInfo info() const = 0;
  virtual KvSpec kv_spec() const = 0;
  // Memory that may go to KV blocks after weights and workspace, by arithmetic.
  virtual int64_t available_kv_bytes() const = 0;
  // Allocates the KV pool. Once.
  virtual Status initialize(const KvPlan& plan) = 0;
  // Runs dummy batches so that the first request is as fast as the second.
  virtual Status warm_up() = 0;
  // One forward pass. An error here means the whole step failed: the engine fails the requests in
  // the plan and goes on.
  virtual Result<StepResult> execute(const StepPlan& plan) = 0;
};

}  // namespace quire
