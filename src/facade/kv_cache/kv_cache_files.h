// Gives an engine the files that keep KV beyond the process (--kv-cache-dir).
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "engine/engine_options.h"
#include "exec/model_plan.h"
#include "transfer/kv_file.h"
#include "weights/files/model_files.h"

namespace quire {

struct KvCacheFiles {
  std::string dir;             // empty: no files
  int64_t capacity_bytes = 0;  // of all files
  int64_t host_bytes = 0;      // host memory through which blocks go to and from files
  int32_t num_engines = 1;     // engines share host memory; each has files of its own
  int32_t num_ranks = 1;       // ranks of each stage of an engine, which share it too
  // The model's files (null for a shape), and how the model is run, beside its plan.
  const ModelFiles* files = nullptr;
  std::string shape;
  std::string shape_weights;
  std::string isa;  // on a CPU
  // The properties of GPUs on which the rounding of sums depends; empty on a CPU.
  std::string gpus;
};

// Returns the fingerprint of everything except tokens, adapter and salt that the bytes of KV depend
// on: the contents of the model's files, or the name of a shape; what its layers keep; element
// types; the program, whose kernels decide how sums are rounded; and the instruction set or the
// GPUs.
Result<KvFingerprint> kv_fingerprint(const KvCacheFiles& cache, const ModelPlan& plan);

// Sets the `options` that each engine needs to keep KV in files; none without a directory.
Status add_kv_cache_files(const KvCacheFiles& cache, const ModelPlan& plan, EngineOptions& options);

}  // namespace quire
