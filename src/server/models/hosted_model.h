// A model in memory, and what its requests are prepared with.
#pragma once

#include <memory>

#include "server/http/server_options.h"
#include "server/openai/served_model.h"

namespace quire::server {

struct HostedModel {
  ServedModel model;
  ServerOptions options;  // the server's, with this model's way to take answers apart

  // Completes `model` with what it leaves to its engine, and with how its answers are taken apart.
  static std::shared_ptr<const HostedModel> create(ServedModel model, ServerOptions options);
};

// Held by whoever uses the model: as long as one is held, the model stays in memory.
using ModelUse = std::shared_ptr<const HostedModel>;

}  // namespace quire::server
