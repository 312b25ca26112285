#include "kv/files/file_tier.h"

#include <utility>

#include "base/check.h"

namespace quire {

FileTier::FileTier(const KvSpec& spec, const KvFileOptions& options, BlockStores& stores,
                   const PrefixLookup& prefixes)
    : state_(spec, options, stores, prefixes), stores_(state_), loads_(state_) {
  QUIRE_CHECK(options.run_blocks >= 1, "runs of {} blocks", options.run_blocks);
  QUIRE_CHECK(spec.block_size % options.cell_tokens == 0, "blocks of {} tokens, cells of {}",
              spec.block_size, options.cell_tokens);
}

void FileTier::open(KvSequenceId sequence) {
  const auto index = static_cast<size_t>(sequence.value);
  if (index >= state_.sequences.size()) state_.sequences.resize(index + 1);
  state_.sequences[index] = {.generation = ++num_generations_};
}

FileTier::Stored FileTier::stored_blocks(KvSequenceId sequence, const BlockChain& chain) {
  const int32_t num_cells = state_.num_blocks(chain) * state_.block_cells();
  Stored stored;
  int32_t i = 0;
  for (; i < num_cells; ++i) {
    const auto place = state_.index.find(state_.cell(sequence, chain, i));
    if (!place) break;
    const std::string& file = state_.index.run(place->file).file;
    if (stored.files.empty() || stored.files.back() != file) stored.files.push_back(file);
  }
  const int32_t num_blocks = i / state_.block_cells();
  stored.is_growing = i < num_cells && stores_.may_come(sequence, chain, num_blocks);
  stored.num_tokens = num_blocks * state_.spec.block_size;
  return stored;
}

FileTier::Stored FileTier::stored(KvSequenceId sequence, const BlockChain& chain) {
  const bool has_attention = !state_.groups_of(KvPool::kAttention).empty();
  Stored stored;
  if (has_attention) {
    stored = stored_blocks(sequence, chain);
  } else {
    stored.num_tokens = static_cast<int32_t>(chain.tokens.size());
  }
  if (!state_.has_states()) return stored;
  const int32_t size = state_.spec.state.block_size;
  const int32_t last = stored.num_tokens / size * size;
  for (stored.num_tokens = last; stored.num_tokens > 0; stored.num_tokens -= size) {
    const auto place = state_.index.find(state_.state(sequence, chain, stored.num_tokens));
    if (!place) continue;
    stored.files.push_back(state_.index.run(place->file).file);
    break;
  }
  if (stored.num_tokens < last) stored.is_growing |= stores_.states_may_come(sequence, chain, last);
  if (stored.num_tokens == 0) stored.files.clear();
  return stored;
}

void FileTier::lease(std::vector<std::string> files, int64_t until_us) {
  for (const std::string& file : files) state_.index.pin(file);
  leases_.push_back({until_us, std::move(files)});
}

void FileTier::forget_copies() {
  for (const uint64_t id : state_.epochs.forget_stores()) {
    KvFileEvent event{.kind = KvFileEvent::Kind::kStored, .id = id};
    event.status = {StatusCode::kCancelled, "the cache was reset"};
    on_event(event);
  }
}

void FileTier::poll(int64_t now_us) {
  state_.now_us = now_us;
  for (; !leases_.empty() && leases_.front().until_us <= now_us; leases_.pop_front()) {
    for (const std::string& file : leases_.front().files) state_.index.unpin(file);
  }
  events_.clear();
  state_.options.files->poll(events_);
  if (events_.empty()) return;
  for (KvFileEvent& event : events_) on_event(event);
  stores_.make_room(0);  // other processes may have written
}

void FileTier::on_event(KvFileEvent& event) {
  if (event.kind == KvFileEvent::Kind::kFound) return state_.index.add(std::move(event.run));
  if (event.kind == KvFileEvent::Kind::kGone) return state_.index.erase(event.run.file);
  const FileJob job = state_.jobs.take(event.id);
  if (job.is_store) {
    stores_.end(job, event);
  } else {
    loads_.end(job, event);
  }
  state_.jobs.release(job);
}

KvFileStats FileTier::stats() const {
  KvFileStats stats = state_.totals;
  stats.num_files = state_.index.num_files();
  stats.num_bytes = state_.index.num_bytes();
  stats.num_blocks = state_.index.num_cells() / state_.block_cells();
  return stats;
}

}  // namespace quire
