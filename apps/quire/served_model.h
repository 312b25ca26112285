// These functions make the ServedModel that the routes answer with: a model with its names, its
// codec and its defaults, as the flags say.
#pragma once

#include "facade/model_bundle.h"
#include "quire/serve_flags.h"
#include "server/openai/served_model.h"

namespace quire::cli {

// Returns the parsers that the flags name. For auto it returns those that the model's chat template
// shows.
ReplyFormat reply_format(const ServeFlags& flags, const ModelBundle& bundle);

Result<ServedModel> served_model(const ServeFlags& flags, const RunningModel& running);

}  // namespace quire::cli
