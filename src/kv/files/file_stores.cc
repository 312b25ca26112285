#include "kv/files/file_stores.h"

#include <optional>
#include <span>
#include <string>

namespace quire {
namespace {

// After a full disk nothing is written for so long.
constexpr int64_t kStoresOffUs = 30'000'000;

std::pair<uint64_t, uint64_t> as_pair(const KvHash& hash) { return {hash.low, hash.high}; }

void unpin(HostTier& host, std::span<const BlockId> blocks) {
  for (const BlockId block : blocks) host.unpin(block);
}

}  // namespace

bool FileStores::is_stored(const KvHash& hash) const {
  return state_.index.find(hash).has_value() || being_stored_.contains(as_pair(hash));
}

bool FileStores::may_come(KvSequenceId sequence, BlockChain& chain, int32_t index) const {
  const bool is_refused = index < state_.at(sequence).num_stored || is_off();
  return !is_refused || being_stored_.contains(as_pair(state_.jobs.hash(chain, index)));
}

void FileStores::store(KvSequenceId sequence, BlockChain& chain, Tail tail) {
  const auto hash = [&](int32_t index) { return state_.jobs.hash(chain, index); };
  int32_t& num_stored = state_.at(sequence).num_stored;
  const int32_t run_blocks = state_.options.run_blocks;
  const int32_t end = state_.num_blocks(chain);
  const int32_t fewest = tail == Tail::kLeft ? run_blocks : 1;
  if (end - num_stored < fewest || is_off()) return;
  while (true) {
    while (num_stored < end && is_stored(hash(num_stored))) {
      // Who asks again makes a file worth keeping, also where memory had the answer.
      if (const auto place = state_.index.find(hash(num_stored))) state_.index.use(place->file);
      ++num_stored;
    }
    int32_t stop = num_stored;
    while (stop < end && stop - num_stored < run_blocks && !is_stored(hash(stop))) ++stop;
    const int32_t count = stop - num_stored;
    if (count == 0 || (stop == end && count < fewest)) return;
    const int32_t stored = store_run(sequence, chain, num_stored, stop);
    num_stored += stored;
    if (stored == count) continue;
    if (tail == Tail::kWritten) state_.totals.skipped_blocks += count - stored;
    return;
  }
}

// How many of the blocks it has dealt with: those that memory has room for now. The others may be
// asked for again.
int32_t FileStores::store_run(KvSequenceId sequence, BlockChain& chain, int32_t begin,
                              int32_t end) {
  const int32_t block_size = state_.spec.block_size;
  std::vector<BlockId> pinned;
  int32_t stop = begin;
  while (stop < end && pin_block(chain, stop, pinned)) ++stop;
  if (stop == begin) return 0;
  const int64_t num_bytes = state_.options.files->file_bytes(stop - begin, stop * block_size);
  if (!make_room(num_bytes)) {
    unpin(state_.host(), pinned);
    state_.totals.skipped_blocks += stop - begin;
    return stop - begin;
  }
  FileJob job = state_.jobs.make(sequence, state_.at(sequence).generation, chain, begin, stop);
  job.is_store = true;
  job.num_bytes = num_bytes;
  job.host_blocks = pinned;
  for (const KvHash& hash : job.hashes) being_stored_.insert(as_pair(hash));
  bytes_being_stored_ += num_bytes;
  KvStoreJob store{.run = {.first_block = begin, .hashes = job.hashes},
                   .prefix = state_.jobs.prefix(chain, stop * block_size),
                   .host_blocks = std::move(pinned)};
  store.id = state_.jobs.begin(std::move(job));
  state_.epochs.hand_on({.store = std::move(store)}, state_.has_untaken_copies());
  return stop - begin;
}

// Half of the host's blocks is left for what comes back.
bool FileStores::pin_block(BlockChain& chain, int32_t index, std::vector<BlockId>& pinned) {
  HostTier& host = state_.host();
  const size_t before = pinned.size();
  for (int32_t g = 0; g < state_.num_groups(); ++g) {
    const bool has_room = host.num_unpinned() > host.num_blocks() / 2;
    const auto block = has_room
                           ? state_.blocks().copy_to_host(state_.prefixes.content(chain, g, index))
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
  unpin(state_.host(), job.host_blocks);
  for (const KvHash& hash : job.hashes) being_stored_.erase(as_pair(hash));
  bytes_being_stored_ -= job.num_bytes;
  state_.totals.store_us += event.took_us;
  if (!event.status.ok()) {
    ++state_.totals.store_failures;
    if (event.status.code() == StatusCode::kResourceExhausted)
      off_until_us_ = state_.now_us + kStoresOffUs;
    return;
  }
  state_.totals.stored_blocks += job.num_blocks;
  state_.totals.stored_bytes += event.num_bytes;
  event.run.first_block = job.first_block;
  event.run.hashes = job.hashes;
  state_.index.add(std::move(event.run));
}

}  // namespace quire
