// What a request brings beside text: images or a recording, each made ready for the model's encoder.
// Schedulers pass items along and count their embeddings; whoever runs the model reads their values.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace quire {

// An item does not change and is shared. It is encoded whole, in one step.
struct MediaItem {
  // A digest of the content and of how it was made ready: items with equal keys have equal
  // embeddings.
  std::string key;
  int32_t num_embeddings = 0;  // that the encoder makes of it; each takes the place of a token
  // A picture of the size that the encoder takes, [height, width, 3]: red, green, blue.
  int32_t height = 0;
  int32_t width = 0;
  std::vector<uint8_t> rgb;
  // A picture may be cut into tiles, which lie one below the other. Then entry i is the index, among
  // the embeddings of all tiles, of the one that is the item's embedding i, or kLineBreak. When it
  // is empty, there is one tile, and its embeddings are the item's.
  std::vector<int32_t> order = {};
  static constexpr int32_t kLineBreak = -1;  // the embedding that ends a row
  // Of a recording instead: how strong each band is in each frame, [height, width], with a band per
  // row (media/audio/log_mel.h).
  std::vector<float> bands = {};
  std::vector<TokenId> text = {};          // of a text instead: its tokens
  std::shared_ptr<const void> lease = {};  // lives as long as the item: whoever counts its memory
};

// Tokens [begin, end) of a prompt stand for embeddings [first, first + end - begin) of an item. The
// tokens do not tell its content: the item and the place in it are part of what a block with such
// tokens is known by.
struct MediaSpan {
  int32_t begin = 0;
  int32_t end = 0;
  std::shared_ptr<const MediaItem> item = {};
  int32_t first = 0;

  // Of a source: the token from which on it counts as shown (CrossSegments::shown). It is told by the
  // tokens.
  int32_t shown_from = 0;

  int32_t num_tokens() const { return end - begin; }

  // Marks an item that takes the place of no token: all tokens of a sequence, those of the output
  // too, look at what an encoder makes of it (cross-attention). It is needed for as long as the
  // request runs.
  static constexpr int32_t kWholeSequence = std::numeric_limits<int32_t>::max();
  static MediaSpan of_source(std::shared_ptr<const MediaItem> source, int32_t shown_from = 0) {
    return {.begin = 0, .end = kWholeSequence, .item = std::move(source), .shown_from = shown_from};
  }
  bool is_source() const { return end == kWholeSequence; }
};

// Of a model whose sources (MediaSpan::of_source()) are texts: an encoder reads them.
struct TextSourceInfo {
  int32_t max_tokens = 0;           // of a text; 0: sources are none
  std::vector<TokenId> start = {};  // what is made of a text begins with these tokens
  // Rows of texts are kept in blocks of so many, and a text counts as many rows as its blocks have.
  static constexpr int32_t kBlockSize = 16;

  bool any() const { return max_tokens > 0; }
};

// What a model takes beside text.
struct MediaInfo {
  int32_t max_item_embeddings = 0;  // of the largest item; 0: the model takes text alone
  // That there is memory for beside those of the step: what SchedulerConfig::encoder_cache_tokens
  // becomes.
  int32_t max_cached_embeddings = 0;
  // Tokens of a span see each other in both directions: they are computed in one step.
  bool is_bidirectional = false;
  // Every request brings one item, which all of its tokens look at (MediaSpan::of_source()); or it may
  // do without: then items are pictures.
  bool is_source = false;
  bool may_lack_source = false;
  TextSourceInfo text_source = {};  // of sources that are texts

  bool any() const { return max_item_embeddings > 0; }
  // Whether requests are about what they bring beside their prompt, which says how to go on.
  bool needs_recording() const { return is_source && !may_lack_source && !text_source.any(); }
};

}  // namespace quire
