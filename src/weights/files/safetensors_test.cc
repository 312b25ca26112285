#include "weights/files/safetensors.h"

#include <gtest/gtest.h>

#include <string>

#include "base/rng.h"

namespace quire {
namespace {

std::string file_of(const std::string& header, size_t data_bytes) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(header.size() >> (8 * i));
  out += header;
  for (size_t i = 0; i < data_bytes; ++i) out += static_cast<char>(i);
  return out;
}

Result<std::vector<RawTensor>> parse(const std::string& bytes) {
  return parse_safetensors("x.safetensors", std::as_bytes(std::span(bytes)));
}

void expect_refused(const std::string& bytes, const std::string& part) {
  const Result<std::vector<RawTensor>> tensors = parse(bytes);
  ASSERT_FALSE(tensors.ok()) << part;
  EXPECT_NE(tensors.status().message().find(part), std::string::npos) << tensors.status().message();
  EXPECT_EQ(tensors.status().message().find('\n'), std::string::npos);
}

// The file has one tensor with the given fields and 16 bytes of data.
void expect_entry_refused(const std::string& entry, const std::string& part) {
  expect_refused(file_of("{\"w\":" + entry + "}", 16), part);
}

const char* const kSmall =
    R"({"__metadata__":{"format":"pt","x":"\u00e9"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
    R"("a":{"data_offsets":[0,4],"shape":[],"dtype":"F32"},"z":{"dtype":"I64","shape":[0,7],"data_offsets":[16,16]}}  )";

TEST(Safetensors, ReadsTensors) {
  const std::string bytes = file_of(kSmall, 16);
  const auto tensors = parse(bytes);
  ASSERT_TRUE(tensors.ok()) << tensors.status().message();
  ASSERT_EQ(tensors->size(), 3u);
  EXPECT_EQ((*tensors)[0].name, "a");
  EXPECT_EQ((*tensors)[0].shape, std::vector<int64_t>{});
  EXPECT_EQ((*tensors)[0].dtype, DType::kF32);
  EXPECT_EQ((*tensors)[1].name, "b");
  EXPECT_EQ((*tensors)[1].type_name, "BF16");
  EXPECT_EQ((*tensors)[1].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ((*tensors)[1].data.size(), 12u);
  EXPECT_EQ(std::to_integer<int>((*tensors)[1].data[0]), 4);
  EXPECT_EQ((*tensors)[2].num_elements(), 0);
}

TEST(Safetensors, KeepsTypesWithoutArithmeticByName) {
  const std::string bytes = file_of(
      R"({"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"F4","shape":[8],"data_offsets":[4,8]}})",
      8);
  const auto tensors = parse(bytes);
  ASSERT_TRUE(tensors.ok()) << tensors.status().message();
  EXPECT_EQ((*tensors)[0].type_name, "F8_E4M3");
  EXPECT_EQ((*tensors)[0].dtype, std::nullopt);
  EXPECT_EQ((*tensors)[1].type_name, "F4");
}

TEST(Safetensors, RefusesEveryTruncation) {
  const std::string whole = file_of(kSmall, 16);
  for (size_t length = 0; length < whole.size(); ++length) {
    ASSERT_FALSE(parse(whole.substr(0, length)).ok()) << length;
  }
  expect_refused(whole + "x", "expected 16 bytes of tensor data, got 17");
}

TEST(Safetensors, RefusesBadHeaders) {
  expect_refused("", "at least 8 bytes");
  expect_refused(std::string(8, '\xff') + "{}", "exceeds the limit");
  expect_refused(std::string("\x40\0\0\0\0\0\0\0", 8) + "{}", "truncated");
  expect_refused(file_of("", 0), "not valid JSON");
  expect_refused(file_of("[]", 0), "expected an object");
  expect_refused(file_of("7", 0), "expected an object");
  expect_refused(file_of("{}{}", 0), "after its end");
  expect_refused(file_of("{\"a\":", 0), "not valid JSON");
  expect_refused(file_of("{\"\xff\":{}}", 0), "not valid JSON");
  expect_refused(file_of("{\"w\":" + std::string(100000, '['), 0), "tensor 'w': unexpected array");
  expect_refused(file_of(R"({"__metadata__":{"a":1}})", 0), "unexpected number 1");
  expect_refused(file_of(R"({"__metadata__":{"a":{}}})", 0), "unexpected object");
  expect_refused(file_of(R"({"__metadata__":[]})", 0), "unexpected array");
  expect_refused(file_of(R"({"__metadata__":{},"__metadata__":{}})", 0), "occurs twice");
  EXPECT_TRUE(parse(file_of("{}", 0)).ok());
}

