#include "weights/files/model_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_folder.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

class ModelFilesTest : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    std::ofstream(dir_ / name, std::ios::binary) << text;
  }
  std::string error_of(const fs::path& path) {
    return ModelFiles::open(path.string()).status().message();
  }

  const test::TempFolder dir_;
};

TEST_F(ModelFilesTest, OpensADirectory) {
  write("config.json", "{}");
  write("tokenizer.json", "[]");
  write("empty.json", "");
  fs::create_directory(dir_ / "folder.json");
  fs::create_symlink(dir_ / "config.json", dir_ / "link.json");
  ASSERT_EQ(::mkfifo((dir_ / "pipe.json").c_str(), 0600), 0);
  auto opened = ModelFiles::open(dir_.string());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const ModelFiles files = std::move(opened).value();
  EXPECT_EQ(files.names(),
            (std::vector<std::string>{"config.json", "empty.json", "link.json", "tokenizer.json"}));
  EXPECT_EQ(*files.text("config.json"), "{}");
  EXPECT_EQ(*files.text("link.json"), "{}");
  EXPECT_EQ(files.find("config.json")->size(), 2u);
  EXPECT_EQ(files.find("absent.json"), std::nullopt);
  EXPECT_EQ(files.find("empty.json"), std::nullopt);
  EXPECT_EQ(files.text("absent.json").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(files.bytes("empty.json").status().code(), StatusCode::kDataLoss);
  EXPECT_NE(files.bytes("empty.json").status().message().find("empty"), std::string::npos);
  EXPECT_FALSE(files.bytes("../config.json").ok());
  EXPECT_EQ(files.gguf_name(), std::nullopt);
}

TEST_F(ModelFilesTest, ViewsSurviveAMove) {
  write("config.json", "{\"a\":1}");
  auto opened = ModelFiles::open(dir_.string());
  ASSERT_TRUE(opened.ok());
  ModelFiles first = std::move(opened).value();
  const std::string_view text = *first.text("config.json");
  const ModelFiles second = std::move(first);
  EXPECT_EQ(text, "{\"a\":1}");
  EXPECT_EQ(second.text("config.json")->data(), text.data());
}

TEST_F(ModelFilesTest, SaysWhatIsWrong) {
  EXPECT_NE(error_of(dir_ / "absent").find("no such file"), std::string::npos);
  EXPECT_NE(error_of(dir_.path()).find("no config.json"), std::string::npos);
  write("a.gguf", "GGUF");
  write("b.gguf", "GGUF");
  EXPECT_NE(error_of(dir_.path()).find("name one of a.gguf, b.gguf"), std::string::npos);
  write("a-00001-of-00002.gguf", "GGUF");
  EXPECT_NE(error_of(dir_.path()).find("join them"), std::string::npos);
  write("model.txt", "x");
  EXPECT_NE(error_of(dir_ / "model.txt").find("expected a Hugging Face"), std::string::npos);
  EXPECT_NE(error_of("/dev/null").find("expected a Hugging Face"), std::string::npos);
  EXPECT_FALSE(ModelFiles::open("").ok());
}

TEST_F(ModelFilesTest, FileThatCannotBeReadIsAnError) {
  write("config.json", "{}");
  auto opened = ModelFiles::open(dir_.string());
  ASSERT_TRUE(opened.ok());
  fs::remove(dir_ / "config.json");
  const auto gone = opened->bytes("config.json");
  EXPECT_EQ(gone.status().code(), StatusCode::kDataLoss);
  EXPECT_NE(gone.status().message().find("cannot open"), std::string::npos);
}

TEST_F(ModelFilesTest, OpensOneGgufFile) {
  write("model.gguf", "GGUF");
  const auto files = ModelFiles::open((dir_ / "model.gguf").string());
  ASSERT_TRUE(files.ok());
  EXPECT_EQ(files->gguf_name(), "model.gguf");
  EXPECT_EQ(files->names(), std::vector<std::string>{"model.gguf"});
}

TEST_F(ModelFilesTest, OpensAFolderOfOneGgufFile) {
  write("model.gguf", "GGUF");
  write("README.md", "x");
  const auto files = ModelFiles::open(dir_.string());
  ASSERT_TRUE(files.ok());
  EXPECT_EQ(files->gguf_name(), "model.gguf");
}

TEST_F(ModelFilesTest, SaysHowToGetAModelByItsName) {
  EXPECT_NE(error_of("Qwen/No-Such-Folder")
                .find("hf download Qwen/No-Such-Folder --local-dir "
                      "No-Such-Folder"),
            std::string::npos);
  for (const char* path : {"/Qwen/x", "./x", "~/x", "a/b/c", "x", "a/b.gguf"}) {
    EXPECT_EQ(error_of(path).find("hf download"), std::string::npos) << path;
  }
}

TEST_F(ModelFilesTest, BareWeightsNameTheFolderThatIsExpected) {
  write("model.safetensors", "x");
  const std::string error = error_of(dir_ / "model.safetensors");
  EXPECT_NE(error.find("weights alone"), std::string::npos);
  EXPECT_NE(error.find("such as " + dir_.string()), std::string::npos);
}

TEST_F(ModelFilesTest, GitLfsPointerSaysWhatToRun) {
  write("config.json", "{}");
  write("model.safetensors",
        "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 988097824\n");
  auto files = ModelFiles::open(dir_.string());
  ASSERT_TRUE(files.ok());
  const Status status = files->bytes("model.safetensors").status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("run `git lfs pull` in " + dir_.string()), std::string::npos);
}

TEST_F(ModelFilesTest, RefusesTextAboveItsLimit) {
  write("config.json", "{}");
  fs::resize_file(dir_ / "config.json",
                  static_cast<uintmax_t>(ModelFiles::kMaxTextBytes) + 1);  // sparse
  const auto files = ModelFiles::open(dir_.string());
  ASSERT_TRUE(files.ok());
  EXPECT_EQ(files->text("config.json").status().code(), StatusCode::kTooLarge);
}

TEST(ModelFilesMemory, ServesBlobs) {
  const std::string config = "{}";
  const std::string empty;
  const ModelFiles files =
      ModelFiles::from_memory({{"config.json", std::as_bytes(std::span(config))},
                               {"empty", std::as_bytes(std::span(empty))}});
  EXPECT_EQ(*files.text("config.json"), "{}");
  EXPECT_FALSE(files.bytes("empty").ok());
  EXPECT_EQ(files.source(), "<memory>");
}

}  // namespace
}  // namespace quire
