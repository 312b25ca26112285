// A ServedModel is a model as the server sees it: an engine, a codec from text to tokens and back,
// and the model's own defaults.
#pragma once

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "chat/reply_format.h"
#include "chat/sentence_texts.h"
#include "core/sampling_defaults.h"
#include "tokenizer/pairs.h"

namespace quire {

class AdapterRegistry;
class AsyncEngine;
class ImageInput;
struct SpeechModel;
class Tokenizer;

// A TextCodec is the part of a tokenizer that the server needs. It does not change after it is
// made, so any thread may use it. tokenizer_codec.h makes one from a Tokenizer.
class TextCodec {
 public:
  virtual ~TextCodec() = default;
  virtual Result<std::vector<TokenId>> encode(std::string_view text,
                                              bool add_special_tokens) const = 0;
  // Encodes two texts as the model reads them together. If the pair has more than `max_tokens`, its
  // longer text is cut; 0 sets no limit.
  virtual Result<EncodedPair> encode_pair(std::string_view, std::string_view, int64_t) const {
    return invalid_argument("the model has no tokenizer; it cannot read pairs of texts");
  }
  // Returns valid UTF-8. Special tokens are printed when keep_special is set.
  virtual std::string decode(std::span<const TokenId> token_ids, bool keep_special) const = 0;
  // Returns the bytes that the token adds within a text. They may be a part of a character.
  virtual std::string token_bytes(TokenId token_id) const = 0;
  // Returns the token as its vocabulary writes it.
  virtual std::string token_piece(TokenId token_id) const = 0;
  // Returns the tokens that the vocabulary has in addition to its model's pieces. Markers of
  // replies are among them.
  virtual std::vector<MarkToken> mark_tokens() const { return {}; }
  virtual int32_t vocab_size() const = 0;
};

// A conversation that the chat template is to render.
struct ChatRenderRequest {
  boost::json::array messages;
  boost::json::array tools;      // empty: none
  boost::json::array documents;  // empty: none
  bool add_generation_prompt = true;
  bool continue_final_message = false;
  boost::json::object template_kwargs;
  std::optional<std::string> template_source;  // replaces the model's template
};
// Returns the text of the prompt. Any thread may call it. kInvalidArgument: the template refused
// the conversation.
using ChatRenderer = std::function<Result<std::string>(const ChatRenderRequest&)>;

struct ServedModel {
  std::vector<std::string> names;  // all are accepted as `model`; the first is printed
  // Shared with the program that made them. The engine and the codec must outlive every open
  // stream.
  std::shared_ptr<AsyncEngine> engine;
  // Adapters, which requests name as they name models; also shared with the program. Null: there
  // are none.
  std::shared_ptr<AdapterRegistry> adapters;
  std::shared_ptr<const TextCodec> codec;          // null: token ids only
  ChatRenderer render_chat;                        // empty: no conversation can be rendered
  bool has_chat_template = true;                   // otherwise a request must provide one
  std::shared_ptr<const ImageInput> images = {};   // null: the model reads no images
  std::shared_ptr<const SpeechModel> speech = {};  // null: the model reads no speech
  // The template takes the content of every message as a list of parts, not as text.
  bool chat_content_in_parts = false;
  // How chat answers are parsed: the server's reply_format with this model's vocabulary, and the
  // same without tool calls. Null: answers are not parsed. HostedModel::create() sets both.
  std::shared_ptr<const ReplySyntax> reply_syntax;
  std::shared_ptr<const ReplySyntax> reply_syntax_without_calls;
  SamplingDefaults defaults;
  std::vector<TokenId> eos_token_ids;
  boost::json::object tokenizer_config;  // content of tokenizer_config.json; empty: none
  std::vector<std::string> labels;       // of a classifier, one per column
  SentenceTexts texts = {};              // go before the texts that an embedder reads
  // The pairs of texts to score are written by the chat template, not by the tokenizer.
  bool pairs_are_chats = false;
  int32_t vocab_size = 0;     // number of ids, padding included; 0: the engine's
  std::string root;           // the `root` that /v1/models prints
  int64_t created_s = 0;      // Unix time
  int32_t max_model_len = 0;  // 0: the engine's
  // Most tokens of a prompt that an encoder reads, as the engine says. 0: the model has no encoder,
  // and a prompt is the beginning of the generated text.
  int32_t max_source_len = 0;

  bool is_named(std::string_view name) const {
    return std::find(names.begin(), names.end(), name) != names.end();
  }
};

}  // namespace quire
