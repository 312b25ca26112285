// ShelfItems holds the models of a folder and the requests that wait for them. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/models/model_host.h"
#include "server/models/models_dir.h"
#include "server/models/shelf_book.h"

namespace quire::server {

struct ShelfItem {
  struct Waiter {
    ModelHost::OnModel on_model;
    int64_t deadline_us = 0;
  };

  FoundModel found;
  std::vector<std::string> aliases;
  std::vector<std::string> adapters;  // names of its adapters
  ModelState state = ModelState::kUnloaded;
  ModelUse hosted;          // for kLoaded and kUnloading
  bool must_go = false;     // unload it, even if no other model needs its place
  bool is_removed = false;  // it is no longer in the folder
  std::string error;
  int64_t failed_us = 0;
  int64_t created_s = 0;
  double progress = 0;
  std::deque<Waiter> waiters;

  // Unloads the model once nobody uses it.
  void begin_unload() {
    state = ModelState::kUnloading;
    must_go = true;
  }
  ApiError cannot_load() const;
};

// Functions to call after the lock is released.
using ShelfCalls = std::vector<std::function<void()>>;

class ShelfItems {
 public:
  using Map = std::map<std::string, ShelfItem, std::less<>>;

  // Reads the folder again. Models that changed or were removed are marked for unloading; those
  // that failed may be loaded again. kInvalidArgument: an alias names no model or is the name of a
  // model; an adapter has the name of a model or an alias.
  Status read(const std::string& directory, const ModelAliases& aliases,
              const ModelAliases& adapters);
  // Finds a model by its name, an alias, or the name of one of its adapters; null: there is none.
  ShelfItem* find(std::string_view name);
  ShelfItem& at(std::string_view name) { return items_.find(name)->second; }
  Map& all() { return items_; }
  const Map& all() const { return items_; }
  std::vector<ModelStatus> list(const ShelfBook& book) const;
  // Returns the error for a name that no model has: 404, or 400 when the name is empty.
  ApiError unknown(std::string_view name) const;

  size_t num_waiting() const;
  std::optional<int64_t> next_deadline_us() const;
  // Appends calls that refuse the requests that have waited too long.
  void refuse_expired(int64_t now_us, ShelfCalls& calls);
  static void refuse_waiters(ShelfItem& item, const ApiError& error, ShelfCalls& calls);

 private:
  Map items_;
  ModelAliases aliases_;
  ModelAliases adapters_;
};

ApiError unavailable_error(std::string message, int64_t retry_after_s);

}  // namespace quire::server
