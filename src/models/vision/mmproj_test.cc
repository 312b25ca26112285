// Files that do not fit are refused with one line. tests/laws/vision_test.cc tests those that fit,
// from pictures to tokens.
#include "models/vision/mmproj.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "models/vision/vision_config.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_data.h"

namespace quire {
namespace {

std::filesystem::path golden(const std::string& name) {
  return test::source_dir() / "tests" / "goldens" / "mmproj" / name;
}

std::string read_tower(const std::string& name) {
  return test::read_file(golden(name) / "mmproj-model.gguf");
}

// Replaces bytes of a file; the lengths must be equal.
std::string replaced(std::string file, std::string_view from, std::string_view to) {
  QUIRE_CHECK(from.size() == to.size());
  const size_t at = file.find(from);
  QUIRE_CHECK(at != std::string::npos, "{}", from);
  return file.replace(at, to.size(), to);
}

// Sets an unsigned 32-bit number under `key`.
std::string with_number(std::string file, std::string_view key, uint32_t value) {
  const size_t at = file.find(key);
  QUIRE_CHECK(at != std::string::npos, "{}", key);
  return file.replace(at + key.size() + 4, 4, reinterpret_cast<const char*>(&value), 4);
}

Result<VisionSpec> parse(const std::string& mmproj, const std::string& model) {
  QUIRE_ASSIGN_OR_RETURN(const GgufFile tower,
                         GgufFile::parse("mmproj.gguf", std::as_bytes(std::span(mmproj))));
  QUIRE_ASSIGN_OR_RETURN(const GgufFile language,
                         GgufFile::parse("model.gguf", std::as_bytes(std::span(model))));
  QUIRE_RETURN_IF_ERROR(mmproj_tensors(tower).status());
  return parse_mmproj("mmproj.gguf", tower, language);
}

std::string error_of(const std::string& mmproj, const std::string& name = "qwen2_5_vl") {
  return parse(mmproj, test::read_file(golden(name) / "model.gguf")).status().message();
}

TEST(Mmproj, SaysWhatDoesNotFit) {
  const std::string tower = read_tower("qwen2_5_vl");
  ASSERT_EQ(error_of(tower), "");
  EXPECT_EQ(error_of(replaced(tower, "clip\x0c", "clap\x0c")),
            "mmproj.gguf: general.architecture: expected clip, got clap");
  EXPECT_EQ(
      error_of(replaced(tower, "qwen2.5vl_merger", "qwen9.9vl_merger")),
      "mmproj.gguf: clip.projector_type: expected one of mlp, gemma3, gemma4v, idefics3, "
      "internvl, pixtral, qwen2vl_merger, qwen2.5vl_merger, qwen3vl_merger; got qwen9.9vl_merger");
  EXPECT_EQ(error_of(with_number(tower, "clip.vision.projection_dim", 33)),
            "mmproj.gguf: clip.vision.projection_dim: expected the width of the language model, "
            "32, got 33: this is the projector of another model");
  EXPECT_EQ(error_of(with_number(tower, "clip.vision.block_count", 0)),
            "mmproj.gguf: clip.vision.block_count: expected a number above 0, got 0");
  EXPECT_EQ(error_of(with_number(tower, "clip.vision.block_count", 4'000'000'000)),
            "mmproj.gguf: clip.vision.block_count: expected a number from 0 to 1073741824, got "
            "4000000000");
  EXPECT_EQ(error_of(replaced(tower, "clip.vision.patch_size", "clip.vision.patch_sise")),
            "mmproj.gguf: clip.vision.patch_size: expected a number above 0, got nothing");
  EXPECT_EQ(error_of(with_number(tower, "clip.vision.attention.head_count", 5)),
            "mmproj.gguf: vision_config: hidden_size: expected 5 heads of an even size of at most "
            "576, got 24");
  EXPECT_EQ(error_of(tower, "gemma3"),
            "mmproj.gguf: expected a language model whose vocabulary has <|image_pad|>, the token "
            "in whose place a picture stands");
}

TEST(Mmproj, FramesMustBeAlike) {
  const std::string tower = read_tower("qwen2_vl");
  const std::string name = "v.patch_embd.weight.1";
  // Changes the last of the four sides, which come after their number, so that the tensor has fewer
  // rows.
  const size_t rows = tower.find(name) + name.size() + 4 + 3 * 8;
  std::string cut = tower;
  cut[rows] = 12;
  EXPECT_EQ(error_of(cut, "qwen2_vl"),
            "tensor 'v.patch_embd.weight.1': expected the shape and type of 'v.patch_embd.weight', "
            "of rank 4");
}

// Whatever the numbers in a file are, the result is a tower or an error of one line.
TEST(Mmproj, RandomNumbersAreAnsweredInOneLine) {
  std::mt19937 random(7);
  for (const char* name : {"llava", "gemma3", "smolvlm", "internvl", "mistral3", "qwen2_vl",
                           "qwen2_5_vl", "qwen3_vl", "gemma4"}) {
    const std::string tower = read_tower(name);
    const std::string model = test::read_file(golden(name) / "model.gguf");
    std::vector<size_t> numbers;
    for (const char* key : {"image_size", "patch_size", "embedding_length", "feed_forward_length",
                            "block_count", "attention.head_count", "projector.scale_factor",
                            "spatial_merge_size", "n_wa_pattern", "window_size"}) {
      const std::string whole = std::string("clip.vision.") + key;
      if (const size_t at = tower.find(whole); at != std::string::npos)
        numbers.push_back(at + whole.size() + 4);
    }
    for (int round = 0; round < 400; ++round) {
      std::string changed = tower;
      for (const size_t at : numbers) {
        if (random() % 3 != 0) continue;
        const auto value = static_cast<uint32_t>(random() >> (random() % 32));
        changed.replace(at, 4, reinterpret_cast<const char*>(&value), 4);
      }
      const std::string message = parse(changed, model).status().message();
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    }
  }
}

TEST(Mmproj, IsFoundBesideItsModel) {
  const test::TempFolder folder;
  const std::filesystem::path dir = folder.path();
  const auto copy = [&](const char* to, const std::filesystem::path& from) {
    std::filesystem::copy_file(from, dir / to);
  };
  copy("llava.gguf", golden("llava") / "model.gguf");
  const auto found = [&] { return ModelFiles::open((dir / "llava.gguf").string())->mmproj_name(); };
  EXPECT_EQ(found(), std::nullopt);
  copy("mmproj-llava-f32.gguf", golden("llava") / "mmproj-model.gguf");
  EXPECT_EQ(found(), "mmproj-llava-f32.gguf");
  EXPECT_EQ(ModelFiles::open(dir.string())->mmproj_name(), "mmproj-llava-f32.gguf") << "a folder";
  copy("other-mmproj.gguf", golden("llava") / "mmproj-model.gguf");
  EXPECT_EQ(found(), std::nullopt) << "nobody knows which";
  auto files = ModelFiles::open((dir / "llava.gguf").string());
  ASSERT_TRUE(files->use_mmproj((dir / "other-mmproj.gguf").string()).ok());
  EXPECT_EQ(files->mmproj_name(), "other-mmproj.gguf");
  ASSERT_TRUE(files->use_mmproj("").ok());
  EXPECT_EQ(files->mmproj_name(), std::nullopt);
  EXPECT_EQ(files->names(), std::vector<std::string>{"llava.gguf"});
  EXPECT_NE(files->use_mmproj((dir / "none.gguf").string()).message().find("expected a .gguf file"),
            std::string::npos);
}

}  // namespace
}  // namespace quire
