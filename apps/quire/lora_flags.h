// Flags about LoRA adapters. Names and meanings follow `vllm serve` where the thing is the same.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/result.h"
#include "facade/engine_args.h"
#include "quire/llm.h"

namespace quire::cli {

// Adds the flags of verbs whose requests name adapters as they name models.
void add_lora_flags(CLI::App& verb, LoraArgs& args);

// Adds --lora to a verb whose requests all use the one adapter given.
void add_lora_path_flag(CLI::App& verb, LoraArgs& args);
// Returns the name under which the adapter of --lora is loaded; empty when none was given.
std::string only_adapter(const LLM& llm);
// Adds --lora to a verb whose requests use the given adapters in turn.
void add_lora_paths_flag(CLI::App& verb, LoraArgs& args);

// Reads an adapter as --lora-modules names it: NAME=PATH, or a JSON object with name and path.
Result<NamedAdapter> parse_lora_module(const std::string& text);

}  // namespace quire::cli
