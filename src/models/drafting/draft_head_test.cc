// Hostile and odd checkpoints of draft models: the error is one line that says what was expected
// and what was found.
#include "models/drafting/draft_head.h"

#include <gtest/gtest.h>

#include <random>

#include "models/drafting/medusa_checkpoint.h"
#include "tests/support/test_data.h"

namespace quire {
namespace {

struct Blobs {
  std::string config, tensors;
  std::string tensors_name = "model.safetensors";

  ModelFiles files() const {
    return ModelFiles::from_memory({{"config.json", std::as_bytes(std::span(config))},
                                    {tensors_name, std::as_bytes(std::span(tensors))}});
  }
};

Blobs golden(const std::string& name, const std::string& tensors_name = "model.safetensors") {
  const auto dir = test::source_dir() / "tests/goldens" / name;
  return {test::read_file(dir / "config.json"), test::read_file(dir / tensors_name), tensors_name};
}

void replace(std::string& text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
}

class DraftHeads : public ::testing::Test {
 protected:
  static DraftTarget target() {
    static const Blobs blobs = golden("models/llama");
    DraftTarget target{.files = std::make_shared<const ModelFiles>(blobs.files())};
    target.config = *read_model_config(*target.files, *TensorSource::open(*target.files));
    return target;
  }

  Status read(DraftHeadKind kind, const Blobs& blobs) {
    files_ = std::make_shared<const ModelFiles>(blobs.files());
    return read_draft_head(kind, files_, target()).status();
  }

  void expect_error(DraftHeadKind kind, const Blobs& blobs, std::string_view said) {
    const Status status = read(kind, blobs);
    EXPECT_FALSE(status.ok()) << said;
    EXPECT_NE(status.message().find(said), std::string::npos) << status.message();
  }

