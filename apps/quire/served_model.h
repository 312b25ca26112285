// What the verbs that answer API requests give their routes: the model by its names, its texts and
// its defaults, as the flags say.
#pragma once

#include "facade/model_bundle.h"
#include "quire/serve_flags.h"
#include "server/openai/served_model.h"

namespace quire::cli {

// Returns the parsers that the flags name; for auto, those that the model's template tells.
ReplyFormat reply_format(const ServeFlags& flags, const ModelBundle& bundle);

Result<ServedModel> served_model(const ServeFlags& flags, const RunningModel& running);

}  // namespace quire::cli
