// KvFiles over a directory: some threads read and write files, and another looks for files that
// other processes wrote.
#pragma once

#include <functional>
#include <memory>

#include "base/result.h"
#include "core/kv_files.h"
#include "transfer/file_reads.h"
#include "transfer/kv_directory.h"
#include "transfer/kv_file.h"

namespace quire {

struct KvFileStoreOptions {
  int num_threads = 2;
  int32_t cell_tokens = kKvCellTokens;
  int64_t rescan_us = 1'000'000;  // how often the directory is checked for new files
  // Called once for each thread that reads.
  std::function<std::unique_ptr<FileReads>()> make_reads = make_file_reads;
};

// `memory` must outlive the store. Its blocks of KvPool::kAttention have `block_size` tokens.
// kInvalidArgument: a block is not a whole number of cells. kInternal: as KvCells::create().
Result<std::unique_ptr<KvFiles>> make_kv_file_store(KvDirectory directory,
                                                    const KvHostMemory& memory, int32_t block_size,
                                                    const KvFileStoreOptions& options = {});

}  // namespace quire
