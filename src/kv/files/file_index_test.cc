#include "kv/files/file_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace quire {
namespace {

KvHash hash_of(uint64_t i) { return {i * 0x9e3779b97f4a7c15u, i}; }

KvRun run_of(const std::string& name, std::vector<uint64_t> blocks, int64_t num_bytes) {
  KvRun run{.file = name, .num_bytes = num_bytes};
  for (const uint64_t block : blocks) run.hashes.push_back(hash_of(block));
  return run;
}

TEST(FileIndex, AScanDisplacesNoFileThatWasUsed) {
  FileIndex index(10);
  std::vector<std::string> victims;
  const auto put = [&](const std::string& name, uint64_t block) {
    victims.clear();
    ASSERT_TRUE(index.make_room(1, victims));
    for (const std::string& victim : victims) index.erase(victim);
    index.add(run_of(name, {block}, 1));
  };
  for (uint64_t i = 0; i < 5; ++i) put("used" + std::to_string(i), i);
  for (uint64_t i = 0; i < 5; ++i) index.use(index.find(hash_of(i))->file);
  for (uint64_t i = 0; i < 1000; ++i) put("scan" + std::to_string(i), 100 + i);
  for (uint64_t i = 0; i < 5; ++i) EXPECT_TRUE(index.contains("used" + std::to_string(i)));
  EXPECT_TRUE(index.contains("scan999"));
  EXPECT_EQ(index.num_bytes(), 10);
}

TEST(FileIndex, PinnedFilesStay) {
  FileIndex index(2);
  index.add(run_of("a", {1}, 1));
  index.add(run_of("b", {2}, 1));
  index.pin(index.find(hash_of(1))->file);
  std::vector<std::string> victims;
  EXPECT_TRUE(index.make_room(1, victims));
  EXPECT_EQ(victims, std::vector<std::string>{"b"});
  victims.clear();
  EXPECT_FALSE(index.make_room(2, victims));
  index.unpin("a");
  victims.clear();
  EXPECT_TRUE(index.make_room(2, victims));
}

TEST(FileIndex, AMillionBlocksTake64BytesEach) {
  FileIndex index(int64_t{1} << 40);
  constexpr uint64_t kRun = 16, kBlocks = 1'000'000;
  for (uint64_t i = 0; i < kBlocks; i += kRun) {
    KvRun run{.file = std::to_string(i), .num_bytes = 1};
    for (uint64_t j = i; j < i + kRun; ++j) run.hashes.push_back(hash_of(j));
    index.add(std::move(run));
  }
  EXPECT_EQ(index.num_cells(), static_cast<int64_t>(kBlocks));
  EXPECT_LE(index.book_bytes(), 64 * static_cast<int64_t>(kBlocks));
}

// Compares with a naive model: files in a map, uses in two lists.
TEST(FileIndex, RandomOperationsAsANaiveModel) {
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 rng(seed);
    const auto pick = [&](int low, int high) {
      return std::uniform_int_distribution<int>(low, high)(rng);
    };
    const int64_t capacity = pick(5, 60);
    FileIndex index(capacity);
    struct Naive {
      std::vector<uint64_t> blocks;
      int64_t num_bytes = 0;
      int order = 0;  // in which files were added
    };
    std::map<std::string, Naive> files;
    std::vector<std::string> probation, protected_files;
    const auto drop = [&](const std::string& name) {
      files.erase(name);
      std::erase(probation, name);
      std::erase(protected_files, name);
    };
    for (int i = 0; i < 1500; ++i) {
      const std::string name = std::to_string(pick(0, 30));
      if (const int what = pick(0, 3); what == 0 && !files.contains(name)) {
        Naive file{.num_bytes = pick(1, 4), .order = i};
        // Blocks belong to one file name only, so that results do not depend on which file came
        // first.
        for (int j = pick(0, 5); j > 0; --j)
          file.blocks.push_back(static_cast<uint64_t>(std::stoi(name) * 10 + j));
        index.add(run_of(name, file.blocks, file.num_bytes));
        files[name] = file;
        probation.push_back(name);
      } else if (what == 1) {
        index.erase(name);
        drop(name);
      } else if (what == 2 && files.contains(name) && !files[name].blocks.empty()) {
        index.use(index.find(hash_of(files[name].blocks[0]))->file);
        std::erase(probation, name);
        std::erase(protected_files, name);
        protected_files.push_back(name);
        int64_t sum = 0;
        for (const std::string& kept : protected_files) sum += files[kept].num_bytes;
        while (sum > static_cast<int64_t>(0.8 * static_cast<double>(capacity)) &&
               protected_files.size() > 1) {
          sum -= files[protected_files.front()].num_bytes;
          probation.push_back(protected_files.front());
          protected_files.erase(protected_files.begin());
        }
      } else if (what == 3) {
        std::vector<std::string> victims, expected;
        const int64_t wanted = pick(0, 5);
        int64_t sum = wanted;
        for (const auto& [key, file] : files) sum += file.num_bytes;
        std::vector<std::string> all = probation;
        all.insert(all.end(), protected_files.begin(), protected_files.end());
        for (const std::string& candidate : all) {
          if (sum <= capacity) break;
          sum -= files[candidate].num_bytes;
          expected.push_back(candidate);
        }
        ASSERT_EQ(index.make_room(wanted, victims), sum <= capacity);
        ASSERT_EQ(victims, expected);
        for (const std::string& victim : victims) {
          index.erase(victim);
          drop(victim);
        }
      }
      int64_t num_bytes = 0, num_blocks = 0;
      for (const auto& [key, file] : files) {
        num_bytes += file.num_bytes;
        num_blocks += std::ssize(file.blocks);
        for (size_t j = 0; j < file.blocks.size(); ++j) {
          const auto place = index.find(hash_of(file.blocks[j]));
          ASSERT_TRUE(place && index.run(place->file).file == key &&
                      place->cell == static_cast<int32_t>(j));
        }
      }
      ASSERT_EQ(index.num_bytes(), num_bytes);
      ASSERT_EQ(index.num_cells(), num_blocks);
      ASSERT_EQ(index.num_files(), std::ssize(files));
    }
  }
}

}  // namespace
}  // namespace quire
