// These tests compare templates with the output of Python's jinja2. The expected outputs come from
// tools/make_chat_goldens.py and from the shared data.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "chat/chat_template.h"
#include "tests/support/test_data.h"

namespace quire {
namespace {

namespace json = boost::json;

// 2025-07-10 12:00:00, a Thursday.
RenderOptions fixed_clock() {
  std::tm now{};
  now.tm_year = 125;
  now.tm_mon = 6;
  now.tm_mday = 10;
  now.tm_hour = 12;
  now.tm_wday = 4;
  now.tm_yday = 190;
  return {.now = now};
}

std::string text_of(const json::value& value) { return std::string(value.as_string()); }

// Returns where two texts differ, with some text around it.
std::string first_difference(const std::string& got, const std::string& expected) {
  const auto [a, b] = std::mismatch(got.begin(), got.end(), expected.begin(), expected.end());
  const auto at = static_cast<size_t>(a - got.begin());
  const size_t from = at < 60 ? 0 : at - 60;
  return "at byte " + std::to_string(at) + "\n  got      ..." + got.substr(from, 140) +
         "\n  expected ..." + expected.substr(from, 140);
}

// Counts failures per template and prints the first ones.
class Report {
 public:
  void fail(const std::string& name, const std::string& why) {
    if (num_failures_++ < 40) ADD_FAILURE() << name << ": " << why;
  }
  ~Report() { EXPECT_EQ(num_failures_, 0); }

 private:
  int num_failures_ = 0;
};

void check(Report& report, const std::string& name, const Result<ChatTemplate>& parsed,
           const json::object& golden, const json::object& context) {
  const auto rendered =
      parsed.ok() ? parsed->render(context, fixed_clock()) : Result<std::string>(parsed.status());
  if (const json::value* expected = golden.if_contains("expected")) {
    if (!rendered.ok()) return report.fail(name, rendered.status().message());
    if (*rendered != text_of(*expected))
      report.fail(name, first_difference(*rendered, text_of(*expected)));
    return;
  }
  const std::string error = text_of(golden.at("error"));
  if (rendered.ok()) return report.fail(name, "rendered, but Python says " + error);
  constexpr std::string_view kRaised = "TemplateError: ";
  if (error.starts_with(kRaised) && rendered.status().message() != error.substr(kRaised.size())) {
    report.fail(name, rendered.status().message() + ", but Python says " + error);
  }
}

json::array read_cases(const std::filesystem::path& path) {
  json::error_code code;
  json::parse_options options;
  options.max_depth = 64;
  json::value root = json::parse(test::read_file(path), code, {}, options);
  EXPECT_FALSE(code) << path << ": " << code.message();
  return root.as_array();
}

TEST(ChatTemplateGolden, OwnTemplates) {
  Report report;
  const auto dir = test::source_dir() / "tests/goldens/chat";
  const json::value root = json::parse(test::read_file(dir / "cases.json"));
  const json::object& context = root.at("context").as_object();
  const json::array cases = read_cases(dir / "expected.json");
  EXPECT_GT(cases.size(), 200u);
  for (const json::value& item : cases) {
    const json::object& golden = item.as_object();
    const std::string source = text_of(golden.at("template"));
    check(report, source, ChatTemplate::parse(source), golden, context);
  }
}

TEST(ChatTemplateGolden, SharedTemplatesInAllConversations) {
  QUIRE_REQUIRE_SHARED(dir, "chat_templates");
  const auto path = test::source_dir() / "build/chat_goldens/shared.json";
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << "SKIPPED: make " << path << " with tools/make_chat_goldens.py --shared";
  }
  Report report;
  std::map<std::string, Result<ChatTemplate>> parsed;
  for (const json::value& item : read_cases(path)) {
    const json::object& golden = item.as_object();
    const std::string file = text_of(golden.at("template"));
    auto it = parsed.find(file);
    if (it == parsed.end())
      it = parsed.emplace(file, ChatTemplate::parse(test::read_file(dir / file))).first;
    const json::object& context = golden.at("context").as_object();
    check(report, file + " / " + text_of(golden.at("name")), it->second, golden, context);
  }
}

TEST(ChatTemplateGolden, SharedTemplatesParse) {
  QUIRE_REQUIRE_SHARED(dir, "chat_templates");
  int count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir)) {
    if (!entry.is_regular_file() || entry.path().extension() == ".json") continue;
    const auto parsed = ChatTemplate::parse(test::read_file(entry.path()));
    EXPECT_TRUE(parsed.ok()) << entry.path() << ": " << parsed.status().message();
    ++count;
  }
  EXPECT_GE(count, 140);
}

TEST(ChatTemplateGolden, LanguageCases) {
  QUIRE_REQUIRE_SHARED(path, "chat_templates/jinja_unit_cases.json");
  Report report;
  for (const json::value& item : read_cases(path)) {
    const json::object& golden = item.as_object();
    check(report, text_of(golden.at("name")), ChatTemplate::parse(text_of(golden.at("template"))),
          golden, golden.at("context").as_object());
  }
}

TEST(ChatTemplateGolden, ChatCases) {
  QUIRE_REQUIRE_SHARED(path, "chat_templates/hf_chat_cases.json");
  Report report;
  for (const json::value& item : read_cases(path)) {
    const json::object& golden = item.as_object();
    check(report, text_of(golden.at("name")),
          ChatTemplate::parse(text_of(golden.at("chat_template"))), golden,
          golden.at("data").as_object());
  }
}

}  // namespace
}  // namespace quire
