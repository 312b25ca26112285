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

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr KvBlockShape kShape{.block_size = 2, .num_groups = 2, .block_bytes = 3000};
constexpr int32_t kNumHostBlocks = 32;
constexpr KvFingerprint kModel{11, 12};

// Read by io_uring, and by pread.
class KvFileStore : public testing::TestWithParam<bool> {
 protected:
  KvFileStore() : memory_(kNumHostBlocks * static_cast<size_t>(kShape.block_bytes)) {}

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
  std::unique_ptr<KvFiles> start(const KvFingerprint& fingerprint = kModel) {
    return make_kv_file_store(open(fingerprint), kShape, host(),
                              {.rescan_us = 5000, .make_reads = make_reads});
  }
  Result<int64_t> load(const KvDirectory& directory, const KvLoadJob& job,
                       const KvBlockShape& shape = kShape) {
    return directory.load(job, shape, host(), *make_reads());
  }
  HostBlocks host() { return {memory_.data(), kShape.block_bytes, kNumHostBlocks}; }

  void fill(BlockId block, uint32_t seed) {
    std::mt19937 rng(seed);
    for (int64_t i = 0; i < kShape.block_bytes; ++i) byte(block, i) = static_cast<std::byte>(rng());
  }
  bool has(BlockId block, uint32_t seed) {
    std::mt19937 rng(seed);
    for (int64_t i = 0; i < kShape.block_bytes; ++i) {
      if (byte(block, i) != static_cast<std::byte>(rng())) return false;
    }
    return true;
  }
  std::byte& byte(BlockId block, int64_t i) {
    return memory_[static_cast<size_t>(block.value * kShape.block_bytes + i)];
  }

  // A run of two blocks behind one other; host blocks 1 to 4 are filled with its content.
  KvStoreJob store_job(uint32_t which) {
    KvStoreJob job{.id = which,
                   .run = {.first_block = 1, .hashes = {{which, 1}, {which, 2}}},
                   .prefix = {.tokens = {1, 2, 3, 4, 5, static_cast<TokenId>(which)}, .keys = {}}};
    for (int32_t i = 1; i <= 4; ++i) {
      fill(BlockId(i), which * 10 + static_cast<uint32_t>(i));
      job.host_blocks.push_back(BlockId(i));
    }
    return job;
  }
  // Its second block, into host blocks 11 and 12.
  static KvLoadJob load_job(uint32_t which, const std::string& file) {
    return {.id = which,
            .file = file,
            .first_block = 1,
            .first = 1,
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
  }  // what is queued is written before it ends
  EXPECT_EQ(open().hash_seed(), seed);
  const auto files = start();
  const std::vector<KvFileEvent> found = wait_for(*files, 1);
  EXPECT_EQ(found[0].kind, KvFileEvent::Kind::kFound);
  EXPECT_EQ(found[0].run.file, file_of(5));
  EXPECT_EQ(found[0].run.hashes, (std::vector<KvHash>{{5, 1}, {5, 2}}));
  EXPECT_EQ(found[0].run.first_block, 1);
  EXPECT_EQ(found[0].run.num_bytes, files->file_bytes(2, 6));
  files->load(load_job(5, file_of(5)));
  const std::vector<KvFileEvent> loaded = wait_for(*files, 1);
  EXPECT_TRUE(loaded[0].status.ok()) << loaded[0].status.message();
  EXPECT_EQ(loaded[0].num_bytes, 2 * kShape.block_bytes);
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

TEST_P(KvFileStore, FilesOfAnotherModelOrPrefixAreNotRead) {
  const KvDirectory directory = open();
  ASSERT_TRUE(directory.store(store_job(7), kShape, host()).ok());
  const KvDirectory other = open({11, 13});
  EXPECT_TRUE(other.describe(file_of(7))->hashes.empty());
  EXPECT_EQ(load(other, load_job(7, file_of(7))).status().code(), StatusCode::kNotFound);
  const KvBlockShape wider{.block_size = 2, .num_groups = 1, .block_bytes = 6000};
  for (int what = 0; what < 4; ++what) {
    KvLoadJob job = load_job(7, file_of(7));
    if (what == 0) job.prefix.tokens[2] = 99;
    if (what == 1) job.prefix.keys.salt = "tenant";
    if (what == 2) job.first = 2;
    EXPECT_EQ(load(directory, job, what == 3 ? wider : kShape).status().code(),
              StatusCode::kNotFound)
        << what;
  }
  EXPECT_TRUE(load(directory, load_job(7, file_of(7))).ok());
}

TEST_P(KvFileStore, DamageIsAMissAndTheFileGoes) {
  const KvDirectory directory = open();
  std::mt19937 rng(3);
  for (int i = 0; i < 60; ++i) {
    ASSERT_TRUE(directory.store(store_job(8), kShape, host()).ok());
    const fs::path path = dir_ / file_of(8);
    const auto size = static_cast<int64_t>(fs::file_size(path));
    if (i % 3 == 0) {
      fs::resize_file(path, rng() % static_cast<uint64_t>(size));
    } else {
      // The used part of the header, or of the second block.
      const int64_t begin = i % 3 == 1 ? 0 : size - 2 * kShape.block_bytes;
      const int64_t count = i % 3 == 1 ? 176 : 2 * kShape.block_bytes;
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
    EXPECT_EQ(directory.store(store_job(9), kShape, host()).status().code(),
              StatusCode::kResourceExhausted)
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
      for (uint32_t i = 0;; ++i) (void)directory.store(store_job(i % 500), kShape, host());
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
