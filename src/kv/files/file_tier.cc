#include "kv/files/file_tier.h"

#include <algorithm>

#include "base/check.h"

namespace quire {
namespace {

// A prefix that does not come in so many goes, because memory for it is short, is computed.
constexpr int32_t kMostLoads = 8;
// After a full disk nothing is written for so long.
constexpr int64_t kStoresOffUs = 30'000'000;
constexpr double kReadLatencyUs = 1000;

std::pair<uint64_t, uint64_t> as_pair(const KvHash& hash) { return {hash.low, hash.high}; }
BlockHash as_block_hash(const KvHash& hash) { return {hash.low, hash.high}; }

KvPrefix prefix_of(const BlockChain& chain, int32_t num_tokens, const CacheKeyTable& keys) {
  const std::span<const TokenId> tokens = chain.tokens.first(static_cast<size_t>(num_tokens));
  return {{tokens.begin(), tokens.end()}, keys.keys(chain.keys.first)};
}

void unpin(HostTier& host, const std::vector<BlockId>& blocks) {
  for (const BlockId block : blocks) host.unpin(block);
}

}  // namespace

FileTier::FileTier(const KvSpec& spec, const KvFileOptions& options, BlockStores& stores,
                   const PrefixLookup& prefixes)
    : spec_(spec),
      options_(options),
      stores_(stores),
      prefixes_(prefixes),
      index_(options.capacity_bytes) {
  QUIRE_CHECK(options.files != nullptr && options.run_blocks >= 1, "a file tier without files");
}

void FileTier::open(KvSequenceId sequence) {
  const auto index = static_cast<size_t>(sequence.value);
  if (index >= sequences_.size()) sequences_.resize(index + 1);
  sequences_[index] = {.generation = ++num_generations_};
}

// --- Blocks of a chain ---

KvHash FileTier::hash(BlockChain& chain, int32_t index) const {
  const BlockHash hash = prefixes_.content(chain, 0, index).hash;
  return {hash.low, hash.high};
}

FileTier::Job FileTier::new_job(KvSequenceId sequence, BlockChain& chain, int32_t begin,
                                int32_t end) const {
  const auto size = static_cast<size_t>(spec_.block_size);
  const auto first = static_cast<size_t>(begin);
  const auto count = static_cast<size_t>(end - begin);
  const std::span<const TokenId> tokens = chain.tokens.subspan(first * size, count * size);
  Job job{.sequence = sequence,
          .generation = sequences_[static_cast<size_t>(sequence.value)].generation,
          .keys = chain.keys.first,
          .parent = prefixes_.content(chain, 0, begin).parent,
          .first_block = begin,
          .num_blocks = end - begin,
          .tokens = {tokens.begin(), tokens.end()}};
  for (int32_t i = begin; i < end; ++i) job.hashes.push_back(hash(chain, i));
  return job;
}

uint64_t FileTier::begin_job(Job job) {
  stores_.keys().acquire(job.keys);
  jobs_.emplace(++num_jobs_, std::move(job));
  return num_jobs_;
}

BlockContent FileTier::content(const Job& job, int32_t index, int32_t group) const {
  const auto i = static_cast<size_t>(index);
  const auto size = static_cast<size_t>(spec_.block_size);
  return {.group = group,
          .keys = job.keys,
          .hash = as_block_hash(job.hashes[i]),
          .parent = i == 0 ? job.parent : as_block_hash(job.hashes[i - 1]),
          .tokens = std::span(job.tokens).subspan(i * size, size)};
}

// --- Writing ---

bool FileTier::is_stored(const KvHash& hash) const {
  return index_.find(hash).has_value() || being_stored_.contains(as_pair(hash));
}

void FileTier::store(KvSequenceId sequence, BlockChain& chain, Tail tail) {
  int32_t& num_stored = sequences_[static_cast<size_t>(sequence.value)].num_stored;
  const auto end =
      static_cast<int32_t>(chain.tokens.size() / static_cast<size_t>(spec_.block_size));
  const int32_t fewest = tail == Tail::kLeft ? options_.run_blocks : 1;
  if (end - num_stored < fewest || now_us_ < stores_off_until_us_) return;
  while (true) {
    while (num_stored < end && is_stored(hash(chain, num_stored))) {
      // Who asks again makes a file worth keeping, also where memory had the answer.
      if (const auto place = index_.find(hash(chain, num_stored))) index_.use(place->file);
      ++num_stored;
    }
    int32_t stop = num_stored;
    while (stop < end && stop - num_stored < options_.run_blocks && !is_stored(hash(chain, stop)))
      ++stop;
    const int32_t count = stop - num_stored;
    if (count == 0 || (stop == end && count < fewest)) return;
    const int32_t stored = store_run(sequence, chain, num_stored, stop);
    num_stored += stored;
    if (stored == count) continue;
    if (tail == Tail::kWritten) totals_.skipped_blocks += count - stored;
    return;
  }
}

FileTier::Stored FileTier::stored(KvSequenceId sequence, BlockChain& chain) const {
  const auto end =
      static_cast<int32_t>(chain.tokens.size() / static_cast<size_t>(spec_.block_size));
  Stored stored;
  for (; stored.num_blocks < end; ++stored.num_blocks) {
    const KvHash next = hash(chain, stored.num_blocks);
    const auto place = index_.find(next);
    if (!place) {
      const bool is_refused =
          stored.num_blocks < sequences_[static_cast<size_t>(sequence.value)].num_stored ||
          now_us_ < stores_off_until_us_;
      stored.is_growing = !is_refused || being_stored_.contains(as_pair(next));
      break;
    }
    const std::string& file = index_.run(place->file).file;
    if (stored.files.empty() || stored.files.back() != file) stored.files.push_back(file);
  }
  return stored;
}

void FileTier::lease(std::vector<std::string> files, int64_t until_us) {
  for (const std::string& file : files) index_.pin(file);
  leases_.push_back({until_us, std::move(files)});
}

// How many of the blocks it has dealt with: those that memory has room for now. The others may be
// asked for again.
int32_t FileTier::store_run(KvSequenceId sequence, BlockChain& chain, int32_t begin, int32_t end) {
  std::vector<BlockId> pinned;
  int32_t stop = begin;
  while (stop < end && pin_block(chain, stop, pinned)) ++stop;
  if (stop == begin) return 0;
  const int64_t num_bytes = options_.files->file_bytes(stop - begin, stop * spec_.block_size);
  if (!make_room(num_bytes)) {
    unpin(host(), pinned);
    totals_.skipped_blocks += stop - begin;
    return stop - begin;
  }
  Job job = new_job(sequence, chain, begin, stop);
  job.is_store = true;
  job.num_bytes = num_bytes;
  job.host_blocks = pinned;
  for (const KvHash& hash : job.hashes) being_stored_.insert(as_pair(hash));
  bytes_being_stored_ += num_bytes;
  KvStoreJob store{.run = {.first_block = begin, .hashes = job.hashes},
                   .prefix = prefix_of(chain, stop * spec_.block_size, stores_.keys()),
                   .host_blocks = std::move(pinned)};
  store.id = begin_job(std::move(job));
  hand_on({.store = std::move(store)});
  return stop - begin;
}

// Half of the host's blocks is left for what comes back.
bool FileTier::pin_block(BlockChain& chain, int32_t index, std::vector<BlockId>& pinned) {
  const size_t before = pinned.size();
  for (int32_t g = 0; g < static_cast<int32_t>(spec_.groups.size()); ++g) {
    const bool has_room = host().num_unpinned() > host().num_blocks() / 2;
    const auto block = has_room ? blocks().copy_to_host(prefixes_.content(chain, g, index))
                                : std::optional<BlockId>();
    if (!block) {
      unpin(host(), {pinned.begin() + static_cast<std::ptrdiff_t>(before), pinned.end()});
      pinned.resize(before);
      return false;
    }
    host().pin(*block);
    pinned.push_back(*block);
  }
  return true;
}

bool FileTier::make_room(int64_t num_bytes) {
  std::vector<std::string> victims;
  if (num_bytes > options_.capacity_bytes ||
      !index_.make_room(num_bytes + bytes_being_stored_, victims))
    return false;
  for (std::string& file : victims) {
    index_.erase(file);
    ++totals_.removed_files;
    options_.files->remove(std::move(file));
  }
  return true;
}

// --- Reading ---

int32_t FileTier::num_in_files(BlockChain& chain, int32_t begin) const {
  const auto end =
      static_cast<int32_t>(chain.tokens.size() / static_cast<size_t>(spec_.block_size));
  int32_t stop = begin;
  while (stop < end && index_.find(hash(chain, stop))) ++stop;
  return stop - begin;
}

bool FileTier::reading_pays(int32_t num_cached_blocks, int32_t num_blocks) const {
  if (!options_.compute_us) return true;
  const double bytes = static_cast<double>(num_blocks) * static_cast<double>(spec_.groups.size()) *
                       static_cast<double>(spec_.block_bytes);
  return kReadLatencyUs + bytes / bytes_per_us_ <
         options_.compute_us(num_cached_blocks * spec_.block_size, num_blocks * spec_.block_size);
}

bool FileTier::load(KvSequenceId sequence, BlockChain& chain, int32_t begin) {
  Sequence& state = sequences_[static_cast<size_t>(sequence.value)];
  if (state.num_jobs > 0) return true;
  if (!state.has_asked)
    totals_.queried_tokens += std::ssize(chain.tokens) - int64_t{begin} * spec_.block_size;
  state.has_asked = true;
  const int32_t count = num_in_files(chain, begin);
  if (count == 0 || state.num_loads == kMostLoads || !reading_pays(begin, count)) return false;
  ++state.num_loads;
  for (int32_t i = begin; i < begin + count;) {
    const int32_t num_blocks = load_from_file(sequence, chain, i, begin + count);
    if (num_blocks == 0) break;
    i += num_blocks;
  }
  return state.num_jobs > 0;
}

bool FileTier::reserve_block(std::vector<BlockId>& reserved) {
  const size_t before = reserved.size();
  for (size_t g = 0; g < spec_.groups.size(); ++g) {
    const auto block = host().reserve();
    if (!block) {
      for (; reserved.size() > before; reserved.pop_back()) host().drop(reserved.back());
      return false;
    }
    reserved.push_back(*block);
  }
  return true;
}

// Reads what the file of block `begin` has of [begin, end), as far as memory has room: how many
// blocks those are.
int32_t FileTier::load_from_file(KvSequenceId sequence, BlockChain& chain, int32_t begin,
                                 int32_t end) {
  const FileIndex::Place place = *index_.find(hash(chain, begin));
  const KvRun& run = index_.run(place.file);
  std::vector<BlockId> reserved;
  int32_t stop = begin;
  while (stop < end && place.block + stop - begin < run.num_blocks() &&
         run.hashes[static_cast<size_t>(place.block + stop - begin)] == hash(chain, stop) &&
         reserve_block(reserved)) {
    ++stop;
  }
  if (stop == begin) return 0;
  Job job = new_job(sequence, chain, begin, stop);
  job.file = run.file;
  job.host_blocks = reserved;
  KvLoadJob load{.file = run.file,
                 .first_block = run.first_block,
                 .first = place.block,
                 .prefix = prefix_of(chain, stop * spec_.block_size, stores_.keys()),
                 .host_blocks = std::move(reserved)};
  index_.pin(place.file);
  index_.use(place.file);
  ++sequences_[static_cast<size_t>(sequence.value)].num_jobs;
  load.id = begin_job(std::move(job));
  hand_on({.load = std::move(load)});
  return stop - begin;
}

// --- Steps ---

void FileTier::hand_on(Waiting waiting) {
  waiting.epoch = epoch_ + (has_untaken_copies() ? 1 : 0);
  if (waiting.epoch <= done_epoch_) {
    dispatch(waiting);
  } else {
    waiting_.push_back(std::move(waiting));
  }
}

void FileTier::dispatch(Waiting& waiting) {
  if (waiting.store) options_.files->store(std::move(*waiting.store));
  if (waiting.load) options_.files->load(std::move(*waiting.load));
}

void FileTier::on_copies_taken(uint64_t step_id) { steps_.emplace_back(step_id, ++epoch_); }

void FileTier::on_step_done(uint64_t step_id) {
  while (!steps_.empty() && steps_.front().first <= step_id) {
    done_epoch_ = steps_.front().second;
    steps_.pop_front();
  }
  while (!waiting_.empty() && waiting_.front().epoch <= done_epoch_) {
    dispatch(waiting_.front());
    waiting_.pop_front();
  }
}

void FileTier::forget_copies() {
  std::deque<Waiting> kept;
  for (Waiting& waiting : waiting_) {
    if (!waiting.store) {
      kept.push_back(std::move(waiting));
      continue;
    }
    KvFileEvent event{.kind = KvFileEvent::Kind::kStored, .id = waiting.store->id};
    event.status = {StatusCode::kCancelled, "the cache was reset"};
    on_event(event);
  }
  waiting_ = std::move(kept);
}

// --- What came of it ---

void FileTier::poll(int64_t now_us) {
  now_us_ = now_us;
  for (; !leases_.empty() && leases_.front().until_us <= now_us; leases_.pop_front()) {
    for (const std::string& file : leases_.front().files) index_.unpin(file);
  }
  events_.clear();
  options_.files->poll(events_);
  if (events_.empty()) return;
  for (KvFileEvent& event : events_) on_event(event);
  make_room(0);  // others may have written
}

void FileTier::on_event(KvFileEvent& event) {
  if (event.kind == KvFileEvent::Kind::kFound) return index_.add(std::move(event.run));
  if (event.kind == KvFileEvent::Kind::kGone) return index_.erase(event.run.file);
  const auto found = jobs_.find(event.id);
  QUIRE_CHECK(found != jobs_.end(), "an answer to job {}, which nobody gave", event.id);
  const Job job = std::move(found->second);
  jobs_.erase(found);
  if (job.is_store) {
    end_store(job, event);
  } else {
    end_load(job, event);
  }
  stores_.keys().release(job.keys);
}

void FileTier::end_store(const Job& job, KvFileEvent& event) {
  unpin(host(), job.host_blocks);
  for (const KvHash& hash : job.hashes) being_stored_.erase(as_pair(hash));
  bytes_being_stored_ -= job.num_bytes;
  totals_.store_us += event.took_us;
  if (!event.status.ok()) {
    ++totals_.store_failures;
    if (event.status.code() == StatusCode::kResourceExhausted)
      stores_off_until_us_ = now_us_ + kStoresOffUs;
    return;
  }
  totals_.stored_blocks += job.num_blocks;
  totals_.stored_bytes += event.num_bytes;
  event.run.first_block = job.first_block;
  event.run.hashes = job.hashes;
  index_.add(std::move(event.run));
}

void FileTier::end_load(const Job& job, const KvFileEvent& event) {
  Sequence& state = sequences_[static_cast<size_t>(job.sequence.value)];
  if (state.generation == job.generation) --state.num_jobs;
  index_.unpin(job.file);
  totals_.load_us += event.took_us;
  if (!event.status.ok()) {
    ++totals_.load_failures;
    index_.erase(job.file);
    for (const BlockId block : job.host_blocks) host().drop(block);
    return;
  }
  const CacheKeys& keys = stores_.keys().keys(job.keys);
  const auto num_groups = static_cast<int32_t>(spec_.groups.size());
  for (int32_t i = 0; i < job.num_blocks; ++i) {
    for (int32_t g = 0; g < num_groups; ++g)
      host().fill(job.host_blocks[static_cast<size_t>(i * num_groups + g)], content(job, i, g),
                  keys);
  }
  totals_.loaded_blocks += job.num_blocks;
  totals_.loaded_bytes += event.num_bytes;
  totals_.hit_tokens += int64_t{job.num_blocks} * spec_.block_size;
  constexpr double kNewShare = 0.2;
  if (event.took_us > 0 && event.num_bytes > 0) {
    const double measured =
        static_cast<double>(event.num_bytes) / static_cast<double>(event.took_us);
    bytes_per_us_ += kNewShare * (measured - bytes_per_us_);
  }
}

KvFileStats FileTier::stats() const {
  KvFileStats stats = totals_;
  stats.num_files = index_.num_files();
  stats.num_bytes = index_.num_bytes();
  stats.num_blocks = index_.num_blocks();
  return stats;
}

}  // namespace quire
