#include "chat/reply/reasoning_splitter.h"

#include <gtest/gtest.h>

#include <random>

namespace quire {
namespace {

struct Told {
  std::string reasoning, answer;
};

Told told(const ReasoningStyle* style, const std::vector<std::string>& parts) {
  ReasoningSplitter splitter(style);
  Told all;
  const auto take = [&](const std::vector<ReasoningSplitter::Piece>& pieces) {
    for (const auto& piece : pieces)
      (piece.is_reasoning ? all.reasoning : all.answer) += piece.text;
  };
  for (const std::string& part : parts) take(splitter.add(part));
  take(splitter.finish());
  return all;
}

TEST(ReasoningSplitter, MarksTell) {
  const ReasoningStyle* const qwen = find_reasoning_style("qwen3");
  ASSERT_NE(qwen, nullptr);
  const Told both = told(qwen, {"\n<think>a b</think>", "\n\nyes <think>"});
  EXPECT_EQ(both.reasoning, "\n<think>a b</think>");
  EXPECT_EQ(both.answer, "\n\nyes <think>");
  EXPECT_EQ(told(qwen, {"<thin", "g"}).answer, "<thing");
  EXPECT_EQ(told(qwen, {"<think>never", " ends</thi"}).reasoning, "<think>never ends</thi");
  EXPECT_EQ(told(nullptr, {"<think>a</think>"}).answer, "<think>a</think>");
}

// However the text is cut, the result is the same, and no text is lost.
TEST(ReasoningSplitter, CutsChangeNothing) {
  std::mt19937 random(7);
  for (const ReasoningStyle& style : reasoning_styles()) {
    if (style.begins.empty() || style.ends.empty()) continue;
    const std::string texts[] = {style.begins.front() + "one " + style.begins.front() +
                                     style.ends.front() + "two" + style.ends.front(),
                                 "plain " + style.begins.front(), style.begins.front(),
                                 style.ends.front(), " \n"};
    for (const std::string& text : texts) {
      const Told whole = told(&style, {text});
      EXPECT_EQ(whole.reasoning + whole.answer, text);
      for (int round = 0; round < 20; ++round) {
        std::vector<std::string> parts;
        for (size_t at = 0; at < text.size();) {
          const size_t size = 1 + random() % 4;
          parts.push_back(text.substr(at, size));
          at += size;
        }
        const Told cut = told(&style, parts);
        EXPECT_EQ(cut.reasoning, whole.reasoning) << style.name << ": " << text;
        EXPECT_EQ(cut.answer, whole.answer);
      }
    }
  }
}

}  // namespace
}  // namespace quire
