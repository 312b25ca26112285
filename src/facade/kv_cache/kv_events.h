// --kv-events-config: tells routers what the prefix cache holds. The keys are those of vLLM's flag
// of the same name.
#pragma once

#include <optional>
#include <string_view>

#include "base/result.h"
#include "engine/engine_options.h"
#include "events/event_publisher.h"
#include "events/kv_event_batch.h"

namespace quire {

struct KvEventsConfig {
  EventPublisherOptions publisher;
  KvEventFormat format = KvEventFormat::kMap;
};

// Parses `text`, a JSON object. Returns nullopt if it is empty or does not enable events.
// kInvalidArgument names the key and says what was expected.
Result<std::optional<KvEventsConfig>> parse_kv_events_config(std::string_view text);

// Opens the publisher that `text` asks for, and sets the `options` that feed it. Call it after all
// options that influence the keys of blocks are set.
Status add_kv_events(std::string_view text, int32_t block_size, EngineOptions& options);

}  // namespace quire
