// The media of a request: images or a recording, each made ready for the model's encoder.
// Schedulers pass items along and count their embeddings; only executors read the data in them.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace quire {

// An item is immutable and shared. It is encoded whole, in one step.
struct MediaItem {
  // A digest of the content and of its preparation: items with equal keys have equal embeddings.
  std::string key;
  int32_t num_embeddings = 0;  // that the encoder computes; each stands for one token
  // A picture of the size that the encoder takes, [height, width, 3]: red, green, blue.
  int32_t height = 0;
  int32_t width = 0;
  std::vector<uint8_t> rgb;
  // A picture may be cut into tiles, which `rgb` holds one below the other. Entry i of `order` is
  // then the index of the item's embedding i among the embeddings of all tiles, or kLineBreak. If
  // `order` is empty, there is one tile, and its embeddings are the item's.
  std::vector<int32_t> order = {};
  static constexpr int32_t kLineBreak = -1;  // the embedding that ends a row
  // For a recording: the strength of each band in each frame, [height, width], where a row is a
  // band (media/audio/log_mel.h).
  std::vector<float> bands = {};
  std::vector<TokenId> text = {};          // for a text that an encoder reads: its tokens
  std::shared_ptr<const void> lease = {};  // keeps the item's memory counted while it lives
};

// Tokens [begin, end) of a prompt stand for embeddings [first, first + end - begin) of an item. The
// token ids do not tell the content, so the prefix cache also identifies such a block by the item
// and the place in it.
struct MediaSpan {
  int32_t begin = 0;
  int32_t end = 0;
  std::shared_ptr<const MediaItem> item = {};
  int32_t first = 0;

  // For a source: the token from which on the source counts as shown (CrossSegments::shown). It
  // follows from the tokens.
  int32_t shown_from = 0;

  int32_t num_tokens() const { return end - begin; }

  // The `end` of a span whose item (a source) stands for no token: all tokens of the sequence,
  // output included, attend to what an encoder makes of it (cross-attention). The item is needed
  // for as long as the request runs.
  static constexpr int32_t kWholeSequence = std::numeric_limits<int32_t>::max();
  static MediaSpan of_source(std::shared_ptr<const MediaItem> source, int32_t shown_from = 0) {
    return {.begin = 0, .end = kWholeSequence, .item = std::move(source), .shown_from = shown_from};
  }
  bool is_source() const { return end == kWholeSequence; }
};

// For models whose sources (MediaSpan::of_source()) are texts, which an encoder reads.
struct TextSourceInfo {
  int32_t max_tokens = 0;           // the longest text; 0: sources are not texts
  std::vector<TokenId> start = {};  // the output for a text begins with these tokens
  // Rows of a text are kept in blocks of this many, and a text counts as many rows as its blocks
  // have.
  static constexpr int32_t kBlockSize = 16;

  bool any() const { return max_tokens > 0; }
};

// The media that a model takes.
struct MediaInfo {
  int32_t max_item_embeddings = 0;  // of the largest item; 0: the model takes only text
  // Embeddings that memory is set aside for beside those of the step; it becomes
  // SchedulerConfig::encoder_cache_tokens.
  int32_t max_cached_embeddings = 0;
  // The tokens of a span attend to each other in both directions, so they are computed in one step.
  bool is_bidirectional = false;
  // Every request has one item, to which all of its tokens attend (MediaSpan::of_source()). With
  // may_lack_source the item may be missing; such sources are pictures.
  bool is_source = false;
  bool may_lack_source = false;
  TextSourceInfo text_source = {};  // for sources that are texts

  bool any() const { return max_item_embeddings > 0; }
  // Whether every request needs a recording as its source, and its prompt only says how to go on.
  bool needs_recording() const { return is_source && !may_lack_source && !text_source.any(); }
};

}  // namespace quire
