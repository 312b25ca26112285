// The text that a client gets through the whole engine, with tokens that the test chooses.
#include <gtest/gtest.h>

#include "base/utf8.h"
#include "engine/testing/engine_test_support.h"

namespace quire {
namespace {

using test::Answer;
using test::byte_tokenizer;
using test::request;
using test::Rig;
using test::small_rig;

// The model answers a prompt of one token with `script`.
test::RigOptions scripted(std::vector<TokenId> script,
                          const std::vector<std::string>& pieces = {}) {
  auto options = small_rig();
  options.tokenizer = byte_tokenizer(pieces);
  options.fake.next_token = [script](std::span<const TokenId> context) -> std::optional<TokenId> {
    return context.size() - 1 < script.size() ? script[context.size() - 1] : TokenId{'.'};
  };
  return options;
}

std::vector<TokenId> bytes(std::string_view text) {
  std::vector<TokenId> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

TEST(TextOutput, DeltasAreWholeCharacters) {
  const std::string text = "caf\xC3\xA9 \xF0\x9F\x98\x80!";
  Rig rig(scripted(bytes(text)));
  const auto id = rig.submit(request({'x'}, static_cast<int32_t>(text.size())));
  ASSERT_TRUE(id.ok());
  std::string seen;
  size_t num_tokens = 0;
  while (rig.engine().has_unfinished()) {
    rig.engine().step();
    while (auto delta = rig.client(*id).channel->try_pop()) {
      EXPECT_TRUE(is_valid_utf8(delta->text));
      seen += delta->text;
      num_tokens += delta->token_ids.size();
    }
  }
  EXPECT_EQ(seen, text);
  EXPECT_EQ(num_tokens, text.size());
}

// A character's text comes with its last token; text that is held back comes later than its token.
TEST(TextOutput, SaysWhereTheTextOfEachTokenEnds) {
  Rig rig(scripted(bytes("a\xC3\xA9ST.")));
  auto r = request({'x'}, 6);
  r.wants_text_ends = true;
  r.params.stop = {"STOP"};
  const auto id = rig.submit(r);
  ASSERT_TRUE(id.ok());
  std::string seen;
  std::vector<int64_t> ends;
  while (rig.engine().has_unfinished()) {
    rig.engine().step();
    while (auto delta = rig.client(*id).channel->try_pop()) {
      seen += delta->text;
      ends.insert(ends.end(), delta->text_ends_bytes.begin(), delta->text_ends_bytes.end());
    }
  }
  EXPECT_EQ(seen, "a\xC3\xA9ST.");
  EXPECT_EQ(ends, (std::vector<int64_t>{1, 1, 3, 4, 5, 6}));
}

TEST(TextOutput, StopStringSplitOverTokens) {
  Rig rig(scripted(bytes("hello STOP world")));
  auto r = request({'x'}, 50);
  r.params.stop = {"nope", "STOP"};
  Answer answer = rig.ask(r);
  EXPECT_EQ(answer.text, "hello ");
  EXPECT_EQ(answer.finish_reason, FinishReason::kStop);
  EXPECT_EQ(std::get<std::string>(answer.stop_reason), "STOP");
  EXPECT_EQ(answer.token_ids.size(), 10u);  // the tokens that spelled it count

  r.params.include_stop_str_in_output = true;
  answer = rig.ask(r);
  EXPECT_EQ(answer.text, "hello STOP");
}

TEST(TextOutput, StopInsideATokenCutsIt) {
  Rig rig(scripted({256, 257}, {"abST", "OPcd"}));
  auto r = request({'x'}, 50);
  r.params.stop = {"STOP"};
  EXPECT_EQ(rig.ask(r).text, "ab");
  r.params.include_stop_str_in_output = true;
  EXPECT_EQ(rig.ask(r).text, "abSTOP");
}

TEST(TextOutput, HeldTextComesOutWhenTheOutputEnds) {
  Rig rig(scripted(bytes("good STO")));
  auto r = request({'x'}, 8);
  r.params.stop = {"STOP"};
  const Answer answer = rig.ask(r);
  EXPECT_EQ(answer.text, "good STO");
  EXPECT_EQ(answer.finish_reason, FinishReason::kLength);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(answer.stop_reason));
}

TEST(TextOutput, StopStringOnTheLastAllowedTokenIsAStop) {
  Rig rig(scripted(bytes("ab.")));
  auto r = request({'x'}, 3);
  r.params.stop = {"b."};
  const Answer answer = rig.ask(r);
  EXPECT_EQ(answer.text, "a");
  EXPECT_EQ(answer.finish_reason, FinishReason::kStop);
}

TEST(TextOutput, MinTokensPutsStopStringsOff) {
  Rig rig(scripted(bytes("a.b.c.d")));
  auto r = request({'x'}, 7);
  r.params.stop = {"."};
  r.params.min_tokens = 4;
  EXPECT_EQ(rig.ask(r).text, "a.b.c");
}

TEST(TextOutput, StopTokensShowNoTextUnlessIncluded) {
  Rig rig(scripted({'h', 'i', 'Q', 'z'}));
  auto r = request({'x'}, 10);
  r.params.stop_token_ids = {'Q'};
  Answer answer = rig.ask(r);
  EXPECT_EQ(answer.text, "hi");
  EXPECT_EQ(answer.token_ids, (std::vector<TokenId>{'h', 'i', 'Q'}));
  r.params.include_stop_str_in_output = true;
  EXPECT_EQ(rig.ask(r).text, "hiQ");
}

TEST(TextOutput, SpecialTokensAreSilent) {
  Rig rig(scripted({'h', 256, 'i'}));  // 256 is <eos>
  auto r = request({'x'}, 3);
  r.params.eos_token_ids = {256};  // ignored: ignore_eos is set
  EXPECT_EQ(rig.ask(r).text, "hi");
  r.params.skip_special_tokens = false;
  EXPECT_EQ(rig.ask(r).text, "h<eos>i");
  r.params.ignore_eos = false;
  EXPECT_EQ(rig.ask(r).text, "h");
}

TEST(TextOutput, AnIncompleteCharacterAtTheEndIsReplaced) {
  Rig rig(scripted(bytes("a\xF0\x9F\x98")));
  const Answer answer = rig.ask(request({'x'}, 4));
  EXPECT_EQ(answer.text, "a\xEF\xBF\xBD");
}

TEST(TextOutput, ACharacterBegunByThePromptIsNotRepeated) {
  auto options = scripted({});
  options.fake.next_token = [](std::span<const TokenId> context) -> std::optional<TokenId> {
    return context.size() == 2 ? TokenId{0x98} : context.size() == 3 ? TokenId{0x80} : TokenId{'!'};
  };
  Rig rig(options);
  EXPECT_TRUE(is_valid_utf8(rig.ask(request({0xF0, 0x9F}, 3)).text));
}

}  // namespace
}  // namespace quire
