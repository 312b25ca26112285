#include "server/files/multipart.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace quire::server {
namespace {

constexpr std::string_view kType = "multipart/form-data; boundary=x";

TEST(Multipart, PartsAreReadAsTheyWereWritten) {
  const std::string body =
      "--x\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
      "--x\r\ncontent-type: text/plain\r\ncontent-disposition: form-data; name=file; "
      "filename=\"a \\\"b\\\".jsonl\"\r\n\r\nline\r\n--xy is text\r\n\r\n--x--\r\n";
  const auto parts = parse_form(kType, body);
  // A search for "--x" alone also finds "--xy" as a boundary, and text after a boundary is refused.
  ASSERT_FALSE(parts.ok());
  const std::string good =
      "preamble\r\n--x\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
      "--x  \r\ncontent-type: text/plain\r\ncontent-disposition: form-data; name=file; "
      "filename=\"a \\\"b\\\".jsonl\"\r\n\r\nli\r\nne--x\r\n\r\n--x--\r\nafter";
  const auto read = parse_form("Multipart/Form-Data; charset=utf-8; boundary=\"x\"", good);
  ASSERT_TRUE(read.ok()) << read.error().message;
  ASSERT_EQ(read.value().size(), 2u);
  EXPECT_EQ(read.value()[0].name, "purpose");
  EXPECT_EQ(read.value()[0].data, "batch");
  EXPECT_FALSE(read.value()[0].filename);
  EXPECT_EQ(read.value()[1].filename, "a \"b\".jsonl");
  EXPECT_EQ(read.value()[1].data, "li\r\nne--x\r\n");
  EXPECT_EQ(find_part(read.value(), "file"), &read.value()[1]);
  EXPECT_EQ(find_part(read.value(), "no"), nullptr);
}

TEST(Multipart, SaysWhatIsWrong) {
  const std::string head = "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n";
  std::string many;
  for (int i = 0; i < 17; ++i) many += head + "v\r\n";
  for (const auto& [body, said] : std::map<std::string, std::string>{
           {"", "without its boundary"},
           {"abc", "without its boundary"},
           {"--x\r\n\r\nabc\r\n--x--", "without Content-Disposition"},
           {"--x\r\nContent-Disposition: form-data\r\n\r\nabc\r\n--x--", "without a name"},
           {"--x\r\nContent-Disposition: form-data; name=\"a\r\n\r\nabc\r\n--x--",
            "without a name"},
           {"--x\r\nContent-Disposition: form-data; name=\"a\"\r\nabc\r\n--x--", "without a head"},
           {head + "abc", "ends within a part"},
           {head + "abc\r\n--x", "text behind it"},
           {many + "--x--", "over 16 parts"}}) {
    const auto parts = parse_form(kType, body);
    ASSERT_FALSE(parts.ok()) << body;
    EXPECT_NE(parts.error().message.find(said), std::string::npos) << parts.error().message;
  }
  EXPECT_FALSE(parse_form("application/json", "{}").ok());
  EXPECT_FALSE(parse_form("", "{}").ok());
  EXPECT_FALSE(parse_form("multipart/form-data", "--x--").ok());
  EXPECT_FALSE(parse_form("multipart/form-data; boundary=", "----").ok());
  EXPECT_TRUE(parse_form(kType, "--x--").value().empty());
}

// The parser reads back what a writer writes, whatever bytes the parts have, except for the
// boundary.
TEST(Multipart, RandomPartsComeBack) {
  std::mt19937 random(7);
  const auto below = [&](uint64_t n) { return random() % n; };
  for (int round = 0; round < 500; ++round) {
    std::vector<std::string> datas;
    std::string body;
    const uint64_t num_parts = below(5);
    for (uint64_t i = 0; i < num_parts; ++i) {
      std::string data;
      for (uint64_t n = below(40); n > 0; --n) data += "\r\n-a\0\xff"[below(7)];
      body += fmt::format("--=bound\r\nContent-Disposition: form-data; name=\"p{}\"\r\n\r\n{}\r\n",
                          i, data);
      datas.push_back(std::move(data));
    }
    const auto parts = parse_form("multipart/form-data; boundary==bound", body + "--=bound--\r\n");
    ASSERT_TRUE(parts.ok()) << parts.error().message;
    ASSERT_EQ(parts.value().size(), datas.size());
    for (size_t i = 0; i < datas.size(); ++i) EXPECT_EQ(parts.value()[i].data, datas[i]);
  }
}

}  // namespace
}  // namespace quire::server
