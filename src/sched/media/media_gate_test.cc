#include "sched/media/media_gate.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

// Adds rows of 10 embeddings each, with a token between two rows.
void add_picture(int32_t num_rows, Request& request) {
  auto item = std::make_shared<MediaItem>();
  item->key = std::to_string(request.media.size());
  item->num_embeddings = 10 * num_rows;
  for (int32_t row = 0; row < num_rows; ++row) {
    const int32_t begin = request.media.empty() ? 1 : request.media.back().end + 1;
    request.media.push_back({.begin = begin, .end = begin + 10, .item = item, .first = 10 * row});
  }
}

TEST(MediaGate, RowsOfAPictureAreItsOwnOnce) {
  const MediaGate gate(
      {.encoder_cache_tokens = 50, .max_num_batched_tokens = 100, .is_chunked = false});
  Request request;
  add_picture(4, request);
  EXPECT_TRUE(gate.check(request).ok());
  add_picture(2, request);
  EXPECT_EQ(gate.check(request).code(), StatusCode::kTooLarge);
}

}  // namespace
}  // namespace quire
