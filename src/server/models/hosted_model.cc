#include "server/models/hosted_model.h"

#include <utility>

#include "engine/async_engine.h"
#include "server/openai/tokenizer_codec.h"

namespace quire::server {

std::shared_ptr<const HostedModel> HostedModel::create(ServedModel model, ServerOptions options) {
  const ExecutorInfo info = model.engine->model_info();
  if (model.codec == nullptr) model.codec = make_ids_only_codec(info.vocab_size);
  if (model.vocab_size <= 0) model.vocab_size = info.vocab_size;
  if (model.max_model_len <= 0) model.max_model_len = info.max_model_len;
  model.max_source_len = info.media.text_source.max_tokens;
  const auto bind = [&](const ReplyFormat& in_use) -> std::shared_ptr<const ReplySyntax> {
    if (in_use.plain()) return nullptr;
    return std::make_shared<ReplySyntax>(in_use, model.codec->mark_tokens());
  };
  model.reply_syntax = bind(options.reply_format);
  model.reply_syntax_without_calls = bind(options.reply_format.without_calls());
  return std::make_shared<const HostedModel>(HostedModel{std::move(model), std::move(options)});
}

}  // namespace quire::server
