#include "facade/kv_cache/kv_events.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(KvEventsConfig, ReadsVllmsKeys) {
  for (const char* off : {"", "{}", R"({"enable_kv_cache_events":false,"endpoint":"tcp://*:1"})"}) {
    const auto config = parse_kv_events_config(off);
    ASSERT_TRUE(config.ok()) << off;
    EXPECT_FALSE(config->has_value()) << off;
  }
  const auto config = parse_kv_events_config(
      R"({"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:7","topic":"kv@a",
          "replay_endpoint":"tcp://*:8","buffer_steps":5,"hwm":6,"max_queue_size":7})");
  ASSERT_TRUE(config.ok() && config->has_value()) << config.status().message();
  EXPECT_EQ((*config)->publisher.endpoint, "tcp://*:7");
  EXPECT_EQ((*config)->publisher.replay_endpoint, "tcp://*:8");
  EXPECT_EQ((*config)->publisher.topic, "kv@a");
  EXPECT_EQ((*config)->publisher.buffer_steps, 5);
  EXPECT_EQ((*config)->publisher.high_water_mark, 6);
  EXPECT_EQ((*config)->publisher.max_queue_size, 7);
  EXPECT_EQ((*config)->format, KvEventFormat::kMap);
  const auto old =
      parse_kv_events_config(R"({"enable_kv_cache_events":true,"event_format":"array"})");
  ASSERT_TRUE(old.ok() && old->has_value()) << old.status().message();
  EXPECT_EQ((*old)->format, KvEventFormat::kArray);
}

TEST(KvEventsConfig, RefusalsNameTheKey) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"[]", "expected a JSON object"},
      {R"({"enable_kv_cache_events":1})", "enable_kv_cache_events: expected true or false"},
      {R"({"publisher":"kafka"})", "publisher: expected zmq"},
      {R"({"endpoint":1})", "endpoint: expected a text"},
      {R"({"hwm":0})", "hwm: expected a number"},
      {R"({"event_format":"json"})", "event_format: expected map or array"},
      {R"({"port":1})", "got port"},
  };
  for (const auto& [text, expected] : cases) {
    const Status status = parse_kv_events_config(text).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
    EXPECT_NE(status.message().find(expected), std::string::npos) << status.message();
  }
}

TEST(KvEvents, AnEndpointThatCannotBeBoundEndsTheStart) {
  EngineOptions options;
  const Status status =
      add_kv_events(R"({"enable_kv_cache_events":true,"endpoint":"nowhere"})", 16, options);
  EXPECT_NE(status.message().find("--kv-events-config"), std::string::npos) << status.message();
  EXPECT_FALSE(options.kv.enable_events);
}

}  // namespace
}  // namespace quire
