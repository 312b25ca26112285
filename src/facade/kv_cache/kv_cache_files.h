// Gives an engine the files in which KV outlives it (--kv-cache-dir).
#pragma once

#include "base/result.h"
#include "engine/engine_options.h"
#include "exec/model_plan.h"
#include "facade/engine_args.h"
#include "transfer/kv_file.h"
#include "weights/files/model_files.h"

namespace quire {

// Host memory through which blocks go to and from files, where nobody said how much.
inline constexpr int64_t kDefaultHostKvBytes = int64_t{512} << 20;

// What --kv-cache-dir asks for that cannot be.
Status check_kv_cache_files(const EngineArgs& args);
// Host memory for KV blocks that `args` ask for.
int64_t host_kv_bytes(const EngineArgs& args);

// Of everything but tokens, adapter and salt that the bytes of KV depend on: the contents of the
// model's files, or the name of a shape; element types and the layout of a block; the program,
// whose kernels decide how sums are rounded, and the instruction set that they use.
Result<KvFingerprint> kv_fingerprint(const EngineArgs& args, const ModelFiles* files,
                                     const ModelPlan& plan);

// Sets what `options` need to keep KV in args.kv_cache_dir. `files` may be null.
Status add_kv_cache_files(const EngineArgs& args, const ModelFiles* files, const ModelPlan& plan,
                          EngineOptions& options);

}  // namespace quire
