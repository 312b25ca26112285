// These tests compare the store of files with a naive model, also across restarts of the process.
#include "server/files/file_store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "tests/support/temp_folder.h"

namespace quire::server {
namespace {

namespace fs = std::filesystem;

class FileStoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<FileStore> open(FileStore::Limits limits = {}) {
    auto store = FileStore::open(dir_.string(), limits);
    EXPECT_TRUE(store.ok()) << store.status().message();
    return std::move(store).value();
  }
  const test::TempFolder temp_;
  const fs::path dir_ = temp_ / "store";
};

TEST_F(FileStoreTest, KeepsWhatANaiveModelKeeps) {
  constexpr FileStore::Limits kLimits = {.max_bytes = 2'000, .max_files = 12};
  struct Known {
    std::string owner, filename, data;
  };
  std::map<std::string, Known> model;
  const auto model_bytes = [&] {
    int64_t sum = 0;
    for (const auto& [id, known] : model) sum += std::ssize(known.data);
    return sum;
  };
  std::mt19937 random(3);
  std::unique_ptr<FileStore> store = open(kLimits);
  for (int step = 0; step < 1'500; ++step) {
    const std::string owner(random() % 3, 'o');
    const uint64_t kind = random() % 20;
    if (kind == 0) {
      store.reset();
      store = open(kLimits);
    } else if (kind < 8) {
      const Known made = {owner, fmt::format("f{}", step), std::string(random() % 400, 'd')};
      const bool fits = model.size() < kLimits.max_files &&
                        model_bytes() + std::ssize(made.data) <= kLimits.max_bytes;
      const auto added = store->add(
          {.owner = owner, .purpose = "batch", .filename = made.filename, .created_s = step},
          made.data);
      ASSERT_EQ(added.ok(), fits) << added.status().message();
      if (fits) model[added->id] = made;
      if (!fits) {
        ASSERT_EQ(added.status().code(), StatusCode::kTooLarge);
      }
    } else if (!model.empty()) {
      auto at = model.begin();
      std::advance(at, static_cast<ptrdiff_t>(random() % model.size()));
      const auto& [id, known] = *at;
      ASSERT_EQ(store->find(id, owner).has_value(), owner == known.owner);
      if (kind < 14) {
        ASSERT_EQ(store->read(id, 1'000).value(), known.data);
      } else {
        const bool is_mine = owner == known.owner;
        ASSERT_EQ(store->remove(id, owner), is_mine);
        if (is_mine) model.erase(at);
      }
    }
    size_t num_listed = 0;
    for (const char* name : {"", "o", "oo"}) {
      for (const FileInfo& file : store->list(name)) {
        ++num_listed;
        ASSERT_EQ(model.at(file.id).owner, name);
        ASSERT_EQ(model.at(file.id).filename, file.filename);
        ASSERT_EQ(std::ssize(model.at(file.id).data), file.bytes);
      }
    }
    ASSERT_EQ(num_listed, model.size());
  }
}

TEST_F(FileStoreTest, WhatIsHalfDoneGoesAtTheStart) {
  const std::string whole = open()->add({.filename = "a"}, "data")->id;
  const std::string bare = "file-" + std::string(32, 'a');
  std::ofstream(dir_ / bare) << "without a record";
  std::ofstream(dir_ / (bare + ".json.tmp")) << "{\"owner\":";
  std::ofstream(dir_ / (whole + ".tmp")) << "x";
  std::ofstream(dir_ / "file-notes.txt") << "somebody else's";
  const auto store = open();
  ASSERT_EQ(store->list("").size(), 1u);
  EXPECT_EQ(store->read(whole, 100).value(), "data");
  EXPECT_EQ(store->read(whole, 3).status().code(), StatusCode::kTooLarge);
  size_t num_left = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(dir_)) ++num_left;
  EXPECT_EQ(num_left, 3u) << "the file, its record, and what is not the store's";
  // Clients' ids are looked up; they are never used as paths.
  EXPECT_FALSE(store->find("../etc/passwd", ""));
  EXPECT_FALSE(store->remove("file-..", ""));
}

// The next start may read what this one cannot.
TEST_F(FileStoreTest, AFileWhoseRecordCannotBeReadStays) {
  fs::create_directories(dir_);
  const std::string torn = "file-" + std::string(32, 'b'), locked = "file-" + std::string(32, 'c');
  std::ofstream(dir_ / torn) << "x";
  std::ofstream(dir_ / (torn + ".json")) << "{\"owner\":";
  std::ofstream(dir_ / locked) << "y";
  fs::create_directory(dir_ / (locked + ".json"));  // reading it fails
  const auto store = open();
  EXPECT_TRUE(store->list("").empty());
  EXPECT_EQ(read_file((dir_ / torn).string(), 9).value(), "x");
  EXPECT_EQ(read_file((dir_ / locked).string(), 9).value(), "y");
  EXPECT_TRUE(fs::exists(dir_ / (torn + ".json")));
  fs::remove(dir_ / (locked + ".json"));
  std::ofstream(dir_ / (locked + ".json")) << R"({"owner":"","filename":"f"})";
  EXPECT_EQ(open()->find(locked, "")->filename, "f");
}

TEST_F(FileStoreTest, ADirectoryThatCannotBe) {
  std::ofstream(dir_.string()) << "a file";
  EXPECT_EQ(FileStore::open(dir_.string(), {}).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace quire::server
