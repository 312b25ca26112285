// The adapters that requests may name. They are loaded, replaced and unloaded while an engine runs.
//
//   AdapterRegistry adapters([&](auto& name, auto& path) { return engine->load_adapter(name, path); },
//                            /*max_loaded=*/4);
//   QUIRE_RETURN_IF_ERROR(adapters.load({.name = "sql", .path = "/adapters/sql"}));
//   request.adapter = adapters.find("sql");
//
// A request keeps the adapter that it began with: if that is unloaded or replaced meanwhile, the
// answer stays the same, and the adapter's memory is freed when the last such request ends.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/adapter.h"

namespace quire {

// An adapter's name, and the folder that holds it.
struct NamedAdapter {
  std::string name;
  std::string path;
  // Set for an adapter that belongs to the model and serves a task of embeddings: the text to put
  // before each input, which may be "".
  std::optional<std::string> instruction = {};
};

struct LoadedAdapterInfo {
  NamedAdapter source;
  std::shared_ptr<const Adapter> adapter;  // shared with the requests that use it
};

enum class IfLoaded : uint8_t { kRefuse, kReplace };

// Any thread may use it. Names can be looked up while an adapter is being read.
class AdapterRegistry {
 public:
  using Load = std::function<Result<std::shared_ptr<const Adapter>>(const std::string& name,
                                                                    const std::string& path)>;
  // `load` may be called from several threads, but never twice at the same time.
  AdapterRegistry(Load load, int32_t max_loaded)
      : load_(std::move(load)), max_loaded_(max_loaded) {}

  // Errors: kInvalidArgument if the name is invalid or taken, kResourceExhausted if no more
  // adapters fit. If the adapter cannot be read, the registry does not change.
  Status load(const NamedAdapter& source, IfLoaded if_loaded = IfLoaded::kRefuse);
  // kNotFound: there is no adapter with this name.
  Status unload(std::string_view name);

  std::shared_ptr<const Adapter> find(std::string_view name) const;  // null: not found
  std::vector<NamedAdapter> tasks() const;      // those with an instruction, oldest first
  std::vector<LoadedAdapterInfo> list() const;  // oldest first
  int32_t num_loaded() const;
  int32_t max_loaded() const { return max_loaded_; }

 private:
  Status check_room(const NamedAdapter& source, IfLoaded if_loaded) const;

  const Load load_;
  const int32_t max_loaded_;
  std::mutex loading_;        // held while files are read; taken before mutex_
  mutable std::mutex mutex_;  // protects the members below
  std::vector<LoadedAdapterInfo> loaded_;
};

// Accepts 1 to 256 bytes of UTF-8 without control characters and without commas, which separate
// names in metrics. kInvalidArgument says what is wrong.
Status check_adapter_name(std::string_view name);

}  // namespace quire
