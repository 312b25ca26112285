// Packed weights in a cache on disk: the logits are the same from the cache, and a stale, damaged
// or truncated cache does no harm.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "exec/testing/golden_support.h"
#include "tests/support/temp_folder.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

class WeightCache : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(root_ / "model");
    for (const auto& entry : fs::directory_iterator(test::golden_dir("packed_mixed_llama"))) {
      fs::copy(entry.path(), root_ / "model");
    }
  }

  // Returns the logits of a prompt, with weights from the cache or straight from the checkpoint.
  test::LogitsByPosition logits(bool cached, const char* dtype = "float32") {
    auto files = ModelFiles::open((root_ / "model").string());
    QUIRE_CHECK(files.ok());
    test::LogitsByPosition seen;
    ModelRunnerOptions options;
    options.files = std::make_shared<const ModelFiles>(std::move(*files));
    options.dtype = dtype;
    options.threads = 2;
    options.pin_threads = false;
    options.kv_cache_memory_bytes = int64_t{16} << 20;
    if (cached) options.weight_cache_dir = (root_ / "cache").string();
    options.on_logits = [&seen](RequestId, int32_t position, std::span<const float> row) {
      seen[position].assign(row.begin(), row.end());
    };
    auto runner = ModelRunner::create(options);
    QUIRE_CHECK(runner.ok(), "{}", runner.status().message());
    QUIRE_CHECK((*runner)->initialize({.num_blocks = test::kGoldenBlocks}).ok());
    const auto golden = test::read_golden(test::golden_dir("packed_mixed_llama"));
    test::PlanDriver driver(**runner, test::kGoldenBlocks);
    driver.run({test::greedy_request(golden.prompt, 4)}, {});
    return seen;
  }

  std::vector<fs::path> cache_files() const {
    std::vector<fs::path> paths;
    for (const auto& entry : fs::directory_iterator(root_ / "cache")) paths.push_back(entry.path());
    return paths;
  }

  const test::TempFolder root_;
};

TEST_F(WeightCache, SecondStartUsesIt) {
  const auto want = logits(false);
  EXPECT_EQ(logits(true), want);
  ASSERT_EQ(cache_files().size(), 1u);
  const auto written = fs::last_write_time(cache_files()[0]);
  EXPECT_EQ(logits(true), want);
  EXPECT_EQ(fs::last_write_time(cache_files()[0]), written) << "mapped, not written anew";
}

TEST_F(WeightCache, OtherTypesAndOtherFilesAreOtherEntries) {
  logits(true);
  logits(true, "bfloat16");
  EXPECT_EQ(cache_files().size(), 2u);
  const auto model = root_ / "model" / "model.safetensors";
  fs::last_write_time(model, fs::last_write_time(model) + std::chrono::seconds(5));
  logits(true);
  EXPECT_EQ(cache_files().size(), 3u) << "the checkpoint may have changed";
}

TEST_F(WeightCache, DamageIsSeenAndMended) {
  const auto want = logits(true);
  const fs::path file = cache_files()[0];
  const auto size = static_cast<int64_t>(fs::file_size(file));
  for (const int64_t at : {int64_t{0}, int64_t{12}, int64_t{4096}, size / 2, size - 1}) {
    {
      std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
      bytes.seekg(at);
      const char byte = static_cast<char>(bytes.get() ^ 0x20);
      bytes.seekp(at);
      bytes.put(byte);
    }
    EXPECT_EQ(logits(true), want) << "byte " << at;
  }
  fs::resize_file(file, static_cast<uintmax_t>(size - 64));
  EXPECT_EQ(logits(true), want);
  fs::resize_file(file, 10);
  EXPECT_EQ(logits(true), want);
  EXPECT_EQ(static_cast<int64_t>(fs::file_size(file)), size) << "written anew";
}

TEST_F(WeightCache, LoadsAtOnceDoNotWriteOneFile) {
  const auto want = logits(false);
  std::vector<std::thread> loads;
  for (int i = 0; i < 4; ++i) loads.emplace_back([&] { EXPECT_EQ(logits(true), want); });
  for (std::thread& load : loads) load.join();
  ASSERT_EQ(cache_files().size(), 1u) << "partial files are gone";
  const auto written = fs::last_write_time(cache_files()[0]);
  EXPECT_EQ(logits(true), want);
  EXPECT_EQ(fs::last_write_time(cache_files()[0]), written) << "it was whole";
}

TEST_F(WeightCache, AFolderThatCannotBeWrittenCostsNothing) {
  std::ofstream(root_ / "cache") << "a file where the folder should be";
  EXPECT_EQ(logits(true), logits(false));
}

}  // namespace
}  // namespace quire
