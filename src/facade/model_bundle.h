// A model opened and an engine running on it: what every program that serves, chats or measures
// starts from.
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

// What a model's files say apart from its weights. No tokenizer and no template is an answer, not
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

// Opens the model at `path`, or the built-in one when it is empty. The other parameters are as in
// EngineArgs.
Result<ModelBundle> open_model(const std::string& path, const std::string& chat_template = {},
                               const MmprojArgs& mmproj = {});

// What the executor is told; `bundle` gives the files.
ModelRunnerOptions model_runner_options(const EngineArgs& args, const ModelBundle& bundle);

struct RunningModel {
  ModelBundle bundle;
  ModelPlan plan;                             // shape, types, memory
  std::shared_ptr<AsyncEngine> engine;        // shared with the server's handlers
  std::shared_ptr<AdapterRegistry> adapters;  // shared likewise; null: EngineArgs::lora is off
  int32_t max_model_len = 0;
  bool on_gpu = false;
  // It is null when the hardware is known, or nobody wants to know it.
  std::unique_ptr<IdleProbe> idle_probe;
};

Result<RunningModel> start_model(const EngineArgs& args);

// For a rank behind the first (args.ranks): does what the first one says until that ends.
// kUnavailable: it is gone.
Status serve_rank(const EngineArgs& args);

}  // namespace quire
