// For tests: files of KV that are a map in memory. Work is done some polls later, in any order, and
// fails now and then.
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
  std::vector<std::byte> payload;
};
using MemoryDisk = std::map<std::string, MemoryFile>;

class MemoryKvFiles final : public KvFiles {
 public:
  // Borrows the disk, which outlives it. One thread. `faults`: of ten pieces of work, how many fail.
  MemoryKvFiles(MemoryDisk& disk, const HostBlocks& host, uint32_t seed, uint32_t faults = 1)
      : disk_(disk), host_(host), rng_(seed), faults_(faults) {
    for (const auto& [name, file] : disk)
      events_.push_back({.kind = KvFileEvent::Kind::kFound, .run = file.run});
  }
  void store(KvStoreJob job) override { stores_.push_back(std::move(job)); }
  void load(KvLoadJob job) override { loads_.push_back(std::move(job)); }
  void remove(std::string file) override { disk_.erase(file); }
  std::string pool() const override { return "memory"; }
  Status look_for(std::span<const std::string> files) override {
    for (const std::string& name : files) {
      const auto found = disk_.find(name);
      if (found == disk_.end()) return not_found("{}: no such file", name);
      events_.push_back({.kind = KvFileEvent::Kind::kFound, .run = found->second.run});
    }
    return {};
  }
  int64_t file_bytes(int32_t num_blocks, int32_t) const override { return num_blocks; }
  void poll(std::vector<KvFileEvent>& out) override {
    while (!stores_.empty() && rng_() % 3 == 0) store_one();
    while (!loads_.empty() && rng_() % 3 == 0) load_one();
    for (KvFileEvent& event : events_) out.push_back(std::move(event));
    events_.clear();
  }

 private:
  std::byte* at(BlockId block) const { return host_.data + block.value * host_.block_bytes; }
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
                                   job.run.hashes.back().high, job.run.first_block);
      event.run.num_bytes = job.run.num_blocks();
      MemoryFile file{std::move(job.prefix), event.run, {}};
      for (const BlockId block : job.host_blocks)
        file.payload.insert(file.payload.end(), at(block), at(block) + host_.block_bytes);
      disk_[event.run.file] = std::move(file);
    }
    events_.push_back(std::move(event));
  }
  void load_one() {
    const auto it = loads_.begin() + static_cast<std::ptrdiff_t>(rng_() % loads_.size());
    const KvLoadJob job = std::move(*it);
    loads_.erase(it);
    KvFileEvent event{.kind = KvFileEvent::Kind::kLoaded, .id = job.id, .status = fault()};
    const auto found = disk_.find(job.file);
    if (found == disk_.end()) event.status = not_found("gone");
    if (event.status.ok()) {
      const MemoryFile& file = found->second;
      QUIRE_CHECK(file.prefix.keys == job.prefix.keys &&
                  std::equal(job.prefix.tokens.begin(), job.prefix.tokens.end(),
                             file.prefix.tokens.begin()));
      const auto blocks_of_file =
          std::ssize(file.payload) / (host_.block_bytes * file.run.num_blocks());
      for (size_t i = 0; i < job.host_blocks.size(); ++i) {
        const auto place = (job.first * blocks_of_file + static_cast<int64_t>(i));
        std::memcpy(at(job.host_blocks[i]), file.payload.data() + place * host_.block_bytes,
                    static_cast<size_t>(host_.block_bytes));
      }
    } else {  // something came before it failed
      std::memset(at(job.host_blocks[0]), 0x5a, static_cast<size_t>(host_.block_bytes));
    }
    events_.push_back(std::move(event));
  }

  MemoryDisk& disk_;
  const HostBlocks host_;
  std::mt19937 rng_;
  const uint32_t faults_;
  std::deque<KvStoreJob> stores_;
  std::deque<KvLoadJob> loads_;
  std::vector<KvFileEvent> events_;
};

}  // namespace quire::test
