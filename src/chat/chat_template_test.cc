#include "chat/chat_template.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "tests/support/test_data.h"

namespace quire {
namespace {

Result<std::string> render(const std::string& source, const boost::json::object& context = {},
                           const ChatTemplateLimits& limits = {}) {
  const auto parsed = ChatTemplate::parse(source, limits);
  if (!parsed.ok()) return parsed.status();
  return parsed->render(context);
}

std::string error_of(const std::string& source) {
  const auto text = render(source);
  return text.ok() ? "rendered: " + *text : text.status().message();
}

TEST(ChatTemplate, SaysWhereTheMistakeIs) {
  EXPECT_EQ(error_of("a\nb\n{{ x y }}"),
            "chat template, line 3: expected token 'end of print statement', got 'y'");
  EXPECT_EQ(error_of("\n{% if x %}\n"),
            "chat template, line 2: Unexpected end of template. Jinja was looking for the "
            "following tags: "
            "'elif' or 'else' or 'endif'.");
  EXPECT_EQ(error_of("\n\n{{ x.y }}"), "chat template, line 3: 'x' is undefined");
  EXPECT_EQ(error_of("{% for i in [1] %}\n{{ 1 + 'a' }}{% endfor %}"),
            "chat template, line 2: unsupported operand type(s) for +: 'int' and 'str'");
}

TEST(ChatTemplate, RaisedMessagesComeAsTheyAre) {
  const auto text = render("{{ raise_exception('Roles must alternate') }}");
  EXPECT_EQ(text.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(text.status().message(), "Roles must alternate");
}

TEST(ChatTemplate, IntegersBeyond64BitsAreErrors) {
  EXPECT_NE(error_of("{{ 9223372036854775807 + 1 }}").find("64 bits"), std::string::npos);
  EXPECT_NE(error_of("{{ 2 ** 64 }}").find("64 bits"), std::string::npos);
  EXPECT_NE(error_of("{{ 99999999999999999999 }}").find("64 bits"), std::string::npos);
  boost::json::object context;
  context["big"] = UINT64_MAX;
  EXPECT_EQ(*render("{{ big }}|{{ big | tojson }}|{{ big is integer }}", context),
            "18446744073709551615|18446744073709551615|True");
}

// Jinja sorts by lists of keys. A comparison of lists only orders their first elements that differ.
TEST(ChatTemplate, SortsEqualElementsThatHaveNoOrder) {
  EXPECT_EQ(*render("{{ [{'a': 1}, {'a': 1}] | sort }}"), "[{'a': 1}, {'a': 1}]");
  EXPECT_EQ(*render("{{ [none, none] | sort }}"), "[None, None]");
  EXPECT_EQ(*render("{{ [{'a': {}}, {'a': {}}] | sort(attribute='a') }}"),
            "[{'a': {}}, {'a': {}}]");
  EXPECT_NE(error_of("{{ [{'a': 1}, {'a': 2}] | sort }}").find("'dict' and 'dict'"),
            std::string::npos);
  EXPECT_NE(error_of("{{ [none, none] | min }}").find("not supported"), std::string::npos);
}

// Without limits, each of these would run for hours, use all memory or overflow the stack.
TEST(ChatTemplate, HostileTemplatesEnd) {
  const auto dir = test::source_dir() / "fuzz/corpus/chat_template";
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    if (!entry.path().filename().string().starts_with("hostile_")) continue;
    ChatTemplateLimits limits;
    limits.max_steps = 2'000'000;
    limits.max_memory_bytes = 64 << 20;
    const auto text = render(test::read_file(entry.path()), {}, limits);
    if (!text.ok()) {
      EXPECT_FALSE(text.status().message().empty());
      EXPECT_EQ(text.status().message().find('\n'), std::string::npos);
    }
    ++count;
  }
  EXPECT_GE(count, 15);
}

TEST(ChatTemplate, NamesTheLimitThatWasHit) {
  const std::pair<const char*, const char*> cases[] = {
      {"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
       "too many steps"},
      {"{{ 'a' * 9999999999 }}", "too much memory"},
      {"{{ [1] * 9999999999 }}", "too much memory"},
      {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recurses too deeply"},
      {"{{ range(100001) }}", "Range too big"},
      {"{% set ns = namespace(x=1) %}{% for i in range(999) %}{% set ns.x = [ns.x] %}{% endfor %}",
       "nest deeper"},
      {"{{ '{:999999999}'.format(1) }}", "width or precision"}};
  for (const auto& [source, part] : cases) {
    const auto text = render(source);
    ASSERT_FALSE(text.ok()) << source;
    EXPECT_EQ(text.status().code(), StatusCode::kTooLarge) << source;
    EXPECT_NE(text.status().message().find(part), std::string::npos) << text.status().message();
  }
  ChatTemplateLimits small;
  small.max_output_bytes = 10;
  EXPECT_EQ(render("0123456789", {}, small).ok(), true);
  EXPECT_NE(render("0123456789a", {}, small).status().message().find("exceeds 10 bytes"),
            std::string::npos);
  small.max_source_bytes = 5;
  EXPECT_EQ(render("0123456", {}, small).status().code(), StatusCode::kTooLarge);
  EXPECT_EQ(render("\xff").status().code(), StatusCode::kInvalidArgument);
}

TEST(ChatTemplate, LongConversationsFitTheDefaultLimits) {
  boost::json::array messages;
  for (int i = 0; i < 2000; ++i) {
    messages.push_back(
        {{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", std::string(2000, 'x')}});
  }
  boost::json::object context;
  context["messages"] = messages;
  const auto text = render(
      "{% for m in messages %}{{ '<|' + m['role'] + '|>' }}{% if m.content is string %}"
      "{{ m.content | trim + '\n' }}{% endif %}{% endfor %}",
      context);
  ASSERT_TRUE(text.ok()) << text.status().message();
  EXPECT_GT(text->size(), 4'000'000u);
}

TEST(ChatTemplate, RendersOnManyThreadsAtOnce) {
  const auto parsed = ChatTemplate::parse(
      "{% macro m(x) %}{{ x }}{% endmacro %}{% for i in range(200) %}{{ m(i) }}{{ 'lit' ~ name "
      "}}{% endfor %}");
  ASSERT_TRUE(parsed.ok());
  std::vector<std::thread> threads;
  std::vector<std::string> texts(4);
  for (size_t t = 0; t < texts.size(); ++t) {
    threads.emplace_back([&, t] {
      boost::json::object context;
      context["name"] = std::to_string(t);
      for (int round = 0; round < 20; ++round) texts[t] = *parsed->render(context);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 0; t < texts.size(); ++t) {
    EXPECT_EQ(texts[t].substr(0, 5), "0lit" + std::to_string(t));
  }
}

// Damaged templates give a text or an error; the sanitizer builds make this a memory check.
TEST(ChatTemplate, SurvivesRandomDamage) {
  std::vector<std::string> sources;
  for (const auto& entry :
       std::filesystem::directory_iterator(test::source_dir() / "fuzz/corpus/chat_template")) {
    if (entry.path().filename().string().starts_with("case_"))
      sources.push_back(test::read_file(entry.path()));
  }
  ASSERT_FALSE(sources.empty());
  std::sort(sources.begin(), sources.end());
  ChatTemplateLimits limits;
  limits.max_steps = 20'000;
  limits.max_memory_bytes = 4 << 20;
  constexpr std::string_view kBytes = "{}%#-+()[]|.,'\"x10 \n";
  for (uint32_t round = 0; round < 4000; ++round) {
    const auto random = philox4x32(44, {round, 0, 0, 0});
    std::string source = sources[random[0] % sources.size()];
    if (source.empty()) continue;
    source[random[1] % source.size()] = kBytes[random[2] % kBytes.size()];
    if (random[3] % 3 == 0) source.erase(random[3] / 3 % source.size(), 1 + random[2] % 5);
    const auto text = render(source, {}, limits);
    if (!text.ok()) {
      EXPECT_FALSE(text.status().message().empty()) << "round " << round << ": " << source;
    }
  }
}

}  // namespace
}  // namespace quire
