#include "chat/pair_prompt.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

// Each byte is a token, and a message is written "role=content;".
PairCodec bytes_codec() {
  return {
      .render = [](boost::json::array messages) -> Result<std::string> {
        std::string text;
        for (const boost::json::value& message : messages)
          text.append(message.at("role").as_string())
              .append("=")
              .append(message.at("content").as_string())
              .append(";");
        return text;
      },
      .encode = [](std::string_view text) -> Result<std::vector<TokenId>> {
        return std::vector<TokenId>(text.begin(), text.end());
      },
      .decode = [](std::span<const TokenId> ids) { return std::string(ids.begin(), ids.end()); }};
}

std::string written(const TextPair& pair) {
  const auto ids = encode_pair(pair, bytes_codec());
  return ids.ok() ? std::string(ids->begin(), ids->end()) : ids.status().message();
}

TEST(PairPrompt, IsTheTemplates) {
  EXPECT_EQ(written({.query = "a", .document = "b"}), "query=a;document=b;");
  EXPECT_EQ(written({.query = "a", .document = "b", .instruction = "judge"}),
            "system=judge;query=a;document=b;");
}

TEST(PairPrompt, LongDocumentsAreCutAtTheirEnd) {
  TextPair pair{.query = "a", .document = "0123456789", .max_tokens = 24};
  EXPECT_EQ(written(pair), "query=a;document=012345;");
  pair.max_tokens = 10;  // there is no room for any document
  EXPECT_EQ(written(pair), "query=a;document=;");
  pair.max_tokens = 28;
  EXPECT_EQ(written(pair), "query=a;document=0123456789;");
}

TEST(PairPrompt, TemplatesNameBothRoles) {
  EXPECT_TRUE(writes_pairs(R"({{ messages | selectattr("role", "eq", "query") }} 'document')"));
  EXPECT_FALSE(writes_pairs("to assist with the user query, {{ documents }}"));
  EXPECT_FALSE(writes_pairs(R"("query")"));
}

}  // namespace
}  // namespace quire
