// DraftInputSpec describes the input of a draft model: beside the embedding e of a token, it reads
// the hidden state h of the served model, or its own, at the position before.
#pragma once

#include <cstdint>

namespace quire {

// N and N' are norms of the draft input.
struct DraftInputSpec {
  // Width of a token's hidden states from the served model, all layers together; 0: it reads none.
  int64_t hidden_size = 0;

  // EAGLE-3: the residual stream is fc(h), and the first layer's attention reads [N(e);
  // N'(stream)]. Otherwise the stream is fc([N(e); N'(h)]).
  bool is_beside = false;
  bool has_norms = true;          // N and N' exist; always with is_beside
  bool hidden_first = false;      // fc([N'(h); N(e)]) instead (MiMo)
  bool has_bias = false;          // fc has a bias
  bool streams_normed = false;    // with is_beside: the stream is N'(fc(h))
  bool feeds_normed = false;      // its own hidden state is read after its final norm
  bool first_layer_norms = true;  // on its attention's input; never with is_beside
  bool ignores_first = false;     // e is zero at the first position of a text (DeepSeek, MiMo)

  bool any() const { return hidden_size > 0; }
};

}  // namespace quire
