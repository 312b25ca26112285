// The alignment heads that files list.
#include "models/speech/speech_config.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

DecoderSpec decoder() {
  DecoderSpec spec;
  spec.layers.resize(2);
  spec.cross = {.num_heads = 4, .num_kv_heads = 4, .head_dim = 8};
  return spec;
}

TEST(SpeechConfig, NamesTheHeadsThatAlign) {
  DecoderSpec spec = decoder();
  ASSERT_TRUE(parse_alignment(R"({"median_filter_width": 5})",
                              R"({"alignment_heads": [[0, 3], [1, 0]]})", spec)
                  .ok());
  ASSERT_EQ(spec.cross.alignment_heads.size(), 2u);
  EXPECT_EQ(spec.cross.alignment_heads[0].head, 3);
  EXPECT_EQ(spec.cross.alignment_heads[1].layer, 1);
  EXPECT_EQ(spec.cross.alignment_filter_rows, 5);
  for (const char* without : {"", "{}", R"({"alignment_heads": null})"}) {
    DecoderSpec plain = decoder();
    ASSERT_TRUE(parse_alignment("{}", without, plain).ok()) << without;
    EXPECT_TRUE(plain.cross.alignment_heads.empty());
    EXPECT_EQ(plain.cross.alignment_filter_rows, 7);
  }
}

TEST(SpeechConfig, HeadsThatAreNoneAreRefused) {
  for (const char* wrong : {"7", "[7]", "[[0]]", "[[0, 4]]", "[[2, 0]]", "[[-1, 0]]", "[[0, 1.5]]",
                            R"([["0", 1]])", "[[0, 1, 2]]"}) {
    DecoderSpec spec = decoder();
    const Status status =
        parse_alignment("{}", std::string(R"({"alignment_heads": )") + wrong + "}", spec);
    EXPECT_EQ(status.message(),
              "generation_config.json: alignment_heads: expected pairs of one of 2 layers and one "
              "of 4 heads")
        << wrong;
    EXPECT_TRUE(spec.cross.alignment_heads.empty());
  }
  DecoderSpec spec = decoder();
  EXPECT_EQ(parse_alignment(R"({"median_filter_width": 4})", "", spec).message(),
            "config.json: median_filter_width: expected an odd number, got 4");
}

}  // namespace
}  // namespace quire
