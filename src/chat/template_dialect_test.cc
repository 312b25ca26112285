// For every template that prints calls, what it prints is parsed to the same calls, in the dialect
// that was found for the template.
#include "chat/template_dialect.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <map>

#include "chat/chat_prompt.h"
#include "chat/testing/reply_text.h"
#include "tests/support/test_data.h"

namespace quire {
namespace {

namespace json = boost::json;

// These templates print calls in a form that their models do not write; the values say how it
// differs.
const std::map<std::string, std::string>& declared() {
  static const std::map<std::string, std::string> kDeclared = [] {
    std::map<std::string, std::string> all = {
        {"llama_cpp/MiniMax-M3.jinja", "nested tags, a dialect without a reader"},
        {"vllm/tool_chat_template_gemma3_pythonic.jinja", "no commas between arguments"},
        {"vllm/tool_chat_template_llama3.2_pythonic.jinja", "strings without quotes"},
        {"vllm/tool_chat_template_llama4_pythonic.jinja", "numbers in quotes"},
        {"vllm/tool_chat_template_phi4_mini.jinja", "Python's dict instead of JSON"},
        {"vllm/tool_chat_template_toolace.jinja", "strings without quotes"},
    };
    for (const char* const version : {"v2", "v2_spm", "v3", "v3_image", "v3_image_spm", "v3_spm",
                                      "v7", "v7_audio", "v7_image", "v7_image_spm", "v7_spm"}) {
      all.emplace(std::string("mistral_common/") + version + ".jinja", "quotes escaped for HTML");
    }
    return all;
  }();
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
    const TemplateCalls calls =
        calls_of_template(*parsed, {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
    if (calls.printed.empty()) continue;
    if (calls.reads_back) ++num_read;
    EXPECT_NE(calls.reads_back, declared().contains(name))
        << name << " as " << (calls.dialect != nullptr ? calls.dialect->name : "no dialect") << ": "
        << calls.printed;
  }
  EXPECT_GE(num_read, 80);
}

TEST(TemplateDialect, SignsDecideWhereNothingIsPrinted) {
  const auto named = [](const char* source) {
    const Dialect* const dialect = dialect_of_template(source);
    return dialect == nullptr ? std::string("none") : dialect->name;
  };
  EXPECT_EQ(named("{{ '<tool_call>' ~ {'name': c.name, 'arguments': c.arguments} }}"), "hermes");
  EXPECT_EQ(named("<tool_call><function=f> <parameter=a>"), "qwen3_coder");
  EXPECT_EQ(named("{{ '[TOOL_CALLS]' }}"), "mistral_list");
  EXPECT_EQ(named("{{ '[TOOL_CALLS]' ~ name ~ '[ARGS]' }}"), "mistral");
  EXPECT_EQ(named("<|start_header_id|> {{ '\"parameters\": ' }}"), "llama3_json");
  EXPECT_EQ(named("{{ messages }}"), "none");
}

}  // namespace
}  // namespace quire
