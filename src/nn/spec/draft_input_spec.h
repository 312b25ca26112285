// Says what a decoder that drafts reads: beside the embedding e of a token, the hidden state h that
// the served model, or the drafter itself, had at the position before.
#pragma once

#include <cstdint>

namespace quire {

// N and N' are norms of their own.
struct DraftInputSpec {
  int64_t hidden_size =
      0;  // of the served model's states, all of a token together; 0: none are read

  // EAGLE-3: the residual stream is fc(h), and the first layer's attention reads [N(e); N'(stream)].
  // Otherwise the stream is fc([N(e); N'(h)]).
  bool is_beside = false;
  bool has_norms = true;          // N and N'; always with is_beside
  bool hidden_first = false;      // fc([N'(h); N(e)]) (MiMo)
  bool has_bias = false;          // fc's
  bool streams_normed = false;    // with is_beside: the stream is N'(fc(h))
  bool feeds_normed = false;      // its own state is what is behind its final norm
  bool first_layer_norms = true;  // the input of its attention; never with is_beside
  bool ignores_first = false;     // e is zero at the first position of a text (DeepSeek, MiMo)

  bool any() const { return hidden_size > 0; }
};

}  // namespace quire