TEST(Safetensors, RefusesBadEntries) {
  expect_entry_refused("null", "tensor 'w': unexpected null");
  expect_entry_refused("3", "tensor 'w': unexpected number");
  expect_entry_refused("{}", "tensor 'w': no dtype");
  expect_entry_refused(R"({"dtype":"F32"})", "no shape");
  expect_entry_refused(R"({"dtype":"F32","shape":[4]})", "no data_offsets");
  expect_entry_refused(R"({"dtype":"F32","shape":[4],"data_offsets":[0]})",
                       "expected 2 data_offsets");
  expect_entry_refused(R"({"dtype":"F32","shape":[4],"data_offsets":[0,16,16]})", "expected 2");
  expect_entry_refused(R"({"dtype":"F31","shape":[4],"data_offsets":[0,16]})",
                       "unknown dtype 'F31'");
  expect_entry_refused(R"({"dtype":1,"shape":[4],"data_offsets":[0,16]})", "unexpected number");
  expect_entry_refused(R"({"dtype":"F32","dtype":"F32","shape":[4],"data_offsets":[0,16]})",
                       "twice");
  expect_entry_refused(R"({"dtype":"F32","shape":[4],"shape":[4],"data_offsets":[0,16]})", "twice");
  expect_entry_refused(R"({"dtype":"F32","shape":[-4],"data_offsets":[0,16]})",
                       "negative number -4");
  expect_entry_refused(R"({"dtype":"F32","shape":[4.0],"data_offsets":[0,16]})",
                       "expected an integer");
  expect_entry_refused(R"({"dtype":"F32","shape":[1e30],"data_offsets":[0,16]})",
                       "expected an integer");
  expect_entry_refused(R"({"dtype":"F32","shape":["4"],"data_offsets":[0,16]})",
                       "unexpected string");
  expect_entry_refused(R"({"dtype":"F32","shape":[[4]],"data_offsets":[0,16]})",
                       "unexpected array");
  expect_entry_refused(R"({"dtype":"F32","shape":[true],"data_offsets":[0,16]})", "true or false");
  expect_entry_refused(R"({"dtype":"F32","shape":[4],"data_offsets":[0,16],"more":1})",
                       "got 'more'");
  expect_entry_refused(
      R"({"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,4],"data_offsets":[0,16]})",
      "at most 16 dimensions");
}

TEST(Safetensors, RefusesLyingOffsetsAndShapes) {
  expect_entry_refused(R"({"dtype":"F32","shape":[5],"data_offsets":[0,20]})", "within 16 bytes");
  expect_entry_refused(R"({"dtype":"F32","shape":[4],"data_offsets":[16,0]})", "got [16, 0)");
  expect_entry_refused(R"({"dtype":"F32","shape":[4],"data_offsets":[18446744073709551600,16]})",
                       "within");
  expect_entry_refused(R"({"dtype":"F32","shape":[3],"data_offsets":[0,16]})",
                       "needs 12 bytes, got 16");
  expect_entry_refused(R"({"dtype":"F4","shape":[33],"data_offsets":[0,16]})", "needs");
  expect_entry_refused(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,16]})",
                       "overflows");
  expect_entry_refused(R"({"dtype":"F32","shape":[4611686018427387908],"data_offsets":[0,16]})",
                       "overflows");
  expect_entry_refused(R"({"dtype":"F32","shape":[2],"data_offsets":[8,16]})", "leaves a hole");
  const std::string overlap =
      R"({"a":{"dtype":"U8","shape":[10],"data_offsets":[0,10]},"b":{"dtype":"U8","shape":[8],"data_offsets":[8,16]}})";
  expect_refused(file_of(overlap, 16), "'b' overlaps");
  const std::string twice =
      R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"a":{"dtype":"U8","shape":[8],"data_offsets":[8,16]}})";
  expect_refused(file_of(twice, 16), "'a' occurs twice");
  const std::string newline = R"({"a\nb":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}})";
  expect_refused(file_of(newline, 8), "'a\\x0ab'");
}

TEST(Safetensors, SurvivesRandomDamage) {
  const std::string whole = file_of(kSmall, 16);
  for (uint32_t round = 0; round < 20000; ++round) {
    std::string bytes = whole;
    const auto random = philox4x32(43, {round, 0, 0, 0});
    bytes[random[0] % bytes.size()] = static_cast<char>(random[1]);
    if (random[2] % 2 == 0) bytes[random[3] % bytes.size()] = "[]{},:\"0"[random[2] / 2 % 8];
    const auto tensors = parse(bytes);
    if (!tensors.ok()) {
      ASSERT_EQ(tensors.status().message().find('\n'), std::string::npos) << "round " << round;
    }
  }
}

TEST(SafetensorsIndex, ReadsAndRefuses) {
  const auto index = parse_safetensors_index(
      R"({"metadata":{"total_size":8},"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}})");
  ASSERT_TRUE(index.ok()) << index.status().message();
  EXPECT_EQ(index->shard_of.at("b"), "model-2.safetensors");
  for (const char* shard :
       {"../x", "a/b", "/etc/passwd", "", "..", ".hidden", "a\\\\b", "a\\u0000b"}) {
    const auto bad =
        parse_safetensors_index(fmt::format(R"({{"weight_map":{{"a":"{}"}}}})", shard));
    ASSERT_FALSE(bad.ok()) << shard;
    EXPECT_NE(bad.status().message().find("plain file name"), std::string::npos);
  }
  for (const char* text : {"", "[]", "{}", R"({"weight_map":[]})", R"({"weight_map":{}})",
                           R"({"weight_map":{"a":1}})", "{\"weight_map\":"}) {
    EXPECT_FALSE(parse_safetensors_index(text).ok()) << text;
  }
  EXPECT_FALSE(parse_safetensors_index(std::string(100000, '[')).ok());
}

}  // namespace
}  // namespace quire
