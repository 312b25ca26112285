#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "facade/engine_args.h"
#include "media/audio/audio_input.h"
#include "media/image_input.h"
#include "quire/models_folder.h"
#include "server/http/server_options.h"
#include "server/server_extras.h"

namespace quire::cli {

struct ServeFlags {
  EngineArgs engine;
  ServerOptions server;
  ServerExtras extras;
  ImageInputOptions images;
  ModelsFolderFlags models;
  AudioInputOptions audio;
  std::vector<std::string> served_model_names;
  std::vector<std::string> model_aliases;  // NAME=MODEL
  std::string generation_config = "auto";  // auto: the model's; none: only the API's defaults
  int64_t shutdown_timeout_s = 30;
  std::string config;             // read before the flags are; see settings/settings.h
  bool print_config = false;      // prints the flags instead of serving
  int32_t exit_with_process = 0;  // a process id; 0: none
  bool enable_auto_tool_choice = false;
  // The values of --tool-call-parser and --reasoning-parser: a name, none, or auto (the chat
  // template shows which).
  std::string tool_call_parser = "auto";
  std::string reasoning_parser = "auto";
  std::string model;                        // --model, vLLM's way to name MODEL
  std::string tokenizer;                    // --tokenizer, which may only name the model itself
  std::vector<std::string> without_effect;  // flags of vLLM that were given and have no effect
};

void add_serve_flags(CLI::App& verb, ServeFlags& flags);

// Adds the flags about a model and its engine, which --models-config can set for each model.
void add_flags_of_model(CLI::App& verb, ServeFlags& flags);

}  // namespace quire::cli
