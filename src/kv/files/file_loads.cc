#include "kv/files/file_loads.h"

#include <algorithm>
#include <utility>

namespace quire {
namespace {

// A prefix that cannot be read in this many attempts, because memory for it is short, is computed.
constexpr int32_t kMostLoads = 8;
constexpr double kReadLatencyUs = 1000;

}  // namespace

bool FileLoads::has_block(KvSequenceId sequence, const BlockChain& chain, int32_t index) {
  const int32_t count = state_.block_cells();
  for (int32_t i = index * count; i < (index + 1) * count; ++i) {
    if (!state_.index.find(state_.cell(sequence, chain, i))) return false;
  }
  return true;
}

FileLoads::Wanted FileLoads::wanted(KvSequenceId sequence, const BlockChain& chain,
                                    const InMemory& memory) {
  Wanted wanted{.begin = memory.num_blocks};
  int32_t end = memory.num_blocks;
  const int32_t most = state_.num_blocks(chain);
  while (end < most && has_block(sequence, chain, end)) ++end;
  if (!state_.has_states()) {
    wanted.count = end - wanted.begin;
    return wanted;
  }
  // A sequence can continue only from a snapshot, so the last one counts.
  const int32_t per_snapshot = state_.spec.state.block_size / state_.spec.block_size;
  for (int32_t i = end / per_snapshot; i * per_snapshot > memory.num_usable_blocks; --i) {
    const int32_t num_tokens = i * state_.spec.state.block_size;
    const bool is_here = memory.has_snapshot(i - 1);
    if (!is_here && !state_.index.find(state_.state(sequence, chain, num_tokens))) continue;
    wanted.count = std::max(0, i * per_snapshot - wanted.begin);
    wanted.snapshot = is_here ? 0 : num_tokens;
    break;
  }
  return wanted;
}

bool FileLoads::pays(const InMemory& memory, const Wanted& wanted) const {
  const KvFileOptions& options = state_.options;
  if (!options.compute_us) return true;
  const auto bytes_of = [&](KvPool pool, int32_t num_blocks) {
    return static_cast<double>(num_blocks) * static_cast<double>(state_.groups_of(pool).size()) *
           static_cast<double>(state_.spec.pool(pool).block_bytes);
  };
  const double bytes = bytes_of(KvPool::kAttention, wanted.count) +
                       bytes_of(KvPool::kState, wanted.snapshot > 0 ? 1 : 0);
  const int32_t block_size = state_.spec.block_size;
  const int32_t num_usable = memory.num_usable_blocks * block_size;
  const int32_t end = std::max((wanted.begin + wanted.count) * block_size, wanted.snapshot);
  return kReadLatencyUs + bytes / bytes_per_us_ < options.compute_us(num_usable, end - num_usable);
}

bool FileLoads::load(KvSequenceId sequence, BlockChain& chain, const InMemory& memory) {
  FileTierState::Sequence& reader = state_.at(sequence);
  if (reader.num_jobs > 0) return true;
  if (!reader.has_asked) {
    state_.totals.queried_tokens +=
        std::ssize(chain.tokens) - int64_t{memory.num_blocks} * state_.spec.block_size;
  }
  reader.has_asked = true;
  if (reader.num_loads == kMostLoads) return false;
  const Wanted wanted = this->wanted(sequence, chain, memory);
  if (!wanted.any() || !pays(memory, wanted)) return false;
  ++reader.num_loads;
  const int32_t end = wanted.begin + wanted.count;
  for (int32_t i = wanted.begin; i < end;) {
    const int32_t num_blocks = load_run(sequence, chain, i, end);
    if (num_blocks == 0) break;
    i += num_blocks;
  }
  if (wanted.snapshot > 0) load_states(sequence, chain, wanted.snapshot);
  return reader.num_jobs > 0;
}

bool FileLoads::reserve_block(KvPool pool, std::vector<BlockId>& reserved) {
  HostTier& host = state_.host(pool);
  const size_t before = reserved.size();
  for (size_t g = 0; g < state_.groups_of(pool).size(); ++g) {
    const auto block = host.reserve();
    if (!block) {
      for (; reserved.size() > before; reserved.pop_back()) host.drop(reserved.back());
      return false;
    }
    reserved.push_back(*block);
  }
  return true;
}

// Appends where the cells of a block are. Returns false if the block begins another file and
// `may_begin` does not allow that.
bool FileLoads::add_sources(KvSequenceId sequence, const BlockChain& chain, int32_t block,
                            bool may_begin, std::vector<KvSource>& sources) {
  const int32_t count = state_.block_cells();
  for (int32_t i = block * count; i < (block + 1) * count; ++i) {
    const FileIndex::Place place = *state_.index.find(state_.cell(sequence, chain, i));
    const KvRun& run = state_.index.run(place.file);
    if (!sources.empty() && sources.back().file == run.file &&
        sources.back().first_in_run + sources.back().count == place.cell) {
      ++sources.back().count;
      continue;
    }
    if (i == block * count && !may_begin) return false;
    sources.push_back({.file = run.file,
                       .run_first_cell = run.first_cell,
                       .first_in_run = place.cell,
                       .count = 1});
  }
  return true;
}

// Reads blocks of [begin, end) up to one that begins another file, as far as memory has room.
// Returns the number of these blocks.
int32_t FileLoads::load_run(KvSequenceId sequence, BlockChain& chain, int32_t begin, int32_t end) {
  std::vector<BlockId> reserved;
  std::vector<KvSource> sources;
  int32_t stop = begin;
  while (stop < end && reserve_block(KvPool::kAttention, reserved)) {
    if (!add_sources(sequence, chain, stop, stop == begin, sources)) {
      for (size_t g = 0; g < state_.groups_of(KvPool::kAttention).size(); ++g) {
        state_.host(KvPool::kAttention).drop(reserved.back());
        reserved.pop_back();
      }
      break;
    }
    ++stop;
  }
  if (stop == begin) return 0;
  FileJob job = state_.jobs.make(KvPool::kAttention, sequence, state_.at(sequence).generation,
                                 chain, begin, stop);
  job.host_blocks = reserved;
  begin_job(std::move(job), {.first_cell = begin * state_.block_cells(),
                             .sources = std::move(sources),
                             .prefix = state_.jobs.prefix(chain, stop * state_.spec.block_size),
                             .host_blocks = std::move(reserved)});
  return stop - begin;
}

void FileLoads::load_states(KvSequenceId sequence, BlockChain& chain, int32_t num_tokens) {
  const FileIndex::Place place = *state_.index.find(state_.state(sequence, chain, num_tokens));
  const KvRun& run = state_.index.run(place.file);
  std::vector<BlockId> reserved;
  if (!reserve_block(KvPool::kState, reserved)) return;
  const int32_t end = num_tokens / state_.spec.state.block_size;
  FileJob job = state_.jobs.make(KvPool::kState, sequence, state_.at(sequence).generation, chain,
                                 end - 1, end);
  job.host_blocks = reserved;
  begin_job(std::move(job), {.pool = KvPool::kState,
                             .first_cell = run.first_cell,
                             .sources = {{.file = run.file,
                                          .run_first_cell = run.first_cell,
                                          .first_in_run = 0,
                                          .count = 1}},
                             .prefix = state_.jobs.prefix(chain, num_tokens),
                             .host_blocks = std::move(reserved)});
}

void FileLoads::begin_job(FileJob job, KvLoadJob load) {
  for (const KvSource& source : load.sources) {
    state_.index.pin(source.file);
    state_.index.use(source.file);
    job.files.push_back(source.file);
  }
  ++state_.at(job.sequence).num_jobs;
  load.id = state_.jobs.begin(std::move(job));
  state_.epochs.hand_on({.load = std::move(load)}, state_.has_untaken_copies());
}

void FileLoads::end(const FileJob& job, const KvFileEvent& event) {
  HostTier& host = state_.host(job.pool);
  FileTierState::Sequence& reader = state_.at(job.sequence);
  if (reader.generation == job.generation) --reader.num_jobs;
  for (const std::string& file : job.files) state_.index.unpin(file);
  state_.totals.load_us += event.took_us;
  if (!event.status.ok()) {
    ++state_.totals.load_failures;
    state_.index.erase(event.run.file);
    for (const BlockId block : job.host_blocks) host.drop(block);
    return;
  }
  const CacheKeys& keys = state_.jobs.keys(job);
  const std::vector<int32_t>& groups = state_.groups_of(job.pool);
  for (int32_t i = 0; i < job.num_blocks; ++i) {
    for (size_t g = 0; g < groups.size(); ++g) {
      host.fill(job.host_blocks[static_cast<size_t>(i) * groups.size() + g],
                state_.jobs.content(job, i, groups[g]), keys);
    }
  }
  state_.totals.loaded_bytes += event.num_bytes;
  if (job.pool == KvPool::kAttention) {
    state_.totals.loaded_blocks += job.num_blocks;
    state_.totals.hit_tokens += int64_t{job.num_blocks} * state_.spec.block_size;
  }
  constexpr double kNewShare = 0.2;
  if (event.took_us > 0 && event.num_bytes > 0) {
    const double measured =
        static_cast<double>(event.num_bytes) / static_cast<double>(event.took_us);
    bytes_per_us_ += kNewShare * (measured - bytes_per_us_);
  }
}

}  // namespace quire
