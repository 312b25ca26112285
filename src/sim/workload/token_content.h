// These functions generate simulated tokens. Only the prefix cache compares them, so equal
// histories must have equal tokens, and different ones must differ.
//
// A stream is an endless text; a request's prompt is cut from streams (sim/workload/workload.h).
// Token p of a stream is a pure function of (stream, p).
#pragma once

#include <cstdint>
#include <span>

#include "base/ids.h"

namespace quire::sim {

// Simulated tokens are in [0, kVocabSize).
inline constexpr int32_t kVocabSize = 1 << 30;

// Returns a well mixed stream id from the values that identify the stream.
uint64_t stream_id(uint64_t kind, uint64_t value);

TokenId content_token(uint64_t stream, int64_t position);
// Appends `count` tokens of a stream from `position` on. fill_content() writes out[i] =
// content_token(stream, position + i).
void append_content(uint64_t stream, int64_t position, int64_t count, std::vector<TokenId>& out);
void fill_content(uint64_t stream, int64_t position, std::span<TokenId> out);

}  // namespace quire::sim
