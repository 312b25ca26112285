#include "weights/files/tensor_source.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/dtype.h"
#include "tests/support/test_data.h"
#include "weights/gguf/gguf.h"

namespace quire {
namespace {

std::string file_of(const std::string& header, size_t data_bytes) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(header.size() >> (8 * i));
  return out + header + std::string(data_bytes, '\0');
}

using Blobs = std::vector<std::pair<std::string, std::string>>;

ModelFiles in_memory(const Blobs& blobs) {
  std::vector<std::pair<std::string, std::span<const std::byte>>> views;
  for (const auto& [name, text] : blobs) views.emplace_back(name, std::as_bytes(std::span(text)));
  return ModelFiles::from_memory(views);
}

const std::string kShard1 = file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8);
const std::string kShard2 = file_of(
    R"({"b":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},"x":{"dtype":"F16","shape":[2],"data_offsets":[4,8]}})",
    8);

TEST(TensorSource, JoinsShardsByTheIndex) {
  const Blobs blobs = {{"config.json", "{}"},
                       {"model.safetensors.index.json",
                        R"({"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})"},
                       {"1.safetensors", kShard1},
                       {"2.safetensors", kShard2}};
  const ModelFiles files = in_memory(blobs);
  const auto source = TensorSource::open(files);
  ASSERT_TRUE(source.ok()) << source.status().message();
  EXPECT_EQ(source->names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(source->total_bytes(), 12);
  ASSERT_NE(source->find("b"), nullptr);
  EXPECT_EQ(source->find("b")->dtype, DType::kF16);
  EXPECT_EQ(source->find("x"), nullptr);
  EXPECT_EQ(source->require("x").status().code(), StatusCode::kNotFound);
}

TEST(TensorSource, SaysWhichShardOrTensorIsMissing) {
  const Blobs no_shard = {{"model.safetensors.index.json",
                           R"({"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})"},
                          {"1.safetensors", kShard1}};
  const ModelFiles first = in_memory(no_shard);
  EXPECT_NE(TensorSource::open(first).status().message().find("2.safetensors, which is missing"),
            std::string::npos);
  const Blobs no_tensor = {
      {"model.safetensors.index.json", R"({"weight_map":{"b":"1.safetensors"}})"},
      {"1.safetensors", kShard1}};
  const ModelFiles second = in_memory(no_tensor);
  EXPECT_NE(TensorSource::open(second).status().message().find("holds tensor 'b', but it does not"),
            std::string::npos);
  const ModelFiles third = in_memory({{"config.json", "{}"}, {"pytorch_model.bin", "x"}});
  EXPECT_NE(TensorSource::open(third).status().message().find("pickle"), std::string::npos);
  const ModelFiles fourth = in_memory({{"config.json", "{}"}});
  EXPECT_EQ(TensorSource::open(fourth).status().code(), StatusCode::kNotFound);
}

std::vector<float> values(const RawTensor& tensor) {
  std::vector<float> out(static_cast<size_t>(tensor.num_elements()));
  if (tensor.dtype == DType::kF32) {
    std::memcpy(out.data(), tensor.data.data(), tensor.data.size());
  } else {
    std::vector<bfloat16> raw(out.size());
    std::memcpy(raw.data(), tensor.data.data(), tensor.data.size());
    for (size_t i = 0; i < raw.size(); ++i) out[i] = to_float(raw[i]);
  }
  return out;
}

// Reorders q and k rows to the Hugging Face layout: within a head, first the first elements of all
// rotated pairs, then the second ones.
std::vector<float> permute_rows(const std::vector<float>& rows, size_t heads, size_t columns) {
  const size_t head_rows = rows.size() / columns / heads;
  std::vector<float> out(rows.size());
  for (size_t h = 0; h < heads; ++h) {
    for (size_t r = 0; r < head_rows; ++r) {
      const size_t to = r % 2 * (head_rows / 2) + r / 2;
      std::copy_n(rows.begin() + static_cast<ptrdiff_t>((h * head_rows + r) * columns), columns,
                  out.begin() + static_cast<ptrdiff_t>((h * head_rows + to) * columns));
    }
  }
  return out;
}

void expect_close(const std::vector<float>& a, const std::vector<float>& b, float relative,
                  const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_LE(std::abs(a[i] - b[i]), relative * std::abs(a[i])) << what << " element " << i;
  }
}

TEST(TensorSource, ThreeLayoutsOfOneModelAgree) {
  QUIRE_REQUIRE_SHARED(dir, "models/stories260K");
  const auto f32_files = ModelFiles::open((dir / "hf_f32").string());
  const auto bf16_files = ModelFiles::open((dir / "hf_bf16").string());
  const auto gguf_files = ModelFiles::open((dir / "stories260K.gguf").string());
  ASSERT_TRUE(f32_files.ok() && bf16_files.ok() && gguf_files.ok());
  const auto f32 = TensorSource::open(*f32_files);
  const auto bf16 = TensorSource::open(*bf16_files);
  const auto gguf = TensorSource::open(*gguf_files);
  ASSERT_TRUE(f32.ok()) << f32.status().message();
  ASSERT_TRUE(bf16.ok()) << bf16.status().message();
  ASSERT_TRUE(gguf.ok()) << gguf.status().message();
  EXPECT_EQ(f32->names(), bf16->names());
  for (const RawTensor& tensor : f32->tensors()) {
    const RawTensor* half = bf16->find(tensor.name);
    ASSERT_EQ(half->shape, tensor.shape);
    expect_close(values(tensor), values(*half), 1.0f / 256, tensor.name);
  }
  const std::pair<const char*, const char*> plain[] = {
      {"token_embd.weight", "model.embed_tokens.weight"},
      {"blk.0.attn_v.weight", "model.layers.0.self_attn.v_proj.weight"},
      {"blk.4.ffn_down.weight", "model.layers.4.mlp.down_proj.weight"},
      {"output_norm.weight", "model.norm.weight"}};
  for (const auto& [theirs, ours] : plain) {
    ASSERT_NE(gguf->find(theirs), nullptr) << theirs;
    EXPECT_EQ(gguf->find(theirs)->shape, f32->find(ours)->shape);
    expect_close(values(*gguf->find(theirs)), values(*f32->find(ours)), 1e-6f, ours);
  }
  const auto* q = gguf->find("blk.2.attn_q.weight");
  const auto* k = gguf->find("blk.2.attn_k.weight");
  ASSERT_TRUE(q != nullptr && k != nullptr);
  expect_close(permute_rows(values(*q), 8, 64),
               values(*f32->find("model.layers.2.self_attn.q_proj.weight")), 1e-6f, "q");
  expect_close(permute_rows(values(*k), 4, 64),
               values(*f32->find("model.layers.2.self_attn.k_proj.weight")), 1e-6f, "k");
}

TEST(TensorSource, ReadsTheMetadataOfARealGguf) {
  QUIRE_REQUIRE_SHARED(dir, "models/stories260K");
  const auto files = ModelFiles::open((dir / "stories260K.gguf").string());
  ASSERT_TRUE(files.ok());
  const auto file = GgufFile::parse("stories260K.gguf", *files->bytes("stories260K.gguf"));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->find("general.architecture")->as_string(), "llama");
  EXPECT_EQ(file->find("llama.block_count")->as_int(), 5);
  EXPECT_EQ(file->find("tokenizer.ggml.tokens")->as_strings()->size(), 512u);
}

}  // namespace
}  // namespace quire
