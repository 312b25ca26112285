// KvFiles over a directory: a few threads read and write, and now and then look for files of others.
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
  int64_t rescan_us = 1'000'000;  // how often the directory is asked what others wrote
  // One for each thread.
  std::function<std::unique_ptr<FileReads>()> make_reads = make_file_reads;
};

// `host` outlives the store; its blocks are of `shape`.
std::unique_ptr<KvFiles> make_kv_file_store(KvDirectory directory, const KvBlockShape& shape,
                                            const HostBlocks& host,
                                            const KvFileStoreOptions& options = {});

}  // namespace quire
