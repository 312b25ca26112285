// Packed weights are kept on disk, so that a later start maps them instead of packing again.
//
// There is one file per model and way of packing, named by a hash of everything that decides its
// bytes. It is written whole or not at all, checked by its sums before use, and safe to delete. A
// file that does not fit, is damaged or belongs to files that have changed is written anew.
#pragma once

#include <string>

#include "base/result.h"
#include "tensor/arena.h"
#include "weights/checkpoint.h"
#include "weights/files/model_files.h"

namespace quire {

struct WeightCacheOptions {
  std::string dir = {};               // empty: no cache
  const ModelFiles* files = nullptr;  // where the plan's tensors lie
  std::string packing = {};           // what else decides the packed bytes: the instruction set
};

// Calls load_checkpoint() with an arena of its own, or returns that arena from the cache. A cache
// that cannot be read or written costs a line in the log, never the load.
Result<Arena> load_cached_weights(const LoadPlan& plan, const LoadOptions& options,
                                  const WeightCacheOptions& cache);

}  // namespace quire