 private:
  std::shared_ptr<const ModelFiles> files_;
};

TEST_F(DraftHeads, ConfigurationsThatCannotBe) {
  const Blobs eagle3 = golden("drafting/eagle3_original");
  ASSERT_TRUE(read(DraftHeadKind::kEagle3, eagle3).ok());
  const struct {
    std::string_view more, said;
  } kWrong[] = {
      {R"("norm_before_fc": true,)", "norm_before_fc: expected false, got true"},
      {R"("target_hidden_size": 64,)",
       "target_hidden_size: expected 32, the served model's, got 64"},
      {R"("eagle_aux_hidden_state_layer_ids": [1, 9, 2],)",
       "[0, 3], those of the served model, got 9"},
      {R"("eagle_aux_hidden_state_layer_ids": [1, 0.5],)", "got 0.5"},
      {R"("eagle_config": {"use_aux_hidden_state": false},)", "use_aux_hidden_state"},
      {R"("speculators_model_type": "dflash",)", "expected eagle or eagle3, got dflash"},
  };
  for (const auto& wrong : kWrong) {
    Blobs blobs = eagle3;
    replace(blobs.config, "{", std::string("{").append(wrong.more));
    expect_error(DraftHeadKind::kEagle3, blobs, wrong.said);
  }
  Blobs blobs = eagle3;
  replace(blobs.config, R"("num_hidden_layers": 1)", R"("num_hidden_layers": 2)");
  expect_error(DraftHeadKind::kEagle3, blobs, "num_hidden_layers: expected 1");
  blobs = eagle3;
  replace(blobs.config, R"("draft_vocab_size": 96)", R"("draft_vocab_size": 95)");
  expect_error(DraftHeadKind::kEagle3, blobs, "'d2t': expected I64 or I32 [95], got I64 [96]");
  blobs = eagle3;
  blobs.config = "[]";
  expect_error(DraftHeadKind::kEagle3, blobs, "config.json: expected an object, got []");
}

TEST_F(DraftHeads, LossyProposalsAreRefused) {
  struct Case {
    const char* from;
    const char* to;
    const char* error;
  };
  for (const Case& one :
       {Case{R"("accept_tolerance": 0.0)", R"("accept_tolerance": 2)",
             "accept_tolerance: expected 0, since drafts never change an answer, got 2"},
        Case{R"("verifier_accept_k": 1)", R"("verifier_accept_k": 3)",
             "verifier_accept_k: expected 1, since drafts never change an answer, got 3"}}) {
    Blobs blobs = golden("drafting/eagle3_speculators");
    ASSERT_TRUE(read(DraftHeadKind::kEagle3, blobs).ok());
    replace(blobs.config, one.from, one.to);
    expect_error(DraftHeadKind::kEagle3, blobs, one.error);
  }
}

TEST_F(DraftHeads, TokensOutsideTheVocabularyAreRefused) {
  Blobs blobs = golden("drafting/eagle3_original");
  const TensorSource source = *TensorSource::open(blobs.files());
  const RawTensor* map = source.find("d2t");
  ASSERT_NE(map, nullptr);
  const auto offset =
      static_cast<size_t>(reinterpret_cast<const char*>(map->data.data()) - blobs.tensors.data());
  for (const int64_t value : {int64_t{1} << 62, -(int64_t{1} << 62), int64_t{160}, int64_t{-1}}) {
    Blobs wrong = blobs;
    std::memcpy(wrong.tensors.data() + offset, &value, sizeof(value));
    expect_error(DraftHeadKind::kEagle3, wrong, "'d2t': row 0: expected a token in [0, 160)");
  }
  Blobs twice = blobs;  // the second row's token is the first one's
  int64_t first = 0;
  std::memcpy(&first, twice.tensors.data() + offset, sizeof(first));
  const int64_t second = first - 1;
  std::memcpy(twice.tensors.data() + offset + sizeof(first), &second, sizeof(second));
  expect_error(DraftHeadKind::kEagle3, twice, "that no row before has");
}

TEST_F(DraftHeads, MedusaHeadsThatCannotBe) {
  const auto error_of = [](const Blobs& blobs, int64_t vocab_size = 160) {
    const ModelFiles files = blobs.files();
    return read_medusa(files, 32, vocab_size).status().message();
  };
  const Blobs original = golden("drafting/medusa_original", "medusa_lm_head.safetensors");
  EXPECT_EQ(error_of(original), "");
  EXPECT_NE(error_of(original, 161).find("expected rows for the served model's 161 tokens"),
            std::string::npos);
  Blobs blobs = original;
  replace(blobs.config, R"("medusa_num_heads": 4)", R"("medusa_num_heads": 5)");
  EXPECT_NE(error_of(blobs).find("medusa_num_heads: expected 4, as there are tensors, got 5"),
            std::string::npos)
      << error_of(blobs);
  blobs = original;
  replace(blobs.tensors, "\"0.0.linear.weight\"", "\"9.0.linear.weight\"");
  EXPECT_NE(error_of(blobs).find("expected Medusa heads"), std::string::npos) << error_of(blobs);
  blobs = {.config = "{}", .tensors = "\x80\x02", .tensors_name = "medusa_lm_head.pt"};
  EXPECT_NE(error_of(blobs).find("got a pickle"), std::string::npos) << error_of(blobs);
}

// Bytes that are changed at random give a result or an error, and nothing else.
TEST_F(DraftHeads, SurviveChangedBytes) {
  std::mt19937 random(7);
  const std::pair<const char*, DraftHeadKind> kHeads[] = {
      {"drafting/eagle", DraftHeadKind::kEagle},
      {"drafting/eagle3_original", DraftHeadKind::kEagle3},
      {"drafting/eagle3_speculators", DraftHeadKind::kEagle3}};
  for (const auto& [name, kind] : kHeads) {
    const Blobs whole = golden(name);
    for (int i = 0; i < 300; ++i) {
      Blobs blobs = whole;
      std::string& text = i % 2 == 0 ? blobs.config : blobs.tensors;
      for (int flip = 0; flip < 3; ++flip)
        text[random() % std::min<size_t>(text.size(), 4000)] = static_cast<char>(random());
      static_cast<void>(read(kind, blobs));
      static_cast<void>(read_medusa(blobs.files(), 32, 160));
    }
  }
}

}  // namespace
}  // namespace quire
