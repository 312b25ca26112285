#include "server/models/models_dir.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_folder.h"

namespace quire::server {
namespace {

namespace fs = std::filesystem;

class ModelsDirTest : public ::testing::Test {
 protected:
  void file(const std::string& path, size_t bytes = 1) {
    fs::create_directories((dir_ / path).parent_path());
    std::ofstream(dir_ / path) << std::string(bytes, 'x');
  }
  const test::TempFolder dir_;
};

TEST_F(ModelsDirTest, FoldersAndFilesAreModelsByName) {
  file("b/config.json");
  file("b/model-1.safetensors", 10);
  file("b/model-2.safetensors", 20);
  file("a.gguf", 5);
  file("c/weights.gguf", 7);
  file("big-00002-of-00003.gguf", 2);
  file("big-00001-of-00003.gguf", 1);
  file("big-00003-of-00003.gguf", 4);
  file("notes.txt");
  file("empty/readme.md");
  file(".cache/config.json");
  const auto found = find_models(dir_.string());
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->size(), 4u);
  const std::pair<const char*, int64_t> expected[] = {{"a", 5}, {"b", 30}, {"big", 7}, {"c", 7}};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ((*found)[i].name, expected[i].first);
    EXPECT_EQ((*found)[i].file_bytes, expected[i].second);
  }
  EXPECT_TRUE((*found)[2].path.ends_with("big-00001-of-00003.gguf"));
}

TEST_F(ModelsDirTest, OneNameForTwoModelsIsAnError) {
  file("a/config.json");
  file("a.gguf");
  const auto found = find_models(dir_.string());
  EXPECT_EQ(found.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(found.status().message().find("one model of each name"), std::string::npos);
  EXPECT_EQ(find_models((dir_ / "none").string()).status().code(), StatusCode::kInvalidArgument);
}

TEST(ModelAliases, NameAndModel) {
  const auto aliases = parse_aliases({"gpt-4o=llama", "x=a=b"});
  ASSERT_TRUE(aliases.ok());
  EXPECT_EQ(aliases->at("gpt-4o"), "llama");
  EXPECT_EQ(aliases->at("x"), "a=b");
  for (const char* const text : {"a", "=b", "a=", ""})
    EXPECT_FALSE(parse_aliases({text}).ok()) << text;
  EXPECT_FALSE(parse_aliases({"a=b", "a=c"}).ok());
}

}  // namespace
}  // namespace quire::server
