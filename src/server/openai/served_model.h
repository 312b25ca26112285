// A model as the server sees it: an engine, a way from text to tokens and back, and the model's own
// defaults.
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

// A codec is what the server needs of a tokenizer. It does not change after it is made, so any
// thread may use it. tokenizer_codec.h makes one from a Tokenizer.
class TextCodec {
 public:
  virtual ~TextCodec() = default;
  virtual Result<std::vector<TokenId>> encode(std::string_view text,
                                              bool add_special_tokens) const = 0;
  // Encodes two texts as the model reads them together. The longer one is cut to `max_tokens`; 0
  // sets no limit.
  virtual Result<EncodedPair> encode_pair(std::string_view, std::string_view, int64_t) const {
    return invalid_argument("the model has no tokenizer; it cannot read pairs of texts");
  }
  // Always valid UTF-8; special tokens are printed when keep_special.
  virtual std::string decode(std::span<const TokenId> token_ids, bool keep_special) const = 0;
  // The bytes the token adds in mid-text; may be part of a character.
  virtual std::string token_bytes(TokenId token_id) const = 0;
  // The token as its vocabulary writes it.
  virtual std::string token_piece(TokenId token_id) const = 0;
  // Tokens that the vocabulary holds beside its model's pieces: markers of replies are among them.
  virtual std::vector<MarkToken> mark_tokens() const { return {}; }
  virtual int32_t vocab_size() const = 0;
};

// A conversation on its way into the model's chat template.
struct ChatRenderRequest {
  boost::json::array messages;
  boost::json::array tools;      // empty: none
  boost::json::array documents;  // empty: none
  bool add_generation_prompt = true;
  bool continue_final_message = false;
  boost::json::object template_kwargs;
  std::optional<std::string> template_source;  // instead of the model's own
};
// The prompt text. Any thread may call it. kInvalidArgument: the template refused the conversation.
using ChatRenderer = std::function<Result<std::string>(const ChatRenderRequest&)>;

struct ServedModel {
  std::vector<std::string> names;  // all are accepted as `model`; the first is printed
  // Shared with the program that made them: engine and codec outlive every open stream.
  std::shared_ptr<AsyncEngine> engine;
  // Requests name adapters as they do models; shared with the program likewise. Null: none.
  std::shared_ptr<AdapterRegistry> adapters;
  std::shared_ptr<const TextCodec> codec;          // null: token ids only
  ChatRenderer render_chat;                        // empty: no conversation can be rendered
  bool has_chat_template = true;                   // otherwise a request must bring one
  std::shared_ptr<const ImageInput> images = {};   // null: the model reads no images
  std::shared_ptr<const SpeechModel> speech = {};  // null: the model hears nothing
  // The template wants the content of every message as a list of parts, not as text.
  bool chat_content_in_parts = false;
  // How chat answers are taken apart: the server's reply_format in this vocabulary, and the same
  // without tool calls. Null: not at all. Api makes them.
  std::shared_ptr<const ReplySyntax> reply_syntax;
  std::shared_ptr<const ReplySyntax> reply_syntax_without_calls;
  SamplingDefaults defaults;
  std::vector<TokenId> eos_token_ids;
  boost::json::object tokenizer_config;  // of tokenizer_config.json; empty: there is none
  std::vector<std::string> labels;       // of a classifier, by column
  SentenceTexts texts = {};              // before those that an embedder reads
  // The chat template writes the pairs of texts that are scored, not the tokenizer.
  bool pairs_are_chats = false;
  int32_t vocab_size = 0;     // ids that the model knows, padding included; 0: the engine's
  std::string root;           // what /v1/models prints as `root`
  int64_t created_s = 0;      // Unix time
  int32_t max_model_len = 0;  // 0: the engine's
  // Tokens of a prompt that an encoder reads, at most; 0: prompts are the beginning of what is
  // generated. The engine's.
  int32_t max_source_len = 0;

  bool is_named(std::string_view name) const {
    return std::find(names.begin(), names.end(), name) != names.end();
  }
};

}  // namespace quire
