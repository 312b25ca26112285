// Every code point, in context, is handled as in the tokenizers library
// (tools/make_unicode_goldens.py).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "base/hash/fnv1a.h"
#include "tests/support/test_data.h"
#include "tokenizer/json/json_components.h"
#include "tokenizer/unicode/unicode.h"

namespace quire {
namespace {

namespace json = boost::json;

constexpr char32_t kBlockSize = 4096;

json::array components() {
  const auto path = test::source_dir() / "tests/goldens/unicode/blocks.json";
  return json::parse(test::read_file(path)).at("components").as_array();
}

void hash_words(uint64_t& state, const std::vector<std::string_view>& words) {
  for (const std::string_view word : words) {
    if (!word.empty()) state = fnv1a("\x1f", fnv1a(word, state));
  }
  state = fnv1a("\x1e", state);
}

void hash_code_point(uint64_t& state, const PreTokenizer& pre_tokenizer, char32_t c) {
  const std::string x = to_utf8(c);
  const std::string text = "a" + x + "b1 " + x + x + ".";
  SplitList list;
  list.words.push_back(text);
  list.at_text_start = true;
  pre_tokenizer.split(list);
  hash_words(state, list.words);
}

void hash_code_point(uint64_t& state, const Normalizer& normalizer, char32_t c) {
  const std::string x = to_utf8(c);
  const std::string text = normalizer.normalize("a" + x + "b " + x + "\u0301");
  hash_words(state, {text});
}

// Returns the blocks whose hashes differ, in hex.
template <typename Component>
std::string differing_blocks(const Component& component, const json::object& hashes) {
  std::string differing;
  for (const auto& [key, expected] : hashes) {
    const auto block = static_cast<char32_t>(std::stoul(std::string(key), nullptr, 16));
    uint64_t state = kFnv1aBasis;
    for (char32_t c = block * kBlockSize; c < (block + 1) * kBlockSize; ++c) {
      const bool is_surrogate = c >= 0xD800 && c < 0xE000;
      if (!is_surrogate) hash_code_point(state, component, c);
    }
    if (fmt::format("{:016x}", state) != std::string_view(expected.as_string())) {
      differing += std::string(key) + " ";
    }
  }
  return differing;
}

TEST(UnicodeGolden, EveryCodePointIsCutAndNormalizedAsTheReferenceDoes) {
  int num_components = 0;
  for (const json::value& value : components()) {
    const json::object& entry = value.as_object();
    SCOPED_TRACE(std::string(entry.at("name").as_string()));
    const json::object& hashes = entry.at("hashes").as_object();
    ++num_components;
    if (const json::value* fields = entry.if_contains("pre_tokenizer")) {
      const auto pre_tokenizer = parse_pre_tokenizer(*fields, /*raw_bytes=*/false);
      ASSERT_TRUE(pre_tokenizer.ok()) << pre_tokenizer.status().message();
      EXPECT_EQ(differing_blocks(**pre_tokenizer, hashes), "");
    } else {
      const auto normalizer = parse_normalizer(entry.at("normalizer"));
      ASSERT_TRUE(normalizer.ok()) << normalizer.status().message();
      EXPECT_EQ(differing_blocks(**normalizer, hashes), "");
    }
  }
  EXPECT_GE(num_components, 20);
}

}  // namespace
}  // namespace quire
