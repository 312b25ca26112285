// For tests: KV files as a map in memory. Jobs are done some polls later, in any order, and
// sometimes fail.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "core/kv_files.h"

namespace quire::test {

struct MemoryFile {
  KvPrefix prefix;
  KvRun run;
  std::vector<std::byte> payload;  // [cells]
};
using MemoryDisk = std::map<std::string, MemoryFile>;

class MemoryKvFiles final : public KvFiles {
 public:
  // Borrows the disk, which outlives it. Only for blocks of KvPool::kAttention that have one part,
  // with `block_cells` consecutive cells. One thread. `faults`: of ten jobs, how many fail.
  MemoryKvFiles(MemoryDisk& disk, const KvHostMemory& memory, int32_t block_cells, uint32_t seed,
                uint32_t faults = 1)
      : disk_(disk),
        host_(memory.at(KvPool::kAttention).front()),
        block_cells_(block_cells),
        rng_(seed),
        faults_(faults) {
    for (const auto& [name, file] : disk)
      events_.push_back({.kind = KvFileEvent::Kind::kFound, .run = file.run});
  }
  void store(KvStoreJob job) override { stores_.push_back(std::move(job)); }
  void load(KvLoadJob job) override { loads_.push_back(std::move(job)); }
  void remove(std::string file) override { disk_.erase(file); }
  std::string file_set() const override { return "memory"; }
  Status check_file_set(const std::string& file_set) const override {
    return file_set == "memory" ? Status() : not_found("another set");
  }
  Status look_for(std::span<const std::string> files) override {
    for (const std::string& name : files) {
      const auto found = disk_.find(name);
      if (found == disk_.end()) return not_found("{}: no such file", name);
      events_.push_back({.kind = KvFileEvent::Kind::kFound, .run = found->second.run});
    }
    return {};
  }
  int64_t file_bytes(KvPool, int32_t num_cells, int32_t) const override {
    return num_cells / block_cells_;
  }
  void poll(std::vector<KvFileEvent>& out) override {
    while (!stores_.empty() && rng_() % 3 == 0) store_one();
    while (!loads_.empty() && rng_() % 3 == 0) load_one();
    for (KvFileEvent& event : events_) out.push_back(std::move(event));
    events_.clear();
  }

 private:
  int64_t cell_bytes() const { return host_.block_bytes / block_cells_; }
  // Returns cell `i` of a job's blocks, of group `g`.
  std::byte* at(const std::vector<BlockId>& blocks, int32_t i, int32_t g,
                int32_t num_groups) const {
    const BlockId block = blocks[static_cast<size_t>(i / block_cells_ * num_groups + g)];
    return host_.data + block.value * host_.block_bytes + i % block_cells_ * cell_bytes();
  }
  Status fault() {
    return rng_() % 10 < faults_ ? Status(StatusCode::kDataLoss, "injected") : Status();
  }
  void store_one() {
    KvStoreJob job = std::move(stores_.front());
    stores_.pop_front();
    KvFileEvent event{.kind = KvFileEvent::Kind::kStored, .id = job.id, .status = fault()};
    if (event.status.ok()) {
      event.run = job.run;
      event.run.file = fmt::format("{}-{}-{}", job.run.hashes.back().low,
                                   job.run.hashes.back().high, job.run.first_cell);
      event.run.num_bytes = job.run.num_cells() / block_cells_;
      MemoryFile file{std::move(job.prefix), event.run, {}};
      const int32_t num_groups = groups_of(job.host_blocks, job.run.num_cells());
      for (int32_t i = 0; i < job.run.num_cells(); ++i) {
        for (int32_t g = 0; g < num_groups; ++g) {
          const std::byte* const cell = at(job.host_blocks, i, g, num_groups);
          file.payload.insert(file.payload.end(), cell, cell + cell_bytes());
        }
      }
      disk_[event.run.file] = std::move(file);
    }
    events_.push_back(std::move(event));
  }
  void load_one() {
    const auto it = loads_.begin() + static_cast<std::ptrdiff_t>(rng_() % loads_.size());
    const KvLoadJob job = std::move(*it);
    loads_.erase(it);
    KvFileEvent event{.kind = KvFileEvent::Kind::kLoaded, .id = job.id, .status = fault()};
    event.run.file = job.sources.front().file;
    for (const KvSource& source : job.sources) {
      if (event.status.ok()) event.status = read(job, source);
      if (event.status.ok()) continue;
      event.run.file = source.file;
      // A part was read before the job failed.
      std::memset(at(job.host_blocks, 0, 0, 1), 0x5a, static_cast<size_t>(cell_bytes()));
      break;
    }
    events_.push_back(std::move(event));
  }
  Status read(const KvLoadJob& job, const KvSource& source) {
    const auto found = disk_.find(source.file);
    if (found == disk_.end()) return not_found("gone");
    const MemoryFile& file = found->second;
    const auto cell_tokens = static_cast<int64_t>(std::ssize(file.prefix.tokens) /
                                                  (file.run.first_cell + file.run.num_cells()));
    const int64_t num_tokens =
        (source.run_first_cell + source.first_in_run + source.count) * cell_tokens;
    QUIRE_CHECK(file.prefix.keys == job.prefix.keys &&
                file.run.first_cell == source.run_first_cell &&
                std::equal(job.prefix.tokens.begin(), job.prefix.tokens.begin() + num_tokens,
                           file.prefix.tokens.begin()));
    const auto num_groups =
        static_cast<int32_t>(std::ssize(file.payload) / (cell_bytes() * file.run.num_cells()));
    for (int32_t i = 0; i < source.count; ++i) {
      const int32_t to = source.run_first_cell + source.first_in_run + i - job.first_cell;
      for (int32_t g = 0; g < num_groups; ++g) {
        const std::byte* const from =
            file.payload.data() + ((source.first_in_run + i) * num_groups + g) * cell_bytes();
        std::memcpy(at(job.host_blocks, to, g, num_groups), from,
                    static_cast<size_t>(cell_bytes()));
      }
    }
    return {};
  }
  int32_t groups_of(const std::vector<BlockId>& blocks, int32_t num_cells) const {
    return static_cast<int32_t>(std::ssize(blocks)) * block_cells_ / num_cells;
  }

  MemoryDisk& disk_;
  const HostBlocks host_;
  const int32_t block_cells_;
  std::mt19937 rng_;
  const uint32_t faults_;
  std::deque<KvStoreJob> stores_;
  std::deque<KvLoadJob> loads_;
  std::vector<KvFileEvent> events_;
};

}  // namespace quire::test
