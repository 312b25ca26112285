// These tests pull from folders of this machine; tests/e2e/test_pull.py pulls from servers.
#include "fetch/pull.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "fetch/sha256.h"
#include "tests/support/temp_folder.h"

namespace quire::fetch {
namespace {

namespace fs = std::filesystem;

std::string hash_of(std::string_view text) {
  Sha256 hash;
  hash.add(text);
  return hash.hex();
}

class PullTest : public ::testing::Test {
 protected:
  PullTest() {
    fs::create_directories(source_ / "small/sub");
    fs::create_directory(source_ / "models");
    std::ofstream(source_ / "small/config.json") << "{}";
    std::ofstream(source_ / "small/sub/weights.safetensors") << "weights";
    std::ofstream(source_ / "m.gguf") << "GGUF and more";
    options_.directory = models();
  }
  std::string models() const { return (source_ / "models").string(); }
  std::string path(const std::string& name) const { return source_.string() + "/" + name; }
  void write_sums(const std::string& text) { std::ofstream(path("small/SHA256SUMS")) << text; }
  // Returns the names in the folder of models, hidden or not.
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(models()))
      found.push_back(entry.path().filename().string());
    return found;
  }
  Result<PulledModel> pull_from(const std::string& source) {
    options_.source = source;
    return pull(options_);
  }

  const test::TempFolder source_;
  PullOptions options_;
};

TEST_F(PullTest, AFolderWithoutChecksums) {
  std::ofstream(path("small/.hidden")) << "x";
  const auto model = pull_from(path("small"));
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->path, models() + "/small");
  EXPECT_EQ(model->files.size(), 2u);
  EXPECT_EQ(model->files[1].sha256, hash_of("weights"));
  EXPECT_TRUE(fs::exists(model->path + "/sub/weights.safetensors"));
  EXPECT_EQ(names(), std::vector<std::string>{"small"});
  EXPECT_FALSE(pull_from(path("small")).ok()) << "nothing tells that it is the same";
}

TEST_F(PullTest, AFolderWithChecksumsIsPulledOnce) {
  write_sums(hash_of("{}") + "  config.json\n");
  options_.name = "mine";
  auto model = pull_from("file://" + path("small"));
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_FALSE(model->was_there);
  EXPECT_TRUE(fs::exists(models() + "/mine/SHA256SUMS"));
  EXPECT_FALSE(fs::exists(models() + "/mine/sub")) << "it is not listed";
  model = pull_from("file://" + path("small"));
  ASSERT_TRUE(model.ok());
  EXPECT_TRUE(model->was_there);
  std::ofstream(models() + "/mine/config.json") << "changed";
  EXPECT_NE(pull_from("file://" + path("small")).status().message().find("something else already"),
            std::string::npos);
}

TEST_F(PullTest, AWrongChecksumLeavesNothing) {
  options_.sha256 = std::string(64, '0');
  const Status status = pull_from(path("m.gguf")).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("what came was deleted"), std::string::npos);
  EXPECT_TRUE(names().empty());
}

TEST_F(PullTest, AFileWithItsChecksum) {
  std::ofstream(path("sums")) << hash_of("GGUF and more") + "  somewhere/m.gguf\n";
  options_.checksums_file = path("sums");
  const auto model = pull_from("file://" + path("m.gguf"));
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(names(), std::vector<std::string>{"m.gguf"});
  EXPECT_EQ(model->files[0].size_bytes, 13u);
}

TEST_F(PullTest, UrlsNeedChecksums) {
  for (const char* const name : {"small", "m.gguf"}) {
    const Status status = pull_from("file://" + path(name)).status();
    EXPECT_NE(status.message().find("--no-checksum"), std::string::npos) << status.message();
  }
  options_.needs_checksum = false;
  EXPECT_TRUE(pull_from("file://" + path("m.gguf")).ok());
}

TEST_F(PullTest, WhatIsNoModel) {
  std::ofstream(path("page.gguf")) << "<html>";
  EXPECT_NE(pull_from(path("page.gguf")).status().message().find("expected a GGUF file"),
            std::string::npos);
  fs::remove(path("small/config.json"));
  EXPECT_NE(pull_from(path("small")).status().message().find("config.json or a .gguf"),
            std::string::npos);
  EXPECT_TRUE(names().empty());
  options_.name = "../outside";
  EXPECT_FALSE(pull_from(path("m.gguf")).ok());
  options_.directory = path("nowhere");
  options_.name = "m";
  EXPECT_EQ(pull_from(path("m.gguf")).status().code(), StatusCode::kNotFound);
}

TEST_F(PullTest, LinksAreNotFollowed) {
  std::ofstream(path("secret")) << "secret";
  fs::create_symlink(path("secret"), path("small/tokenizer.json"));
  EXPECT_NE(pull_from(path("small")).status().message().find("symbolic link"), std::string::npos);
  write_sums(hash_of("{}") + "  config.json\n" + hash_of("secret") + "  tokenizer.json\n");
  EXPECT_NE(pull_from(path("small")).status().message().find("symbolic link"), std::string::npos);
  fs::remove(path("small/tokenizer.json"));
  fs::remove(path("small/SHA256SUMS"));
  fs::create_directory(path("elsewhere"));
  fs::remove_all(models() + "/.small.pull");
  fs::create_directory_symlink(path("elsewhere"), models() + "/.small.pull");
  EXPECT_FALSE(pull_from(path("small")).ok());
  EXPECT_TRUE(fs::is_empty(path("elsewhere")));
}

TEST_F(PullTest, StoppedItKeepsWhatCame) {
  write_sums(hash_of("{}") + "  config.json\n" + hash_of("weights") +
             "  sub/weights.safetensors\n");
  bool is_stopped = false;
  options_.is_stopped = [&] { return is_stopped; };
  options_.on_progress = [&](uint64_t done, uint64_t) { is_stopped = done > 2; };
  EXPECT_EQ(pull_from(path("small")).status().code(), StatusCode::kCancelled);
  EXPECT_EQ(names(), std::vector<std::string>{".small.pull"});
  EXPECT_TRUE(fs::exists(models() + "/.small.pull/files/config.json"));
  is_stopped = false;
  options_.on_progress = {};
  EXPECT_TRUE(pull_from(path("small")).ok());
  EXPECT_EQ(names(), std::vector<std::string>{"small"});
}

TEST_F(PullTest, APinnedListOfChecksums) {
  const std::string sums = hash_of("{}") + "  config.json\n";
  write_sums(sums);
  options_.sha256 = std::string(64, '0');
  EXPECT_EQ(pull_from(path("small")).status().code(), StatusCode::kDataLoss);
  options_.sha256 = hash_of(sums);
  EXPECT_TRUE(pull_from(path("small")).ok());
}

}  // namespace
}  // namespace quire::fetch
