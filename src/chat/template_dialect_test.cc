// Every template that prints calls: what it prints is read back as the same calls, in the dialect
// that the template tells.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <map>

#include "chat/chat_prompt.h"
#include "chat/template_dialect.h"
#include "chat/testing/reply_text.h"
#include "tests/support/test_data.h"

namespace quire {
namespace {

namespace json = boost::json;

// Templates whose history of calls is in no form that a reader could take as a call, and why.
const std::map<std::string, std::string>& declared() {
  static const std::map<std::string, std::string> kDeclared = {
  };
  return kDeclared;
}

TEST(TemplateRoundTrip, CallsThatATemplatePrintsAreReadBack) {
  QUIRE_REQUIRE_SHARED(dir, "chat_templates");
  int num_read = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir)) {
    if (!entry.is_regular_file() || entry.path().extension() != ".jinja") continue;
    const std::string name = entry.path().lexically_relative(dir);
    const auto parsed = ChatTemplate::parse(test::read_file(entry.path()));
    ASSERT_TRUE(parsed.ok()) << name;
    const TemplateCalls calls = calls_of_template(*parsed, {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
    if (calls.printed.empty()) continue;
    const std::string dialect = calls.dialect != nullptr ? calls.dialect->name : "none";
    if (calls.reads_back) ++num_read;
    std::printf("%-62s %-16s %s\n", name.c_str(), dialect.c_str(),
                calls.reads_back ? "" : ("NOT READ BACK: " + calls.printed.substr(0, 150)).c_str());
    EXPECT_TRUE(calls.reads_back || declared().contains(name)) << name << ": " << calls.printed;
  }
  EXPECT_GE(num_read, 80);
}

}  // namespace
}  // namespace quire
