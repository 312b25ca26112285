#include "gateway/endpoints_file.h"

#include <gtest/gtest.h>

namespace quire::gateway {
namespace {

std::string addresses_of(std::string_view text) {
  const auto found = parse_endpoints(text);
  if (!found.ok()) return "refused: " + std::string(found.status().message());
  std::string all;
  for (const BackendAddress& address : *found) all += address.authority() + " ";
  return all;
}

TEST(ParseBackend, AddressesOfServers) {
  EXPECT_EQ(parse_backend("http://a.example:8000/")->authority(), "a.example:8000");
  EXPECT_EQ(parse_backend("10.0.0.1:80")->authority(), "10.0.0.1:80");
  EXPECT_EQ(parse_backend("http://[::1]:65535")->authority(), "[::1]:65535");
  for (const char* const bad :
       {"", "a", "a:", ":80", "a:0", "a:65536", "https://a:80", "http://a:80/v1", "a b:80", "[::1]",
        "[x]:80", "[::1:80", "a:80x", "a:+8", "http://u@a:80", "a\r\nb:80"}) {
    EXPECT_FALSE(parse_backend(bad).ok()) << bad;
  }
}

TEST(ParseEndpoints, AddressesALine) {
  EXPECT_EQ(addresses_of("# all\nhttp://a:1\n\n  b:2  # second\r\n"), "a:1 b:2 ");
  EXPECT_EQ(addresses_of("a:1\nnonsense\n").substr(0, 16), "refused: line 2:");
}

TEST(ParseEndpoints, FilesOfLlmD) {
  EXPECT_EQ(addresses_of("endpoints:\n"
                         "- name: a\n"
                         "  namespace: x\n"
                         "  address: 10.0.0.1\n"
                         "  port: \"8000\"\n"
                         "  labels:\n"
                         "    llm-d.ai/role: decode\n"
                         "    address: 9.9.9.9\n"
                         "  - address: 9.9.9.9\n"
                         "- {}\n")
                .substr(0, 8),
            "refused:");
  EXPECT_EQ(addresses_of("---\n# fleet\nendpoints:\n"
                         "  - address: 10.0.0.1\n"
                         "    port: 8000\n"
                         "    labels:\n"
                         "      address: 9.9.9.9\n"
                         "  - port: '1'\n"
                         "    address: ::1\n"),
            "10.0.0.1:8000 [::1]:1 ");
  EXPECT_NE(addresses_of("endpoints:\n- name: a\n- address: b\n  port: 1\n").find("line 3"),
            std::string::npos);
}

TEST(ParseEndpoints, Json) {
  EXPECT_EQ(addresses_of(R"( {"endpoints": [{"address": "a", "port": 8, "labels": {}},
                                            {"address": "b", "port": "9"}]})"),
            "a:8 b:9 ");
  for (const char* const bad : {"{", "{}", R"({"endpoints": [1]})", R"({"endpoints": []})",
                                R"({"endpoints": [{"address": "a", "port": 1.5}]})"}) {
    EXPECT_FALSE(parse_endpoints(bad).ok()) << bad;
  }
}

TEST(ParseEndpoints, NoBackendIsNoFleet) {
  EXPECT_FALSE(parse_endpoints("").ok());
  EXPECT_FALSE(parse_endpoints("endpoints:\n").ok());
  EXPECT_EQ(read_endpoints_file("/nonexistent").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace quire::gateway
