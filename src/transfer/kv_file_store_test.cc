// Files on a real file system: restarts, sharing, damage, a full disk and writers that are killed.
#include "transfer/kv_file_store.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <thread>

#include "tests/support/temp_folder.h"
#include "transfer/kv_cells.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

// Two groups of one layer each, whose blocks are one cell.
constexpr int32_t kCellTokens = 2;
constexpr int64_t kBlockBytes = 3000;
constexpr KvCellShape kShape{KvPool::kAttention, kCellTokens, 2 * kBlockBytes};
constexpr int32_t kNumHostBlocks = 32;
constexpr KvFingerprint kModel{11, 12, 13};

// The parameter selects reads by io_uring or by pread.
class KvFileStore : public testing::TestWithParam<bool> {
 protected:
  KvFileStore() : memory_(kNumHostBlocks * static_cast<size_t>(kBlockBytes)) {}

  KvDirectory open(const KvFingerprint& fingerprint = kModel) {
    Result<KvDirectory> directory = KvDirectory::open(dir_.string(), fingerprint);
    EXPECT_TRUE(directory.ok()) << directory.status().message();
    return *directory;
  }
  void SetUp() override {
    if (make_reads() == nullptr) GTEST_SKIP() << "no io_uring here";
  }
  static std::unique_ptr<FileReads> make_reads() {
    return GetParam() ? make_uring_reads() : make_pread_reads();
  }
  std::unique_ptr<KvFiles> start(const KvFingerprint& fingerprint = kModel,
                                 int64_t rescan_us = 5000) {
    Result<std::unique_ptr<KvFiles>> files = make_kv_file_store(
        open(fingerprint), host(), kCellTokens,
        {.cell_tokens = kCellTokens, .rescan_us = rescan_us, .make_reads = make_reads});
    EXPECT_TRUE(files.ok()) << files.status().message();
    return *std::move(files);
  }
  KvHostMemory host() {
    KvHostMemory memory;
    HostBlocks blocks{memory_.data(), kBlockBytes, kNumHostBlocks, {}};
    for (int32_t g = 0; g < 2; ++g)
      blocks.strips.push_back({.layer = g, .group = g, .token_bytes = kBlockBytes / kCellTokens});
    memory.at(KvPool::kAttention) = {blocks};
    return memory;
  }
  KvCells cells() { return *KvCells::create(host().at(KvPool::kAttention), 1, kCellTokens); }
  Result<KvRun> store(const KvDirectory& directory, const KvStoreJob& job) {
    const KvCells cells = this->cells();
    std::vector<std::byte> payload(2 * static_cast<size_t>(cells.cell_bytes()));
    for (size_t i = 0; i < 2; ++i)
      cells.gather(std::span(job.host_blocks).subspan(2 * i, 2), 0,
                   payload.data() + static_cast<int64_t>(i) * cells.cell_bytes());
    return directory.store(job.run, job.prefix, kShape, payload);
  }
  Result<int64_t> load(const KvDirectory& directory, const KvLoadJob& job,
                       const KvCellShape& shape = kShape) {
    std::vector<std::byte> buffer;
    return directory.load(
        job.sources.front(), job.prefix, shape, *make_reads(), buffer,
        [&](int32_t, const std::byte* bytes) { cells().scatter(bytes, job.host_blocks, 0); });
  }

  void fill(BlockId block, uint32_t seed) {
    std::mt19937 rng(seed);
    for (int64_t i = 0; i < kBlockBytes; ++i) byte(block, i) = static_cast<std::byte>(rng());
  }
  bool has(BlockId block, uint32_t seed) {
    std::mt19937 rng(seed);
    for (int64_t i = 0; i < kBlockBytes; ++i) {
      if (byte(block, i) != static_cast<std::byte>(rng())) return false;
    }
    return true;
  }
  std::byte& byte(BlockId block, int64_t i) {
    return memory_[static_cast<size_t>(block.value * kBlockBytes + i)];
  }

