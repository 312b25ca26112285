#include "fetch/source.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_folder.h"

namespace quire::fetch {
namespace {

TEST(Source, Urls) {
  const Source file = *parse_source("https://a.example/x/y%20z.gguf?download=1");
  EXPECT_FALSE(file.is_folder);
  EXPECT_TRUE(file.is_remote);
  EXPECT_EQ(file.file, "y z.gguf");
  EXPECT_EQ(file.model, "y z");
  EXPECT_EQ(file.url.text(), "https://a.example/x/?download=1");
  const Source folder = *parse_source("http://a.example:81/models/small/");
  EXPECT_TRUE(folder.is_folder);
  EXPECT_EQ(folder.model, "small");
  EXPECT_EQ(parse_source("http://a.example/small/SHA256SUMS")->url.target, "/small/");
}

TEST(Source, WhatIsRefused) {
  const auto error_of = [](const std::string& text) { return parse_source(text).status(); };
  EXPECT_NE(error_of("https://a/x.tar.gz").message().find("archives are not unpacked"),
            std::string::npos);
  EXPECT_NE(error_of("https://a/x").message().find("with / at its end"), std::string::npos);
  EXPECT_EQ(error_of("/nowhere/at/all").code(), StatusCode::kNotFound);
  EXPECT_EQ(error_of("name/of-a-model").code(), StatusCode::kNotFound);
  EXPECT_FALSE(parse_source("file://elsewhere/x.gguf").ok());
  EXPECT_FALSE(parse_source("https://user:secret@a/x.gguf").ok());
  EXPECT_FALSE(parse_source("https://a/%zz.gguf").ok());
}

TEST(Source, Paths) {
  const test::TempFolder folder;
  std::filesystem::create_directory(folder / "small");
  std::ofstream(folder / "m.gguf") << "GGUF";
  std::ofstream(folder / "m.zip") << "PK";
  EXPECT_EQ(parse_source(folder.string() + "/small/")->model, "small");
  const Source file = *parse_source("file://" + folder.string() + "/m.gguf");
  EXPECT_TRUE(file.is_url);
  EXPECT_FALSE(file.is_remote);
  EXPECT_EQ(file.path, folder.string());
  EXPECT_EQ(file.model, "m");
  EXPECT_FALSE(parse_source(folder.string() + "/m.zip").ok());
}

TEST(Source, NamesOfModels) {
  for (const char* const good : {"a", "a-b_c.1", "ü x"}) EXPECT_TRUE(check_model_name(good).ok());
  for (const char* const bad : {"", ".", "..", ".a", "a/b", "a\\b", "a\n"})
    EXPECT_FALSE(check_model_name(bad).ok()) << bad;
}

}  // namespace
}  // namespace quire::fetch
