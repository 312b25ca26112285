#include "kv/files/file_stores.h"

#include <optional>
#include <span>
#include <string>

namespace quire {
namespace {

// How long nothing is written after the disk was full.
constexpr int64_t kStoresOffUs = 30'000'000;

std::pair<uint64_t, uint64_t> as_pair(const KvHash& hash) { return {hash.low, hash.high}; }

void unpin(HostTier& host, std::span<const BlockId> blocks) {
  for (const BlockId block : blocks) host.unpin(block);
}

}  // namespace

bool FileStores::is_being_stored(const KvHash& hash) const {
  return being_stored_.contains(as_pair(hash));
}

bool FileStores::is_stored(const KvHash& hash) const {
  return state_.index.find(hash).has_value() || is_being_stored(hash);
}

bool FileStores::is_block_stored(KvSequenceId sequence, const BlockChain& chain, int32_t index) {
  const int32_t count = state_.block_cells();
  for (int32_t i = index * count; i < (index + 1) * count; ++i) {
    if (!is_stored(state_.cell(sequence, chain, i))) return false;
  }
  return true;
}

// Marks the files of a block as used. A request for their content makes them worth keeping even if
// memory had the content.
void FileStores::use_block(KvSequenceId sequence, const BlockChain& chain, int32_t index) {
  const int32_t count = state_.block_cells();
  int32_t last = -1;
  for (int32_t i = index * count; i < (index + 1) * count; ++i) {
    const auto place = state_.index.find(state_.cell(sequence, chain, i));
    if (!place || place->file == last) continue;
    last = place->file;
    state_.index.use(last);
  }
}

bool FileStores::may_come(KvSequenceId sequence, const BlockChain& chain, int32_t index) {
  const bool is_refused = index < state_.at(sequence).num_stored || is_off();
  return !is_refused || is_block_stored(sequence, chain, index);
}

bool FileStores::states_may_come(KvSequenceId sequence, const BlockChain& chain,
                                 int32_t num_tokens) {
  const bool is_refused = num_tokens <= state_.at(sequence).num_state_tokens || is_off();
  return !is_refused || is_being_stored(state_.state(sequence, chain, num_tokens));
}

void FileStores::store(KvSequenceId sequence, BlockChain& chain, Tail tail) {
  if (!state_.groups_of(KvPool::kAttention).empty()) store_blocks(sequence, chain, tail);
  if (state_.has_states() && tail != Tail::kLeft) store_states(sequence, chain, tail);
}

void FileStores::store_blocks(KvSequenceId sequence, BlockChain& chain, Tail tail) {
  int32_t& num_stored = state_.at(sequence).num_stored;
  const int32_t run_blocks = state_.options.run_blocks;
  const int32_t end = state_.num_blocks(chain);
  const int32_t fewest = tail == Tail::kLeft ? run_blocks : 1;
  if (end - num_stored < fewest || is_off()) return;
  while (true) {
    for (; num_stored < end && is_block_stored(sequence, chain, num_stored); ++num_stored)
      use_block(sequence, chain, num_stored);
    int32_t stop = num_stored;
    while (stop < end && stop - num_stored < run_blocks && !is_block_stored(sequence, chain, stop))
      ++stop;
    const int32_t count = stop - num_stored;
    if (count == 0 || (stop == end && count < fewest)) return;
    const int32_t stored = store_run(sequence, chain, num_stored, stop);
    num_stored += stored;
    if (stored == count) continue;
    if (tail == Tail::kWritten) state_.totals.skipped_blocks += count - stored;
    return;
  }
}

// Stores the blocks that memory has room for now, and returns how many it has dealt with. The
// others may be asked for again.
int32_t FileStores::store_run(KvSequenceId sequence, BlockChain& chain, int32_t begin,
                              int32_t end) {
  std::vector<BlockId> pinned;
  int32_t stop = begin;
  while (stop < end && pin_block(KvPool::kAttention, chain, stop, pinned)) ++stop;
  if (stop == begin) return 0;
  const int32_t num_tokens = stop * state_.spec.block_size;
  const int32_t first = begin * state_.block_cells();
  const int32_t count = (stop - begin) * state_.block_cells();
  const int64_t num_bytes = state_.options.files->file_bytes(KvPool::kAttention, count, num_tokens);
  if (!make_room(num_bytes)) {
    unpin(state_.host(KvPool::kAttention), pinned);
    state_.totals.skipped_blocks += stop - begin;
    return stop - begin;
  }
  FileJob job = state_.jobs.make(KvPool::kAttention, sequence, state_.at(sequence).generation,
                                 chain, begin, stop);
  job.num_bytes = num_bytes;
  job.cells = state_.cells(sequence, chain, first, count);
  begin_job(std::move(job), {.run = {.first_cell = first},
                             .prefix = state_.jobs.prefix(chain, num_tokens),
                             .host_blocks = std::move(pinned)});
  return stop - begin;
}

// Stores only the last snapshot, from which the next turn, or the engine that decodes, continues.
void FileStores::store_states(KvSequenceId sequence, BlockChain& chain, Tail tail) {
  const int32_t size = state_.spec.state.block_size;
  const auto end = static_cast<int32_t>(std::ssize(chain.tokens) / size);
  int32_t& num_dealt_with = state_.at(sequence).num_state_tokens;
  if (end * size <= num_dealt_with || is_off()) return;
  const KvHash hash = state_.state(sequence, chain, end * size);
  std::vector<BlockId> pinned;
  if (is_stored(hash)) {
    if (const auto place = state_.index.find(hash)) state_.index.use(place->file);
    num_dealt_with = end * size;
    return;
  }
  if (!pin_block(KvPool::kState, chain, end - 1, pinned)) {
    if (tail == Tail::kWritten) num_dealt_with = end * size;
    return;
  }
  num_dealt_with = end * size;
  const int64_t num_bytes = state_.options.files->file_bytes(KvPool::kState, 1, end * size);
  if (!make_room(num_bytes)) return unpin(state_.host(KvPool::kState), pinned);
  FileJob job = state_.jobs.make(KvPool::kState, sequence, state_.at(sequence).generation, chain,
                                 end - 1, end);
  job.num_bytes = num_bytes;
  job.cells = {hash};
  begin_job(std::move(job), {.run = {.pool = KvPool::kState,
                                     .first_cell = end * size / state_.options.cell_tokens - 1},
                             .prefix = state_.jobs.prefix(chain, end * size),
                             .host_blocks = std::move(pinned)});
}

void FileStores::begin_job(FileJob job, KvStoreJob store) {
  job.is_store = true;
  job.host_blocks = store.host_blocks;
  for (const KvHash& hash : job.cells) being_stored_.insert(as_pair(hash));
  bytes_being_stored_ += job.num_bytes;
  store.run.hashes = job.cells;
  store.id = state_.jobs.begin(std::move(job));
  state_.epochs.hand_on({.store = std::move(store)}, state_.has_untaken_copies());
}

// Pins a block, but leaves half of the host's blocks for content that is loaded.
bool FileStores::pin_block(KvPool pool, BlockChain& chain, int32_t index,
                           std::vector<BlockId>& pinned) {
  HostTier& host = state_.host(pool);
  const size_t before = pinned.size();
  for (const int32_t group : state_.groups_of(pool)) {
    const bool has_room = host.num_unpinned() > host.num_blocks() / 2;
    const auto block =
        has_room ? state_.stores.at(pool).copy_to_host(state_.prefixes.content(chain, group, index))
                 : std::optional<BlockId>();
    if (!block) {
      unpin(host, std::span(pinned).subspan(before));
      pinned.resize(before);
      return false;
    }
    host.pin(*block);
    pinned.push_back(*block);
  }
  return true;
}

bool FileStores::make_room(int64_t num_bytes) {
  std::vector<std::string> victims;
  if (num_bytes > state_.options.capacity_bytes ||
      !state_.index.make_room(num_bytes + bytes_being_stored_, victims))
    return false;
  for (std::string& file : victims) {
    state_.index.erase(file);
    ++state_.totals.removed_files;
    state_.options.files->remove(std::move(file));
  }
  return true;
}

void FileStores::end(const FileJob& job, KvFileEvent& event) {
  unpin(state_.host(job.pool), job.host_blocks);
  for (const KvHash& hash : job.cells) being_stored_.erase(as_pair(hash));
  bytes_being_stored_ -= job.num_bytes;
  state_.totals.store_us += event.took_us;
  if (!event.status.ok()) {
    ++state_.totals.store_failures;
    if (event.status.code() == StatusCode::kResourceExhausted)
      off_until_us_ = state_.now_us + kStoresOffUs;
    return;
  }
  if (job.pool == KvPool::kAttention) state_.totals.stored_blocks += job.num_blocks;
  state_.totals.stored_bytes += event.num_bytes;
  state_.index.add(std::move(event.run));
}

}  // namespace quire
