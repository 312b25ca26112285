// The fields of requests of Ollama's API, and what they mean in those of a chat or a completion.
#pragma once

#include <span>
#include <string>

#include "server/openai/request_fields.h"
#include "server/openai/served_model.h"

namespace quire::server {

std::span<const Field> ollama_chat_field_table();
std::span<const Field> ollama_generate_field_table();

// Ollama's clients write a model as NAME or NAME:TAG; ":latest" stands for no tag.
std::string ollama_model_name(std::string name, const ServedModel& served);

}  // namespace quire::server
