#include "fetch/checksum_file.h"

#include <gtest/gtest.h>

#include "fetch/sha256.h"

namespace quire::fetch {
namespace {

const std::string kHex(64, 'a');

TEST(ChecksumFile, LinesOfSha256sum) {
  const auto files = parse_checksums("# made by hand\n" + kHex + "  config.json\r\n\n" +
                                         std::string(64, 'B') + " *./sub/model.safetensors\n" +
                                         kHex + "  SHA256SUMS\n" + kHex + "  a file.txt",
                                     "SUMS");
  ASSERT_TRUE(files.ok()) << files.status().message();
  ASSERT_EQ(files->size(), 3u);
  EXPECT_EQ((*files)[0].name, "config.json");
  EXPECT_EQ((*files)[1].name, "sub/model.safetensors");
  EXPECT_EQ((*files)[1].sha256, std::string(64, 'b'));
  EXPECT_EQ((*files)[2].name, "a file.txt");
}

TEST(ChecksumFile, WhatIsRefused) {
  const auto error_of = [](const std::string& text) {
    return parse_checksums(text, "SUMS").status().message();
  };
  EXPECT_NE(error_of("").find("got none"), std::string::npos);
  EXPECT_NE(error_of("abc  x\n").find("SUMS:1: expected 64 hex digits"), std::string::npos);
  EXPECT_NE(error_of(kHex + " x").find("two blanks"), std::string::npos);
  EXPECT_NE(error_of(std::string(64, 'g') + "  x").find("64 hex digits"), std::string::npos);
  EXPECT_NE(error_of(kHex + "  x\n" + kHex + "  x\n").find("SUMS:2: x is listed twice"),
            std::string::npos);
  EXPECT_NE(error_of(kHex + "  x/y\n" + kHex + "  x\n").find("folder of x/y"), std::string::npos);
}

TEST(ChecksumFile, NamesStayInTheirFolder) {
  for (const char* const good : {"a", "a/b/c", "..a", "a..b/...", ".hidden", "ü"})
    EXPECT_TRUE(check_file_name(good).ok()) << good;
  for (const std::string& bad :
       {std::string(), std::string("/etc/passwd"), std::string(".."), std::string("../a"),
        std::string("a/../../b"), std::string("a/./b"), std::string("a//b"), std::string("a/"),
        std::string("a\\..\\b"), std::string("a\nb"), std::string("a\0b", 3), std::string(256, 'a'),
        std::string(2000, 'a'), std::string("a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a")}) {
    EXPECT_FALSE(check_file_name(bad).ok()) << bad;
    EXPECT_FALSE(parse_checksums(kHex + "  " + bad + "\n", "SUMS").ok()) << bad;
  }
}

TEST(Sha256, KnownDigests) {
  Sha256 hash;
  EXPECT_EQ(hash.hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  hash.add("a");
  hash.add("bc");
  EXPECT_EQ(hash.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace quire::fetch
