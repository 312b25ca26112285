// Gives an engine the files in which KV outlives it (--kv-cache-dir).
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
  int64_t capacity_bytes = 0;  // of all of them
  int64_t host_bytes = 0;      // of host memory, through which blocks go to and from them
  int32_t num_engines = 1;     // among which host memory is divided; each keeps files of its own
  int32_t num_ranks = 1;       // of each stage of an engine, likewise
  // The model's files (null when it has none) and what it is run as, beside its plan.
  const ModelFiles* files = nullptr;
  std::string shape;
  std::string shape_weights;
  std::string isa;   // of a CPU
  std::string gpus;  // of GPUs: what decides how their sums are rounded; empty on a CPU
};

// Of everything but tokens, adapter and salt that the bytes of KV depend on: the contents of the
// model's files, or the name of a shape, and what its layers keep; element types; the program, whose
// kernels decide how sums are rounded, and the instruction set or the GPUs that they run on.
Result<KvFingerprint> kv_fingerprint(const KvCacheFiles& cache, const ModelPlan& plan);

// Sets what `options` of each engine need to keep KV in files; nothing without a directory.
Status add_kv_cache_files(const KvCacheFiles& cache, const ModelPlan& plan, EngineOptions& options);

}  // namespace quire
