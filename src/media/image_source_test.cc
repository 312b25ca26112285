#include "media/image_source.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/base64.h"
#include "tests/support/temp_folder.h"

namespace quire {
namespace {

namespace fs = std::filesystem;
constexpr int64_t kMaxBytes = 1000;

class ImageSource : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(root_ / "open" / "deep");
    fs::create_directories(root_ / "open-too");
    write(root_ / "open" / "a b.png", "inside");
    write(root_ / "open" / "deep" / "c.png", "deeper");
    write(root_ / "secret", "outside");
    write(root_ / "open-too" / "d.png", "beside");
    fs::create_symlink(root_ / "secret", root_ / "open" / "link.png");
    fs::create_symlink(root_.path(), root_ / "open" / "up");
  }

  static void write(const fs::path& path, std::string_view text) { std::ofstream(path) << text; }
  Result<std::string> read(const std::string& path) {
    return read_image_source("file://" + path, (root_ / "open").string(), kMaxBytes);
  }

  const test::TempFolder root_;
};

TEST_F(ImageSource, ReadsDataUrls) {
  const std::string url = "data:image/png;base64," + base64_encode("pixels");
  EXPECT_EQ(read_image_source(url, "", kMaxBytes).value(), "pixels");
  EXPECT_EQ(read_image_source("DATA:;base64," + base64_encode("x"), "", kMaxBytes).value(), "x");
}

TEST_F(ImageSource, RefusesOtherData) {
  for (const std::string& url :
       {std::string("data:image/png;base64"), std::string("data:image/png,abc"),
        "data:text/html;base64," + base64_encode("x"), std::string("data:image/png;base64,***"),
        std::string("http://127.0.0.1/a.png"), std::string("https://example.com/a.png"),
        std::string("HTTP://169.254.169.254/latest"), std::string("ftp://a/b"), std::string(""),
        std::string("/etc/passwd"), std::string("gopher://a")}) {
    const auto result = read_image_source(url, "/", kMaxBytes);
    EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument) << url;
  }
  const std::string large = "data:image/png;base64," + base64_encode(std::string(2000, 'x'));
  EXPECT_EQ(read_image_source(large, "", kMaxBytes).status().code(), StatusCode::kTooLarge);
}

TEST_F(ImageSource, ReadsFilesBelowTheDirectory) {
  EXPECT_EQ(read((root_ / "open/a%20b.png").string()).value(), "inside");
  EXPECT_EQ(read((root_ / "open/deep/../deep/c.png").string()).value(), "deeper");
  EXPECT_EQ(read((root_ / "open/none.png").string()).status().code(), StatusCode::kNotFound);
  write(root_ / "open" / "large.png", std::string(1001, 'x'));
  EXPECT_EQ(read((root_ / "open/large.png").string()).status().code(), StatusCode::kTooLarge);
}

// Files outside of the directory give one error, whether they exist or not.
TEST_F(ImageSource, ReadsNothingElse) {
  for (const std::string& path :
       {(root_ / "secret").string(), (root_ / "open/../secret").string(),
        (root_ / "open/%2e%2e/secret").string(), (root_ / "open/link.png").string(),
        (root_ / "open/up/secret").string(), (root_ / "open-too/d.png").string(),
        (root_ / "open").string(), std::string("/etc/passwd"), std::string("/none"),
        std::string("/proc/self/environ")}) {
    const auto result = read(path);
    ASSERT_FALSE(result.ok()) << path;
    EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument) << path;
    EXPECT_NE(result.status().message().find("expected a file below"), std::string::npos)
        << path << ": " << result.status().message();
  }
  EXPECT_FALSE(read("relative.png").ok());
  EXPECT_FALSE(read((root_ / "open/a%00b").string()).ok());
  EXPECT_FALSE(read((root_ / "open/deep").string()).ok());
  EXPECT_FALSE(read_image_source("file:///etc/passwd", "", kMaxBytes).ok());
}

// Reading a pipe would not end, so pipes are refused.
TEST_F(ImageSource, DoesNotWaitForPipes) {
  ASSERT_EQ(::mkfifo((root_ / "open/pipe.png").c_str(), 0600), 0);
  EXPECT_EQ(read((root_ / "open/pipe.png").string()).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace quire
