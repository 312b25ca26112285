#include "weights/gguf/gguf.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>

#include "base/rng.h"
#include "weights/gguf/ggml_types.h"

namespace quire {
namespace {

// Writer writes GGUF bytes field by field, so that each test can make one of them wrong.
class Writer {
 public:
  template <typename T>
  Writer& num(T value) {
    const char* p = reinterpret_cast<const char*>(&value);
    bytes_.append(p, sizeof(T));
    return *this;
  }
  // Writes a count, a length or a dimension: 32 bits wide in version 1.
  Writer& size(uint64_t value) {
    return version_ == 1 ? num(static_cast<uint32_t>(value)) : num(value);
  }
  Writer& str(const std::string& text) {
    size(text.size());
    bytes_ += text;
    return *this;
  }
  Writer& header(uint64_t tensors, uint64_t values, uint32_t version = 3) {
    bytes_ += "GGUF";
    version_ = version;
    return num<uint32_t>(version).size(tensors).size(values);
  }
  Writer& tensor(const std::string& name, const std::vector<uint64_t>& dims, uint32_t type,
                 uint64_t offset) {
    str(name).num<uint32_t>(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) size(dim);
    return num<uint32_t>(type).num<uint64_t>(offset);
  }
  Writer& pad(size_t alignment = 32) {
    while (bytes_.size() % alignment != 0) bytes_ += '\0';
    return *this;
  }
  Writer& data(size_t count) {
    for (size_t i = 0; i < count; ++i) bytes_ += static_cast<char>(i);
    return *this;
  }
  std::string bytes() const { return bytes_; }

 private:
  std::string bytes_;
  uint32_t version_ = 3;
};

constexpr uint32_t kU8 = 0, kI8 = 1, kU16 = 2, kI16 = 3, kU32 = 4, kI32 = 5, kF32 = 6, kBool = 7,
                   kString = 8, kArray = 9, kU64 = 10, kI64 = 11, kF64 = 12;

Result<GgufFile> parse(const std::string& bytes) {
  return GgufFile::parse("x.gguf", std::as_bytes(std::span(bytes)));
}

void expect_refused(const std::string& bytes, const std::string& part) {
  const Result<GgufFile> file = parse(bytes);
  ASSERT_FALSE(file.ok()) << part;
  EXPECT_NE(file.status().message().find(part), std::string::npos) << file.status().message();
  EXPECT_EQ(file.status().message().find('\n'), std::string::npos);
}

std::string small_file(uint32_t version = 3) {
  Writer w;
  w.header(2, 14, version);
  w.str("u8").num(kU8).num<uint8_t>(200);
  w.str("i8").num(kI8).num<int8_t>(-3);
  w.str("u16").num(kU16).num<uint16_t>(65535);
  w.str("i16").num(kI16).num<int16_t>(-300);
  w.str("u32").num(kU32).num<uint32_t>(4000000000u);
  w.str("i32").num(kI32).num<int32_t>(-70000);
  w.str("f32").num(kF32).num<float>(1.5f);
  w.str("bool").num(kBool).num<uint8_t>(1);
  w.str("string").num(kString).str("h\xc3\xa9llo");
  w.str("u64").num(kU64).num<uint64_t>(UINT64_MAX);
  w.str("i64").num(kI64).num<int64_t>(INT64_MIN);
  w.str("f64").num(kF64).num<double>(-0.25);
  w.str("tokens").num(kArray).num(kString).size(2).str("a").str("");
  w.str("nested").num(kArray).num(kArray).size(2);
  w.num(kU32).size(1).num<uint32_t>(7);
  w.num(kF32).size(1).num<float>(2.0f);
  w.tensor("b", {2, 3}, 0, 0).tensor("a", {32, 2}, 8, 32);
  return w.pad().data(32 + 68).bytes();
}

class GgufVersion : public testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(All, GgufVersion, testing::Values(1, 2, 3));

TEST_P(GgufVersion, ReadsEveryValueTypeAndTurnsDimensionsAround) {
  const std::string bytes = small_file(GetParam());
  const Result<GgufFile> file = parse(bytes);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->version(), GetParam());
  EXPECT_EQ(file->find("u8")->as_int(), 200);
  EXPECT_EQ(file->find("i8")->as_int(), -3);
  EXPECT_EQ(file->find("u16")->as_int(), 65535);
  EXPECT_EQ(file->find("i16")->as_int(), -300);
  EXPECT_EQ(file->find("u32")->as_int(), 4000000000);
  EXPECT_EQ(file->find("i32")->as_int(), -70000);
  EXPECT_EQ(file->find("f32")->as_float(), 1.5);
  EXPECT_EQ(file->find("bool")->as_bool(), true);
  EXPECT_EQ(file->find("string")->as_string(), "h\xc3\xa9llo");
  EXPECT_EQ(file->find("u64")->as_int(), std::nullopt);
  EXPECT_EQ(std::get<uint64_t>(file->find("u64")->value), UINT64_MAX);
  EXPECT_EQ(file->find("i64")->as_int(), INT64_MIN);
  EXPECT_EQ(file->find("f64")->as_float(), -0.25);
  const auto tokens = file->find("tokens")->as_strings();
  ASSERT_TRUE(tokens.has_value());
  EXPECT_EQ(std::vector(tokens->begin(), tokens->end()), (std::vector<std::string_view>{"a", ""}));
  const auto& nested = std::get<GgufValue::Array>(file->find("nested")->value);
  EXPECT_EQ(nested[0].as_ints(), std::vector<int64_t>{7});
  EXPECT_EQ(nested[1].as_floats(), std::vector<double>{2.0});
  EXPECT_EQ(file->find("absent"), nullptr);

