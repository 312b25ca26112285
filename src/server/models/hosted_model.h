// A HostedModel is a model in memory with the options for its requests.
#pragma once

#include <memory>

#include "server/http/server_options.h"
#include "server/openai/served_model.h"

namespace quire::server {

struct HostedModel {
  ServedModel model;
  ServerOptions options;  // the server's, with this model's reply format

  // Completes `model` with the values that its engine provides and with its reply format.
  static std::shared_ptr<const HostedModel> create(ServedModel model, ServerOptions options);
};

// Whoever uses the model holds a ModelUse. As long as one is held, the model stays in memory.
using ModelUse = std::shared_ptr<const HostedModel>;

}  // namespace quire::server
