#include "chat/reasoning_counter.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace quire {
namespace {

int64_t count(ReasoningFormat format, const std::vector<std::string>& tokens) {
  ReasoningCounter counter(format);
  for (const std::string& token : tokens) counter.feed(token);
  return counter.num_tokens();
}

TEST(ReasoningCounter, CountsTokensBetweenTheMarks) {
  constexpr auto kQwen = ReasoningFormat::kQwen3;
  constexpr auto kR1 = ReasoningFormat::kDeepSeekR1;
  EXPECT_EQ(count(kQwen, {"<think>", "a", "b", "</think>", "c"}), 2);
  EXPECT_EQ(count(kQwen, {"\n", "<think>", "\n", "a", "</think>"}), 2);
  EXPECT_EQ(count(kQwen, {"<th", "ink>", "a", "</", "think", ">", "c"}), 1);
  EXPECT_EQ(count(kQwen, {"<think>", "a", "b"}), 2);  // cut inside
  EXPECT_EQ(count(kQwen, {"no", "thoughts", "</think>"}), 0);
  EXPECT_EQ(count(kR1, {"a", "b", "</think>", "c"}), 2);
  EXPECT_EQ(count(kR1, {"<think>", "a", "</think>", "c"}), 1);
  EXPECT_EQ(count(kR1, {"a", "<", "/think", ">", "c"}), 1);
  EXPECT_EQ(count(kR1, {"a", "</", "thing", "</think>"}), 3);
  EXPECT_EQ(count(ReasoningFormat::kNone, {"<think>", "a"}), 0);
}

// Against the definition: tokens that begin inside the reasoning, marks left out.
TEST(ReasoningCounter, AnyTokenizationCountsTheTokensThatBeginInside) {
  std::mt19937 rng(7);
  for (int round = 0; round < 2000; ++round) {
    std::string inside;
    for (auto i = rng() % 12; i > 0; --i) inside += "</think"[rng() % 7];
    const std::string text = "<think>" + inside + "</think>rest";
    const size_t end = text.find("</think>", 7);
    ReasoningCounter counter(ReasoningFormat::kQwen3);
    int64_t expected = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t size = std::min<size_t>(1 + rng() % 4, text.size() - at);
      counter.feed(text.substr(at, size));
      expected += at >= 7 && at < end ? 1 : 0;
      at += size;
    }
    EXPECT_EQ(counter.num_tokens(), expected) << text;
  }
}

}  // namespace
}  // namespace quire
