// These tests compare small tokenizers of every kind with the output of the reference libraries for
// the same texts (tools/make_tokenizer_goldens.py).
#include "tokenizer/testing/golden.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_data.h"

namespace quire {
namespace {

namespace json = boost::json;
using ::testing::IsEmpty;

std::filesystem::path golden_dir() { return test::source_dir() / "tests/goldens/tokenizer"; }

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(golden_dir(), error)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class Golden : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    document_ = json::parse(test::read_file(golden_dir() / (GetParam() + ".json")));
    auto loaded = load_golden_tokenizer(golden());
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    tokenizer_ = std::move(loaded).value();
  }
  const json::object& golden() const { return document_.as_object(); }

  json::value document_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_P(Golden, Encodes) { EXPECT_THAT(encode_differences(*tokenizer_, golden()), IsEmpty()); }
TEST_P(Golden, Decodes) { EXPECT_THAT(decode_differences(*tokenizer_, golden()), IsEmpty()); }
TEST_P(Golden, NamesPieces) { EXPECT_THAT(piece_differences(*tokenizer_, golden()), IsEmpty()); }

INSTANTIATE_TEST_SUITE_P(All, Golden, ::testing::ValuesIn(golden_names()),
                         [](const auto& info) { return info.param; });

TEST(GoldenFiles, AreThere) { EXPECT_GE(golden_names().size(), 30u); }

}  // namespace
}  // namespace quire
