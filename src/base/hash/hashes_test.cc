// The values are those that the authors publish: masks, names of files and recorded outputs depend
// on them.
#include <gtest/gtest.h>

#include "base/hash/fnv1a.h"
#include "base/hash/splitmix64.h"

namespace quire {
namespace {

TEST(Hashes, SplitMix64GivesThePublishedSequence) {
  EXPECT_EQ(splitmix64(0), 0xE220A8397B1DCDAFu);
  EXPECT_EQ(splitmix64(0x9E3779B97F4A7C15u), 0x6E789E6AA1B965F4u);
  EXPECT_EQ(splitmix64_finalizer(0), 0u);
  EXPECT_EQ(splitmix64_finalizer(0x9E3779B97F4A7C15u), splitmix64(0));
}

TEST(Hashes, Fnv1aGivesThePublishedValues) {
  EXPECT_EQ(fnv1a(""), 0xCBF29CE484222325u);
  EXPECT_EQ(fnv1a("a"), 0xAF63DC4C8601EC8Cu);
  EXPECT_EQ(fnv1a("foobar"), 0x85944171F73967E8u);
  EXPECT_EQ(fnv1a("bar", fnv1a("foo")), fnv1a("foobar"));
}

}  // namespace
}  // namespace quire
