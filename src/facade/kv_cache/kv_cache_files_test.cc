#include "facade/kv_cache/kv_cache_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "tests/support/temp_folder.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

class KeptDigest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(model_ / "model");
    std::ofstream(model_ / "model" / "config.json") << R"({"model_type":"llama"})";
  }

  uint64_t fingerprint(const std::string& dir) const {
    const auto files = ModelFiles::open((model_ / "model").string());
    EXPECT_TRUE(files.ok()) << files.status().message();
    const auto found =
        kv_fingerprint({.dir = dir, .files = &*files, .isa = "portable"}, ModelPlan());
    EXPECT_TRUE(found.ok()) << found.status().message();
    return found->model;
  }
  static std::vector<fs::path> files_in(const fs::path& dir) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(dir)) files.push_back(entry.path());
    return files;
  }

  const test::TempFolder model_;
  const test::TempFolder cache_;
};

TEST_F(KeptDigest, IsReadByTheNextStart) {
  const fs::path dir = cache_ / "kv";
  const uint64_t first = fingerprint(dir.string());
  const std::vector<fs::path> kept = files_in(dir);
  ASSERT_EQ(kept.size(), 1u) << "and nothing else is left";
  EXPECT_EQ(fingerprint(dir.string()), first);
  std::ofstream(kept[0]) << "0123456789abcdef\n";
  EXPECT_NE(fingerprint(dir.string()), first) << "it was not read";
}

TEST_F(KeptDigest, IsComputedAgainIfItIsNotWhole) {
  const fs::path dir = cache_ / "kv";
  const uint64_t first = fingerprint(dir.string());
  const std::vector<fs::path> kept = files_in(dir);
  ASSERT_EQ(kept.size(), 1u);
  for (const char* damaged :
       {"", "1234567", "123456789abcdef\n", "0123456789abcdeg\n", "-1\n", "0123456789abcdef0\n"}) {
    std::ofstream(kept[0]) << damaged;
    EXPECT_EQ(fingerprint(dir.string()), first) << damaged;
  }
}

// The folder holds what prompts say.
TEST_F(KeptDigest, LeavesTheFolderToItsOwner) {
  const fs::path dir = cache_ / "kv";
  fingerprint(dir.string());
  EXPECT_EQ(fs::status(dir).permissions(), fs::perms::owner_all);
}

TEST_F(KeptDigest, MayBeNowhere) {
  std::ofstream(cache_ / "file") << "no folder";
  const uint64_t first = fingerprint((cache_ / "kv").string());
  EXPECT_EQ(fingerprint((cache_ / "file" / "kv").string()), first);
}

}  // namespace
}  // namespace quire
