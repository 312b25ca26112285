#include "kv/files/file_jobs.h"

#include <span>
#include <utility>

#include "base/check.h"

namespace quire {
KvPrefix FileJobs::prefix(const BlockChain& chain, int32_t num_tokens) const {
  const std::span<const TokenId> tokens = chain.tokens.first(static_cast<size_t>(num_tokens));
  return {{tokens.begin(), tokens.end()}, stores_.keys().keys(chain.keys.first)};
}

FileJob FileJobs::make(KvPool pool, KvSequenceId sequence, uint64_t generation, BlockChain& chain,
                       int32_t begin, int32_t end) const {
  const auto size = static_cast<size_t>(spec_.pool(pool).block_size);
  const auto first = static_cast<size_t>(begin);
  const auto count = static_cast<size_t>(end - begin);
  int32_t group = 0;  // any group of the pool
  while (spec_.groups[static_cast<size_t>(group)].pool() != pool) ++group;
  const std::span<const TokenId> tokens = chain.tokens.subspan(first * size, count * size);
  FileJob job{.pool = pool,
              .sequence = sequence,
              .generation = generation,
              .keys = chain.keys.first,
              .parent = prefixes_.content(chain, group, begin).parent,
              .first_block = begin,
              .num_blocks = end - begin,
              .tokens = {tokens.begin(), tokens.end()}};
  for (int32_t i = begin; i < end; ++i)
    job.hashes.push_back(prefixes_.content(chain, group, i).hash);
  return job;
}

BlockContent FileJobs::content(const FileJob& job, int32_t index, int32_t group) const {
  const auto i = static_cast<size_t>(index);
  const auto size = static_cast<size_t>(spec_.pool(job.pool).block_size);
  return {.group = group,
          .keys = job.keys,
          .hash = job.hashes[i],
          .parent = i == 0 ? job.parent : job.hashes[i - 1],
          .tokens = std::span(job.tokens).subspan(i * size, size)};
}

uint64_t FileJobs::begin(FileJob job) {
  stores_.keys().acquire(job.keys);
  jobs_.emplace(++num_jobs_, std::move(job));
  return num_jobs_;
}

FileJob FileJobs::take(uint64_t id) {
  const auto found = jobs_.find(id);
  QUIRE_CHECK(found != jobs_.end(), "an answer to job {}, which nobody gave", id);
  FileJob job = std::move(found->second);
  jobs_.erase(found);
  return job;
}

}  // namespace quire
