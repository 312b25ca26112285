// Nobody reads simulated tokens, but the prefix cache compares them: equal histories must be equal
// tokens, and different ones must differ.
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

// Returns a well mixed stream id out of what identifies it.
uint64_t stream_id(uint64_t kind, uint64_t value);

TokenId content_token(uint64_t stream, int64_t position);
// Writes out[i] = content_token(stream, position + i).
// Appends `count` tokens from `position` on.
void append_content(uint64_t stream, int64_t position, int64_t count, std::vector<TokenId>& out);
void fill_content(uint64_t stream, int64_t position, std::span<TokenId> out);

}  // namespace quire::sim