  // A job that stores a run of two blocks after one other block; host blocks 1 to 4 are filled with
  // its content.
  KvStoreJob store_job(uint32_t which) {
    KvStoreJob job{.id = which,
                   .run = {.first_cell = 1, .hashes = {{which, 1}, {which, 2}}},
                   .prefix = {.tokens = {1, 2, 3, 4, 5, static_cast<TokenId>(which)}, .keys = {}}};
    for (int32_t i = 1; i <= 4; ++i) {
      fill(BlockId(i), which * 10 + static_cast<uint32_t>(i));
      job.host_blocks.push_back(BlockId(i));
    }
    return job;
  }
  // A job that loads the run's second block into host blocks 11 and 12.
  static KvLoadJob load_job(uint32_t which, const std::string& file) {
    return {.id = which,
            .first_cell = 2,
            .sources = {{.file = file, .run_first_cell = 1, .first_in_run = 1, .count = 1}},
            .prefix = {.tokens = {1, 2, 3, 4, 5, static_cast<TokenId>(which)}, .keys = {}},
            .host_blocks = {BlockId(11), BlockId(12)}};
  }
  static std::string file_of(uint32_t which) { return kv_file_name(kModel, {which, 2}, 1); }

  static std::vector<KvFileEvent> wait_for(KvFiles& files, size_t count) {
    std::vector<KvFileEvent> events;
    for (int i = 0; i < 5000 && events.size() < count; ++i) {
      files.poll(events);
      if (events.size() < count) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(events.size(), count);
    return events;
  }

  const test::TempFolder dir_;
  std::vector<std::byte> memory_;
};

TEST_P(KvFileStore, WhatOneProcessWroteAnotherReads) {
  uint64_t seed = 0;
  {
    const auto files = start();
    seed = open().hash_seed();
    files->store(store_job(5));
  }  // writes what is queued before it ends
  EXPECT_EQ(open().hash_seed(), seed);
  const auto files = start();
  const std::vector<KvFileEvent> found = wait_for(*files, 1);
  EXPECT_EQ(found[0].kind, KvFileEvent::Kind::kFound);
  EXPECT_EQ(found[0].run.file, file_of(5));
  EXPECT_EQ(found[0].run.hashes, (std::vector<KvHash>{{5, 1}, {5, 2}}));
  EXPECT_EQ(found[0].run.first_cell, 1);
  EXPECT_EQ(found[0].run.num_bytes, files->file_bytes(KvPool::kAttention, 2, 6));
  files->load(load_job(5, file_of(5)));
  const std::vector<KvFileEvent> loaded = wait_for(*files, 1);
  EXPECT_TRUE(loaded[0].status.ok()) << loaded[0].status.message();
  EXPECT_EQ(loaded[0].num_bytes, 2 * kBlockBytes);
  EXPECT_TRUE(has(BlockId(11), 53));
  EXPECT_TRUE(has(BlockId(12), 54));
}

TEST_P(KvFileStore, TwoProcessesShareADirectory) {
  const auto a = start(), b = start();
  a->store(store_job(6));
  EXPECT_EQ(wait_for(*a, 1)[0].kind, KvFileEvent::Kind::kStored);
  EXPECT_EQ(wait_for(*b, 1)[0].run.file, file_of(6));
  b->load(load_job(6, file_of(6)));
  EXPECT_TRUE(wait_for(*b, 1)[0].status.ok());
  a->remove(file_of(6));
  EXPECT_EQ(wait_for(*b, 1)[0].kind, KvFileEvent::Kind::kGone);
  b->load(load_job(6, file_of(6)));
  EXPECT_EQ(wait_for(*b, 1)[0].status.code(), StatusCode::kNotFound);
}

// The directory is scanned all the time, and so also between the renaming of a file and its report.
TEST_P(KvFileStore, WhatAProcessStoresItDoesNotFind) {
  constexpr uint32_t kNumFiles = 300;
  std::vector<KvStoreJob> jobs;
  for (uint32_t which = 0; which < kNumFiles; ++which) jobs.push_back(store_job(which));
  const auto files = start(kModel, 1);
  for (KvStoreJob& job : jobs) files->store(std::move(job));
  for (const KvFileEvent& event : wait_for(*files, kNumFiles))
    ASSERT_EQ(event.kind, KvFileEvent::Kind::kStored) << event.run.file;
}

TEST_P(KvFileStore, FilesOfAnotherModelOrPrefixAreNotRead) {
  const KvDirectory directory = open();
  ASSERT_TRUE(store(directory, store_job(7)).ok());
  const KvDirectory other = open({11, 12, 14});
  EXPECT_TRUE(other.describe(file_of(7))->hashes.empty());
  EXPECT_EQ(load(other, load_job(7, file_of(7))).status().code(), StatusCode::kNotFound);
  const KvCellShape wider{KvPool::kAttention, kCellTokens, 4 * kBlockBytes};
  for (int what = 0; what < 4; ++what) {
    KvLoadJob job = load_job(7, file_of(7));
    if (what == 0) job.prefix.tokens[2] = 99;
    if (what == 1) job.prefix.keys.salt = "tenant";
    if (what == 2) job.sources[0].first_in_run = 2;
    EXPECT_EQ(load(directory, job, what == 3 ? wider : kShape).status().code(),
              StatusCode::kNotFound)
        << what;
  }
  EXPECT_TRUE(load(directory, load_job(7, file_of(7))).ok());
}

TEST_P(KvFileStore, PoolsSayWhatIsUnlike) {
  const auto files = start();
  EXPECT_TRUE(files->check_file_set(start()->file_set()).ok());
  const auto reason = [&](const KvFingerprint& fingerprint) {
    return std::string(files->check_file_set(start(fingerprint)->file_set()).message());
  };
  EXPECT_EQ(reason({1, 12, 13}), "it is of another model");
  EXPECT_NE(reason({11, 1, 13}).find("--kv-cache-dtype"), std::string::npos);
  EXPECT_NE(reason({11, 12, 1}).find("another build"), std::string::npos);
  std::string file_set = files->file_set();
  file_set[6] = file_set[6] == '1' ? '2' : '1';
  EXPECT_NE(files->check_file_set(file_set).message().find("--kv-cache-dir"), std::string::npos);
  for (const std::string& other : {std::string(), std::string("quire-1"), std::string(73, 'x'),
                                   std::string("quire") + std::string(68, '-')})
    EXPECT_EQ(files->check_file_set(other).code(), StatusCode::kNotFound) << other;
}

TEST_P(KvFileStore, DamageIsAMissAndTheFileGoes) {
  const KvDirectory directory = open();
  std::mt19937 rng(3);
  for (int i = 0; i < 60; ++i) {
    ASSERT_TRUE(store(directory, store_job(8)).ok());
    const fs::path path = dir_ / file_of(8);
    const auto size = static_cast<int64_t>(fs::file_size(path));
    if (i % 3 == 0) {
      fs::resize_file(path, rng() % static_cast<uint64_t>(size));
    } else {
      // Damages the used part of the header, or the second block.
      const int64_t begin = i % 3 == 1 ? 0 : size - 2 * kBlockBytes;
      const int64_t count = i % 3 == 1 ? 168 : 2 * kBlockBytes;
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(begin + static_cast<int64_t>(rng() % static_cast<uint64_t>(count)));
      const auto at = file.tellg();
      const int value = file.get();
      file.seekp(at);
      file.put(static_cast<char>(value ^ static_cast<int>(1 + rng() % 255)));
    }
    EXPECT_EQ(load(directory, load_job(8, file_of(8))).status().code(), StatusCode::kDataLoss);
    EXPECT_FALSE(fs::exists(path));
  }
}

TEST_P(KvFileStore, AFullDiskLeavesNothingBehind) {
  const KvDirectory directory = open();
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto old = ::signal(SIGXFSZ, SIG_IGN);
  for (const rlim_t limit : {rlim_t{0}, rlim_t{100}, rlim_t{5000}, rlim_t{16000}}) {
    const rlimit small{limit, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
    EXPECT_EQ(store(directory, store_job(9)).status().code(), StatusCode::kResourceExhausted)
        << limit;
    ::setrlimit(RLIMIT_FSIZE, &before);
    EXPECT_TRUE(directory.list().empty());
    EXPECT_EQ(std::distance(fs::directory_iterator(dir_.path()), fs::directory_iterator()),
              1);  // the key
  }
  ::signal(SIGXFSZ, old);
}

TEST_P(KvFileStore, AKilledWriterLosesOnlyWhatItWasWriting) {
  (void)open();
  std::mt19937 rng(4);
  size_t num_seen = 0;
  for (int round = 0; round < 12; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      const KvDirectory directory = open();
      for (uint32_t i = 0;; ++i) (void)store(directory, store_job(i % 500));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(2000 + rng() % 20000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const KvDirectory directory = open();
    for (const KvDirectory::Entry& entry : directory.list()) {
      const Result<KvRun> run = directory.describe(entry.file);
      ASSERT_TRUE(run.ok()) << run.status().message();
      const auto which = static_cast<uint32_t>(run->hashes[0].low);
      ASSERT_TRUE(load(directory, load_job(which, entry.file)).ok());
      ASSERT_TRUE(has(BlockId(11), which * 10 + 3) && has(BlockId(12), which * 10 + 4));
      ++num_seen;
    }
  }
  EXPECT_GT(num_seen, 0u);
}

INSTANTIATE_TEST_SUITE_P(Reads, KvFileStore, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "ByUring" : "ByPread");
});

}  // namespace
}  // namespace quire