  ASSERT_EQ(file->tensors().size(), 2u);
  const RawTensor& a = file->tensors()[0];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.type_name, "Q8_0");
  EXPECT_EQ(a.dtype, std::nullopt);
  EXPECT_EQ(a.shape, (std::vector<int64_t>{2, 32}));
  EXPECT_EQ(a.data.size(), 68u);
  EXPECT_EQ(std::to_integer<int>(a.data[0]), 32);
  const RawTensor& b = file->tensors()[1];
  EXPECT_EQ(b.dtype, DType::kF32);
  EXPECT_EQ(b.shape, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(b.num_elements(), 6);
}

TEST_P(GgufVersion, RefusesEveryTruncation) {
  const std::string whole = small_file(GetParam());
  for (size_t length = 0; length < whole.size(); ++length) {
    const std::string cut = whole.substr(0, length);
    const Result<GgufFile> file = parse(cut);
    ASSERT_FALSE(file.ok()) << length;
    EXPECT_FALSE(file.status().message().empty());
  }
}

TEST(Gguf, RefusesWrongMagicAndVersions) {
  expect_refused("GGML" + std::string(40, '\0'), "magic");
  expect_refused(Writer().header(0, 0, 0x03000000).bytes(), "big-endian");
  expect_refused(Writer().header(0, 0, 4).bytes(), "expected GGUF version 1 to 3, got 4");
  expect_refused(Writer().header(0, 0, 0).bytes(), "expected GGUF version 1 to 3, got 0");
  EXPECT_TRUE(parse(Writer().header(0, 0, 1).bytes()).ok());
  EXPECT_TRUE(parse(Writer().header(0, 0, 2).bytes()).ok());
}

TEST(Gguf, RefusesHugeCountsAndLengths) {
  expect_refused(Writer().header(UINT32_MAX, 0, 1).bytes(), "do not fit");
  expect_refused(Writer().header(0, UINT32_MAX, 1).bytes(), "do not fit");
  expect_refused(Writer().header(UINT64_MAX, 0).bytes(), "do not fit");
  expect_refused(Writer().header(0, UINT64_MAX).bytes(), "do not fit");
  expect_refused(Writer().header(0, 1).num<uint64_t>(UINT64_MAX).num<uint64_t>(0).bytes(),
                 "at most");
  expect_refused(Writer().header(0, 1).str("k").num(kString).num<uint64_t>(1u << 30).bytes(),
                 "needs");
  for (const uint32_t type : {kU8, kU32, kString, kArray, kF64}) {
    expect_refused(
        Writer().header(0, 1).str("k").num(kArray).num(type).num<uint64_t>(1ull << 60).bytes(),
        "does not fit");
  }
}

TEST(Gguf, RefusesDeepArrays) {
  Writer w;
  w.header(0, 1).str("k").num(kArray);
  for (int i = 0; i < 100; ++i) w.num(kArray).num<uint64_t>(1);
  expect_refused(w.num(kU8).num<uint64_t>(0).bytes(), "nest deeper");
}

TEST(Gguf, RefusesBadValues) {
  expect_refused(Writer().header(0, 1).str("k").num<uint32_t>(13).num<uint64_t>(0).bytes(),
                 "unknown value type 13");
  expect_refused(Writer().header(0, 1).str("k").num(kBool).num<uint8_t>(2).bytes(), "0 or 1");
  expect_refused(Writer().header(0, 1).str("").num(kU8).num<uint8_t>(2).bytes(), "metadata key");
  expect_refused(Writer().header(0, 1).str("\xff\xfe").num(kU8).num<uint8_t>(2).bytes(), "UTF-8");
  expect_refused(Writer()
                     .header(0, 2)
                     .str("k")
                     .num(kU8)
                     .num<uint8_t>(2)
                     .str("k")
                     .num(kU8)
                     .num<uint8_t>(2)
                     .bytes(),
                 "'k' occurs twice");
  expect_refused(Writer()
                     .header(0, 2)
                     .str("a\nb")
                     .num(kU8)
                     .num<uint8_t>(2)
                     .str("a\nb")
                     .num(kU8)
                     .num<uint8_t>(2)
                     .bytes(),
                 "'a\\x0ab' occurs twice");
  expect_refused(Writer().header(0, 1).str("split.count").num(kU16).num<uint16_t>(2).bytes(),
                 "split");
}

std::string one_tensor(const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset,
                       size_t data = 64, const std::string& name = "w") {
  return Writer().header(1, 0).tensor(name, dims, type, offset).pad().data(data).bytes();
}

TEST(Gguf, RefusesBadTensors) {
  EXPECT_TRUE(parse(one_tensor({4, 4}, 0, 0)).ok());
  EXPECT_TRUE(parse(one_tensor({}, 0, 0)).ok());
  EXPECT_TRUE(parse(one_tensor({0, 4}, 0, 64)).ok());
  expect_refused(one_tensor({4, 5}, 0, 0), "exceed the 64 bytes");
  expect_refused(one_tensor({1, 1, 1, 1, 1}, 0, 0), "at most 4 dimensions");
  expect_refused(one_tensor({4}, 99, 0), "unknown ggml type 99");
  expect_refused(one_tensor({4}, 4, 0), "Q4_2 was withdrawn");
  expect_refused(one_tensor({16}, 2, 0), "multiple of 32 for Q4_0");
  expect_refused(one_tensor({4}, 0, 1), "not a multiple of 32");
  expect_refused(one_tensor({4}, 0, 96), "exceed");
  expect_refused(one_tensor({4}, 0, UINT64_MAX - 31), "exceed");
  expect_refused(one_tensor({uint64_t{1} << 33, uint64_t{1} << 33}, 0, 0), "overflows");
  expect_refused(one_tensor({uint64_t{1} << 62}, 0, 0), "overflows");
  expect_refused(one_tensor({UINT64_MAX}, 0, 0), "overflows");
  expect_refused(one_tensor({uint64_t{1} << 63, 2, 0}, 0, 0), "overflows");
  expect_refused(one_tensor({4}, 0, 0, 64, ""), "tensor name");
  expect_refused(one_tensor({4}, 0, 0, 64, "a\xc0\x80"), "UTF-8");
  expect_refused(one_tensor({4}, 0, 0, 64, std::string(2000, 'n')), "at most 1024");
  expect_refused(
      Writer().header(2, 0).tensor("w", {4}, 0, 0).tensor("w", {4}, 0, 32).pad().data(64).bytes(),
      "'w' occurs twice");
  expect_refused(
      Writer().header(2, 0).tensor("a", {16}, 0, 0).tensor("b", {4}, 0, 32).pad().data(64).bytes(),
      "'a' and 'b' overlap");
}

TEST(Gguf, ChecksAlignment) {
  const auto with = [](uint32_t type, uint32_t alignment) {
    return Writer()
        .header(1, 1)
        .str("general.alignment")
        .num(type)
        .num(alignment)
        .tensor("w", {4}, 0, 0)
        .pad(64)
        .data(64)
        .bytes();
  };
  EXPECT_TRUE(parse(with(kU32, 64)).ok());
  expect_refused(with(kU32, 0), "power of two");
  expect_refused(with(kU32, 48), "power of two");
  expect_refused(with(kU32, 1u << 31), "power of two");
  expect_refused(with(kF32, 0x42000000), "another type");
}

TEST(Gguf, KnowsTheSizeOfEveryBlockType) {
  for (uint32_t id = 0; id < 64; ++id) {
    const GgmlType* type = find_ggml_type(id);
    if (type == nullptr || type->block_elements == 0) continue;
    EXPECT_EQ(type->id, id);
    const std::string exact = one_tensor({type->block_elements, 3}, id, 0, type->block_bytes * 3);
    EXPECT_TRUE(parse(exact).ok()) << type->name;
    EXPECT_FALSE(parse(exact.substr(0, exact.size() - 1)).ok()) << type->name;
  }
}

TEST(Gguf, SurvivesRandomDamage) {
  const std::string whole = small_file();
  for (uint64_t round = 0; round < 20000; ++round) {
    std::string bytes = whole;
    const auto random = philox4x32(42, {static_cast<uint32_t>(round), 0, 0, 0});
    bytes[random[0] % bytes.size()] = static_cast<char>(random[1]);
    if (random[2] % 2 == 0) bytes[random[3] % bytes.size()] = static_cast<char>(0xff);
    const Result<GgufFile> file = parse(bytes);
    if (!file.ok()) {
      ASSERT_EQ(file.status().message().find('\n'), std::string::npos) << "round " << round;
    }
  }
}

}  // namespace
}  // namespace quire
