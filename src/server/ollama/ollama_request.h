// These are the fields of requests of Ollama's API, and how they become fields of a chat or a
// completion.
#pragma once

#include <span>
#include <string>

#include "server/openai/request_fields.h"
#include "server/openai/served_model.h"

namespace quire::server {

std::span<const Field> ollama_chat_field_table();
std::span<const Field> ollama_generate_field_table();

// Returns the name of a model that a client writes as NAME or NAME:TAG. The tag ":latest" is
// dropped.
std::string ollama_model_name(std::string name, const ServedModel& served);

}  // namespace quire::server
