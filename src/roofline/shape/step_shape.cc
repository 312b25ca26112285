#include "roofline/shape/step_shape.h"

#include <algorithm>

namespace quire {
namespace {

void add_windowed(DecodeSums& sums, int32_t context, std::span<const int32_t> windows) {
  const size_t count = std::min<size_t>(windows.size(), kMaxWindows);
  for (size_t i = 0; i < count; ++i) sums.windowed[i] += std::min(context, windows[i]);
}

}  // namespace

void StepShape::add(int32_t num_computed_tokens, int32_t num_scheduled_tokens, bool sampled,
                    std::span<const int32_t> windows, int32_t source_rows) {
  num_tokens += num_scheduled_tokens;
  num_requests += 1;
  num_sampled += sampled ? 1 : 0;
  if (num_scheduled_tokens > 1) {
    chunks.push_back({num_scheduled_tokens, num_computed_tokens});
    if (source_rows > 0) source_chunks.push_back({num_scheduled_tokens, source_rows});
    return;
  }
  decode_source_rows += source_rows;
  const int32_t context = num_computed_tokens + 1;
  decode.num_requests += 1;
  decode.context += context;
  decode.max_context = std::max(decode.max_context, context);
  add_windowed(decode, context, windows);
}

void StepShape::add_pictures(const StepPlan& plan) {
  for (const auto& item : plan.media_inputs) pictures.push_back(item->num_embeddings);
}

void StepShape::clear() {
  num_tokens = num_requests = num_sampled = 0;
  decode = {};
  chunks.clear();
  decode_source_rows = 0;
  source_chunks.clear();
  encoded_rows.clear();
  pictures.clear();
}

void assign(StepShape& shape, const StepPlan& plan, std::span<const int32_t> windows,
            std::span<const int32_t> known_tokens) {
  shape.clear();
  for (size_t i = 0; i < plan.scheduled.size(); ++i) {
    const ScheduledRequest& scheduled = plan.scheduled[i];
    const int32_t end = scheduled.num_computed_tokens + scheduled.num_scheduled_tokens;
    const bool sampled = known_tokens.empty() || end >= known_tokens[i];
    shape.add(scheduled.num_computed_tokens, scheduled.num_scheduled_tokens, sampled, windows);
  }
}

}  // namespace quire
