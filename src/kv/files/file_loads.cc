#include "kv/files/file_loads.h"

#include <utility>

namespace quire {
namespace {

// A prefix that does not come in so many goes, because memory for it is short, is computed.
constexpr int32_t kMostLoads = 8;
constexpr double kReadLatencyUs = 1000;

}  // namespace

int32_t FileLoads::num_in_files(BlockChain& chain, int32_t begin) const {
  const int32_t end = state_.num_blocks(chain);
  int32_t stop = begin;
  while (stop < end && state_.index.find(state_.jobs.hash(chain, stop))) ++stop;
  return stop - begin;
}

bool FileLoads::pays(int32_t num_cached_blocks, int32_t num_blocks) const {
  const KvFileOptions& options = state_.options;
  if (!options.compute_us) return true;
  const int32_t block_size = state_.spec.block_size;
  const double bytes = static_cast<double>(num_blocks) * static_cast<double>(state_.num_groups()) *
                       static_cast<double>(state_.spec.block_bytes);
  return kReadLatencyUs + bytes / bytes_per_us_ <
         options.compute_us(num_cached_blocks * block_size, num_blocks * block_size);
}

bool FileLoads::load(KvSequenceId sequence, BlockChain& chain, int32_t begin) {
  FileTierState::Sequence& reader = state_.at(sequence);
  if (reader.num_jobs > 0) return true;
  if (!reader.has_asked) {
    state_.totals.queried_tokens +=
        std::ssize(chain.tokens) - int64_t{begin} * state_.spec.block_size;
  }
  reader.has_asked = true;
  const int32_t count = num_in_files(chain, begin);
  if (count == 0 || reader.num_loads == kMostLoads || !pays(begin, count)) return false;
  ++reader.num_loads;
  for (int32_t i = begin; i < begin + count;) {
    const int32_t num_blocks = load_from_file(sequence, chain, i, begin + count);
    if (num_blocks == 0) break;
    i += num_blocks;
  }
  return reader.num_jobs > 0;
}

bool FileLoads::reserve_block(std::vector<BlockId>& reserved) {
  HostTier& host = state_.host();
  const size_t before = reserved.size();
  for (int32_t g = 0; g < state_.num_groups(); ++g) {
    const auto block = host.reserve();
    if (!block) {
      for (; reserved.size() > before; reserved.pop_back()) host.drop(reserved.back());
      return false;
    }
    reserved.push_back(*block);
  }
  return true;
}

// Reads what the file of block `begin` has of [begin, end), as far as memory has room: how many
// blocks those are.
int32_t FileLoads::load_from_file(KvSequenceId sequence, BlockChain& chain, int32_t begin,
                                  int32_t end) {
  const FileIndex::Place place = *state_.index.find(state_.jobs.hash(chain, begin));
  const KvRun& run = state_.index.run(place.file);
  std::vector<BlockId> reserved;
  int32_t stop = begin;
  while (stop < end && place.block + stop - begin < run.num_blocks() &&
         run.hashes[static_cast<size_t>(place.block + stop - begin)] ==
             state_.jobs.hash(chain, stop) &&
         reserve_block(reserved)) {
    ++stop;
  }
  if (stop == begin) return 0;
  FileTierState::Sequence& reader = state_.at(sequence);
  FileJob job = state_.jobs.make(sequence, reader.generation, chain, begin, stop);
  job.file = run.file;
  job.host_blocks = reserved;
  KvLoadJob load{.file = run.file,
                 .first_block = run.first_block,
                 .first = place.block,
                 .prefix = state_.jobs.prefix(chain, stop * state_.spec.block_size),
                 .host_blocks = std::move(reserved)};
  state_.index.pin(place.file);
  state_.index.use(place.file);
  ++reader.num_jobs;
  load.id = state_.jobs.begin(std::move(job));
  state_.epochs.hand_on({.load = std::move(load)}, state_.has_untaken_copies());
  return stop - begin;
}

void FileLoads::end(const FileJob& job, const KvFileEvent& event) {
  HostTier& host = state_.host();
  FileTierState::Sequence& reader = state_.at(job.sequence);
  if (reader.generation == job.generation) --reader.num_jobs;
  state_.index.unpin(job.file);
  state_.totals.load_us += event.took_us;
  if (!event.status.ok()) {
    ++state_.totals.load_failures;
    state_.index.erase(job.file);
    for (const BlockId block : job.host_blocks) host.drop(block);
    return;
  }
  const CacheKeys& keys = state_.jobs.keys(job);
  const int32_t num_groups = state_.num_groups();
  for (int32_t i = 0; i < job.num_blocks; ++i) {
    for (int32_t g = 0; g < num_groups; ++g) {
      host.fill(job.host_blocks[static_cast<size_t>(i * num_groups + g)],
                state_.jobs.content(job, i, g), keys);
    }
  }
  state_.totals.loaded_blocks += job.num_blocks;
  state_.totals.loaded_bytes += event.num_bytes;
  state_.totals.hit_tokens += int64_t{job.num_blocks} * state_.spec.block_size;
  constexpr double kNewShare = 0.2;
  if (event.took_us > 0 && event.num_bytes > 0) {
    const double measured =
        static_cast<double>(event.num_bytes) / static_cast<double>(event.took_us);
    bytes_per_us_ += kNewShare * (measured - bytes_per_us_);
  }
}

}  // namespace quire
