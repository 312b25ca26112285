// Opens a model and runs an engine on it. Every program that serves, chats or measures starts here.
//
//   QUIRE_ASSIGN_OR_RETURN(RunningModel model, start_model(args));
//   auto stream = model.engine->submit(…);
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "chat/sentence_texts.h"
#include "engine/adapters/adapter_registry.h"
#include "engine/async_engine.h"
#include "exec/model_plan.h"
#include "facade/chat/model_chat.h"
#include "facade/engine_args.h"
#include "facade/generation_config.h"
#include "facade/idle_probe.h"
#include "tokenizer/tokenizer.h"
#include "weights/files/model_files.h"

namespace quire {

// The contents of a model's files, apart from its weights. A missing tokenizer or template is not
// an error.
struct ModelBundle {
  std::string name;  // the last part of the path, or kBuiltinModelName
  std::shared_ptr<const ModelFiles>
      files;  // shared with the executor, whose tables may lie in the mappings
  std::shared_ptr<const Tokenizer> tokenizer;  // shared with engine and frontends
  std::shared_ptr<const ModelChat>
      chat;  // shared with the server's handlers; null for a bare shape
  GenerationConfig generation;
  SentenceTexts texts;

  bool has_chat_template() const { return chat != nullptr && chat->has_template(); }
};

// Opens the model at `path`, or the built-in one if that is empty. The other parameters are as in
// EngineArgs.
Result<ModelBundle> open_model(const std::string& path, const std::string& chat_template = {},
                               const MmprojArgs& mmproj = {});

// Returns the options of the executor, with the files of `bundle`.
ModelRunnerOptions model_runner_options(const EngineArgs& args, const ModelBundle& bundle);

struct RunningModel {
  ModelBundle bundle;
  ModelPlan plan;                             // shape, types, memory
  std::shared_ptr<AsyncEngine> engine;        // shared with the server's handlers
  std::shared_ptr<AdapterRegistry> adapters;  // shared likewise; null: EngineArgs::lora is off
  int32_t max_model_len = 0;
  bool on_gpu = false;
  // Null if the hardware is known, or not needed.
  std::unique_ptr<IdleProbe> idle_probe;
};

Result<RunningModel> start_model(const EngineArgs& args);

// Serves a rank that is not the first (args.ranks): follows the first rank until that ends.
// kUnavailable: the first rank is gone.
Status serve_rank(const EngineArgs& args);

}  // namespace quire
