// load_cached_weights() keeps packed weights on disk, so that a later start maps them instead of
// packing again.
//
// The cache holds one file per model and way of packing, named by a hash of everything that decides
// its bytes. A file is written whole or not at all, its checksums are checked before use, and it is
// safe to delete. A file that is damaged, or that belongs to checkpoint files that have changed, is
// written again.
#pragma once

#include <string>

#include "base/result.h"
#include "tensor/arena.h"
#include "weights/checkpoint.h"
#include "weights/files/model_files.h"

namespace quire {

struct WeightCacheOptions {
  std::string dir = {};               // empty means no cache
  const ModelFiles* files = nullptr;  // where the plan's tensors lie
  std::string packing = {};  // anything else that decides the packed bytes: the instruction set
};

// Loads the plan's weights into an arena of its own with load_checkpoint(), or returns that arena
// from the cache. A cache that cannot be read or written leads to a line in the log, never to an
// error.
Result<Arena> load_cached_weights(const LoadPlan& plan, const LoadOptions& options,
                                  const WeightCacheOptions& cache);

}  // namespace quire
