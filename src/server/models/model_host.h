// Where requests find their models: one that is always there, or those of a folder, which are
// loaded when they are asked for. Any thread may call it.
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
  std::vector<std::string> adapters = {};  // of a folder's model, loaded or not: those it brings
  std::string path;
  ModelState state = ModelState::kLoaded;
  std::string error;         // of kFailed
  double progress = 0;       // of kLoading, 0 to 1
  int64_t bytes = 0;         // that it takes in memory; 0: not known
  int64_t file_bytes = 0;    // likewise, of its files
  int64_t created_s = 0;     // Unix time
  int64_t num_requests = 0;  // that use it or wait for it
  int64_t last_use_us = 0;   // of a folder's model in memory; host's clock
  std::optional<int64_t>
      expires_us;   // when it is unloaded if nobody uses it until then; host's clock
  ModelUse loaded;  // null unless kLoaded
};

class ModelHost {
 public:
  using OnModel = std::function<void(ApiResult<ModelUse>)>;

  virtual ~ModelHost() = default;
  virtual const Clock& clock() const = 0;
  // In the order of their names.
  virtual std::vector<ModelStatus> list() const = 0;
  // The model of a server of one, and null where there is a folder of them.
  virtual ModelUse only() const { return nullptr; }
  // Asks for the model of this name, "" being the default one. `on_model` is called once, when it is
  // in memory: on any thread, or before this returns.
  virtual void acquire(std::string_view name, OnModel on_model) = 0;
  // Gives the model's memory back when nobody uses it any more. 404: there is none.
  virtual ApiCheck unload(std::string_view name) = 0;
  // How long the model stays after its last use; nullopt: until its place is wanted.
  virtual void keep(std::string_view name, std::optional<int64_t> keep_alive_us) = 0;
  // Looks again at what models there are.
  virtual Status reload() = 0;

  // Of a folder always: an engine that dies takes its model along, and no other.
  virtual bool healthy() const { return true; }
  virtual bool work_waits() const = 0;
  virtual int64_t retry_after_s() const = 0;
  virtual int64_t num_running() const = 0;
  // Loads no more; what runs has this long to end.
  virtual void drain(int64_t timeout_us) = 0;
  // Gives back what nobody uses any more; once requests come no more. Idempotent.
  virtual void stop() {}
};

std::shared_ptr<ModelHost> host_one_model(ServedModel model, ServerOptions options);

}  // namespace quire::server
