#include "server/json/plain_json.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

namespace quire::server {
namespace {

namespace json = boost::json;

TEST(PlainJson, NumbersAreWrittenAsPeopleWriteThem) {
  const json::value page = {
      {"uptime_s", 12.345678}, {"whole", 250.0}, {"none", nullptr}, {"flops", 2.5e11},
      {"small", 1e-7},         {"count", 7},     {"below", -0.5},   {"list", {1.5, "a\"b", true}}};
  EXPECT_EQ(plain_json(page),
            R"({"uptime_s":12.345678,"whole":250.0,"none":null,"flops":250000000000.0,)"
            R"("small":1e-07,"count":7,"below":-0.5,"list":[1.5,"a\"b",true]})");
}

TEST(PlainJson, ReadsBackAsItWas) {
  const json::value value = {{"a\n\"", {1.0 / 3, 1e300, -0.0, 18446744073709551615u}},
                             {"empty", {json::object(), json::array()}}};
  EXPECT_EQ(json::parse(plain_json(value)), value);
}

}  // namespace
}  // namespace quire::server
