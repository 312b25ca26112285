// A ModelHost provides the models of requests: one that is always there, or those of a folder,
// which are loaded when a request asks for them. Any thread may call it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "server/http/api_error.h"
#include "server/models/hosted_model.h"

namespace quire::server {

enum class ModelState : uint8_t { kUnloaded, kLoading, kLoaded, kUnloading, kFailed };
std::string_view to_string(ModelState state);

// The description of a model, loaded or not.
struct ModelStatus {
  std::string name;
  std::vector<std::string> aliases;
  std::vector<std::string> adapters = {};  // of a folder's model, even when it is not loaded
  std::string path;
  ModelState state = ModelState::kLoaded;
  std::string error;         // for kFailed
  double progress = 0;       // for kLoading, 0 to 1
  int64_t bytes = 0;         // memory that it takes; 0: not known
  int64_t file_bytes = 0;    // size of its files; 0: not known
  int64_t created_s = 0;     // Unix time
  int64_t num_requests = 0;  // requests that use it or wait for it
  int64_t last_use_us = 0;   // for a loaded model of a folder; host's clock
  std::optional<int64_t>
      expires_us;   // when it is unloaded if nobody uses it until then; host's clock
  ModelUse loaded;  // null unless kLoaded
};

class ModelHost {
 public:
  using OnModel = std::function<void(ApiResult<ModelUse>)>;

  virtual ~ModelHost() = default;
  virtual const Clock& clock() const = 0;
  // Returns the models in the order of their names.
  virtual std::vector<ModelStatus> list() const = 0;
  // Returns the model of a server of one model; null when there is a folder of models.
  virtual ModelUse only() const { return nullptr; }
  // Asks for the model of this name; "" means the default model. `on_model` is called once, when
  // the model is in memory or cannot be loaded: on any thread, or before this function returns.
  virtual void acquire(std::string_view name, OnModel on_model) = 0;
  // Frees the model's memory once nobody uses it any longer. 404: there is no such model.
  virtual ApiCheck unload(std::string_view name) = 0;
  // Sets how long the model stays in memory after its last use; nullopt: until another model needs
  // its place.
  virtual void keep(std::string_view name, std::optional<int64_t> keep_alive_us) = 0;
  // Reads the list of models again.
  virtual Status reload() = 0;

  // A folder is always healthy: a failed engine only takes its own model down.
  virtual bool healthy() const { return true; }
  virtual bool work_waits() const = 0;
  virtual int64_t retry_after_s() const = 0;
  virtual int64_t num_running() const = 0;
  // Loads no more models. Running requests have this long to end.
  virtual void drain(int64_t timeout_us) = 0;
  // Frees all models that nobody uses any longer. It is called when no more requests come.
  // Idempotent.
  virtual void stop() {}
};

std::shared_ptr<ModelHost> host_one_model(ServedModel model, ServerOptions options);

}  // namespace quire::server
