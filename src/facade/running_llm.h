#pragma once

#include <memory>

#include "base/result.h"
#include "facade/engine_args.h"
#include "quire/llm.h"

namespace quire {

// Does what LLM::load does, with every flag.
Result<std::unique_ptr<LLM>> load_llm(const EngineArgs& args);

}  // namespace quire
