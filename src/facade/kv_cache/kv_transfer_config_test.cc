#include "facade/kv_cache/kv_transfer_config.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(KvTransferConfig, RolesAndPolicies) {
  const auto none = parse_kv_transfer_config("");
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->gives || none->takes);
  const auto producer = parse_kv_transfer_config(
      R"({"kv_connector":"QuireConnector","kv_role":"kv_producer","kv_port":1,
          "kv_connector_extra_config":{"kv_lease_duration":2.5}})");
  ASSERT_TRUE(producer.ok()) << producer.status().message();
  EXPECT_TRUE(producer->gives && !producer->takes && !producer->recomputes);
  EXPECT_EQ(producer->lease_us, 2'500'000);
  const auto both = parse_kv_transfer_config(
      R"({"kv_connector":"QuireConnector","kv_role":"kv_both","kv_load_failure_policy":"recompute"})");
  ASSERT_TRUE(both.ok());
  EXPECT_TRUE(both->gives && both->takes && both->recomputes);
}

TEST(KvTransferConfig, RefusalsNameTheKey) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"[]", "expected a JSON object"},
      {"{", "expected a JSON object"},
      {R"({"kv_role":"kv_both"})", "kv_connector"},
      {R"({"kv_connector":"NixlConnector","kv_role":"kv_both"})", "expected QuireConnector"},
      {R"({"kv_connector":"QuireConnector"})", "kv_role"},
      {R"({"kv_connector":"QuireConnector","kv_role":"prefill"})", "kv_producer, kv_consumer"},
      {R"({"kv_connector":"QuireConnector","kv_role":"kv_both","kv_load_failure_policy":1})",
       "fail or recompute"},
      {R"({"kv_connector":"QuireConnector","kv_role":"kv_both","lease":1})", "got lease"},
      {R"({"kv_connector":"QuireConnector","kv_role":"kv_both","kv_connector_extra_config":{"kv_lease_duration":0}})",
       "kv_lease_duration"},
  };
  for (const auto& [text, expected] : cases) {
    const Status status = parse_kv_transfer_config(text).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
    EXPECT_NE(status.message().find(expected), std::string::npos) << status.message();
  }
}

}  // namespace
}  // namespace quire
