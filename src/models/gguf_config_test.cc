// Metadata of GGUF files that does not fit is refused with one line that says what came.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>

#include "models/config_fields.h"
#include "models/family.h"
#include "models/gguf/shown_value.h"

namespace quire {
namespace {

constexpr uint32_t kU32 = 4, kString = 8, kArray = 9, kI64 = 11, kF64 = 12;

// MetadataFile writes a GGUF file that has metadata and no tensors.
class MetadataFile {
 public:
  explicit MetadataFile(const std::string& architecture) {
    text("general.architecture", architecture);
  }
  MetadataFile& text(const std::string& key, const std::string& value) {
    begin(key, kString);
    string(value);
    return *this;
  }
  MetadataFile& number(const std::string& key, int64_t value) {
    begin(key, kI64);
    raw(value);
    return *this;
  }
  MetadataFile& number(const std::string& key, double value) {
    begin(key, kF64);
    raw(value);
    return *this;
  }
  MetadataFile& numbers(const std::string& key, const std::vector<uint32_t>& values) {
    begin(key, kArray);
    raw(kU32);
    raw<uint64_t>(values.size());
    for (const uint32_t value : values) raw(value);
    return *this;
  }
  std::string bytes() const {
    MetadataFile header;
    header.bytes_ = "GGUF";
    header.raw<uint32_t>(3);
    header.raw<uint64_t>(0);
    header.raw<uint64_t>(num_values_);
    std::string file = header.bytes_ + bytes_;
    file.resize((file.size() + 31) / 32 * 32);
    return file;
  }

 private:
  MetadataFile() = default;
  template <typename T>
  void raw(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void string(const std::string& value) {
    raw<uint64_t>(value.size());
    bytes_ += value;
  }
  void begin(const std::string& key, uint32_t type) {
    ++num_values_;
    string(key);
    raw(type);
  }

  std::string bytes_;
  uint64_t num_values_ = 0;
};

Result<boost::json::object> config_of(const MetadataFile& metadata,
                                      const std::string& architecture) {
  const std::string bytes = metadata.bytes();
  QUIRE_ASSIGN_OR_RETURN(const GgufFile file,
                         GgufFile::parse("x.gguf", std::as_bytes(std::span(bytes))));
  return gguf_config_object(*find_gguf_family(file, architecture), file);
}

Result<boost::json::object> with_prediction_layers(int64_t layers, int64_t count) {
  MetadataFile file("llama");
  file.number("llama.block_count", layers).number("llama.nextn_predict_layers", count);
  return config_of(file, "llama");
}

TEST(GgufConfig, LayersThatPredictAreNotRun) {
  for (const int64_t count : {0, 1, 3}) {
    const auto config = with_prediction_layers(4, count);
    ASSERT_TRUE(config.ok()) << config.status().message();
    EXPECT_EQ(config->at("num_hidden_layers"), 4 - count);
  }
}

TEST(GgufConfig, PredictsFewerLayersThanThereAre) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(with_prediction_layers(1, kLeast).status().message(),
            "llama.nextn_predict_layers: expected a number in [0, block_count = 1), got "
            "-9223372036854775808");
  for (const int64_t count : {kLeast, int64_t{-1}, int64_t{4}, kMost})
    EXPECT_FALSE(with_prediction_layers(4, count).ok()) << count;
  EXPECT_FALSE(with_prediction_layers(kLeast, kMost).ok());
}

TEST(GgufConfig, ALatentHeadRotatesAPartOfItsKey) {
  const auto config = [](int64_t rotated, int64_t key) {
    MetadataFile file("deepseek2");
    file.number("deepseek2.attention.kv_lora_rank", int64_t{32});
    file.number("deepseek2.rope.dimension_count", rotated);
    return config_of(file.number("deepseek2.attention.key_length", key), "deepseek2");
  };
  ASSERT_TRUE(config(8, 24).ok()) << config(8, 24).status().message();
  EXPECT_EQ(config(8, 24)->at("qk_nope_head_dim"), 16);
  EXPECT_EQ(config(1, std::numeric_limits<int64_t>::min()).status().message(),
            "deepseek2.rope.dimension_count: expected a part of the -9223372036854775808 dims of a "
            "key, got 1");
  EXPECT_FALSE(config(-1, 24).ok());
}

TEST(GgufConfig, SaysWhatCame) {
  EXPECT_EQ(config_of(MetadataFile("llama").text("llama.block_count", "many"), "llama")
                .status()
                .message(),
            "llama.block_count: expected a number, got 'many'");
  EXPECT_EQ(
      config_of(MetadataFile("llama").text("llama.attention.sliding_window_pattern", "x"), "llama")
          .status()
          .message(),
      "llama.attention.sliding_window_pattern: expected a period or one flag per layer, got 'x'");
  EXPECT_EQ(
      config_of(MetadataFile("llama").numbers("llama.rope.dimension_sections", {1, 2}), "llama")
          .status()
          .message(),
      "llama.rope.dimension_sections: expected 3 numbers, got a list of 2 integers");
  EXPECT_EQ(config_of(MetadataFile("deci").number("deci.attention.head_count_kv", 1.5), "deci")
                .status()
                .message(),
            "deci.attention.head_count_kv: expected a number or one per layer, got 1.5");
}

TEST(GgufConfig, ShowsValues) {
  EXPECT_EQ(shown(nullptr), "nothing");
  const std::string long_text(100, 'x');
  const GgufValue values[] = {{true},
                              {int64_t{-3}},
                              {1.5},
                              {std::string_view(long_text)},
                              {std::vector<uint8_t>{1, 0}},
                              {std::vector<double>{}}};
  const std::string expected[] = {"true",
                                  "-3",
                                  "1.5",
                                  "'" + std::string(60, 'x') + "…'",
                                  "a list of 2 flags",
                                  "a list of 0 numbers"};
  for (size_t i = 0; i < std::size(values); ++i) EXPECT_EQ(shown(&values[i]), expected[i]);
}

}  // namespace
}  // namespace quire
