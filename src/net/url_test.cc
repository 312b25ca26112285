#include "net/url.h"

#include <gtest/gtest.h>

namespace quire::net {
namespace {

std::string parsed(std::string_view text) {
  const Result<Url> url = parse_url(text);
  return url.ok() ? url->text() : "error";
}

TEST(Url, HostPortAndTarget) {
  const Result<Url> url = parse_url("https://models.example:8443/a/b.gguf?x=1#part");
  ASSERT_TRUE(url.ok());
  EXPECT_TRUE(url->is_encrypted);
  EXPECT_EQ(url->host, "models.example");
  EXPECT_EQ(url->port, "8443");
  EXPECT_EQ(url->target, "/a/b.gguf?x=1");
  EXPECT_EQ(url->path(), "/a/b.gguf");
  EXPECT_EQ(parse_url("http://[::1]")->host, "::1");
  EXPECT_EQ(parse_url("http://[::1]:81")->authority(), "[::1]:81");
  EXPECT_EQ(parse_url("http://a")->port, "80");
  EXPECT_EQ(parse_url("https://a:443/")->authority(), "a");
  EXPECT_EQ(parsed("http://a?q"), "http://a/?q");
  EXPECT_EQ(parse_url("http://a", {.port = "4318", .target = "/v1"})->text(), "http://a:4318/v1");
}

TEST(Url, WhatIsNone) {
  for (const char* const bad :
       {"", "a", "ftp://a", "http://", "http:///x", "http://:80", "http://a:", "http://a:b",
        "http://a:65536", "http://a:123456", "http://u@a/", "http://a b/", "http://a/b c",
        "http://::1/", "http://[::1", "http://a/\x80", "http://a/\r\nHost: b"}) {
    EXPECT_EQ(parsed(bad), "error") << bad;
  }
}

TEST(Url, References) {
  const Url base = *parse_url("https://a:1/x/y/z?q");
  const auto resolved = [&](std::string_view reference) {
    const Result<Url> url = resolve(base, reference);
    return url.ok() ? url->text() : "error";
  };
  EXPECT_EQ(resolved("http://b/c"), "http://b/c");
  EXPECT_EQ(resolved("//b:2/c"), "https://b:2/c");
  EXPECT_EQ(resolved("/c?d"), "https://a:1/c?d");
  EXPECT_EQ(resolved("c"), "https://a:1/x/y/c");
  EXPECT_EQ(resolved("../c"), "https://a:1/x/c");
  EXPECT_EQ(resolved("../../../../c/"), "https://a:1/c/");
  EXPECT_EQ(resolved("./"), "https://a:1/x/y/");
  EXPECT_EQ(resolved(".."), "https://a:1/x/");
  EXPECT_EQ(resolved("?r"), "https://a:1/x/y/z?r");
  EXPECT_EQ(resolved("#f"), "https://a:1/x/y/z?q");
  EXPECT_EQ(resolved("c?to=http://b/"), "https://a:1/x/y/c?to=http://b/");
  EXPECT_EQ(resolved("file:///etc/passwd"), "error");
  EXPECT_EQ(resolved("/a b"), "error");
}

TEST(Url, PercentSigns) {
  EXPECT_EQ(percent_encoded("a b/ü%"), "a%20b/%C3%BC%25");
  EXPECT_EQ(*percent_decoded("a%20b/%C3%bc%25"), "a b/ü%");
  for (const char* const bad : {"%", "%1", "%zz", "a%2"}) EXPECT_FALSE(percent_decoded(bad).ok());
}

}  // namespace
}  // namespace quire::net
