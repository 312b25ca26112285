// The models of a folder and the requests that wait for them. Not thread-safe.
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
  std::vector<std::string> adapters;  // names of those that it brings
  ModelState state = ModelState::kUnloaded;
  ModelUse hosted;          // kLoaded and kUnloading
  bool must_go = false;     // kUnloading, and not only to make room
  bool is_removed = false;  // from the folder
  std::string error;
  int64_t failed_us = 0;
  int64_t created_s = 0;
  double progress = 0;
  std::deque<Waiter> waiters;

  // Once nobody uses it.
  void begin_unload() {
    state = ModelState::kUnloading;
    must_go = true;
  }
  ApiError cannot_load() const;
};

// Calls to be made without a lock.
using ShelfCalls = std::vector<std::function<void()>>;

class ShelfItems {
 public:
  using Map = std::map<std::string, ShelfItem, std::less<>>;

  // As the folder is now. Models that changed or went are told to go; those that failed may be tried
  // again. kInvalidArgument: an alias names no model, or a model has its name; an adapter has the name
  // of a model or an alias.
  Status read(const std::string& directory, const ModelAliases& aliases,
              const ModelAliases& adapters);
  // By name, alias, or the name of an adapter; null: there is none.
  ShelfItem* find(std::string_view name);
  ShelfItem& at(std::string_view name) { return items_.find(name)->second; }
  Map& all() { return items_; }
  const Map& all() const { return items_; }
  std::vector<ModelStatus> list(const ShelfBook& book) const;
  // 404, or 400 where none is named.
  ApiError unknown(std::string_view name) const;

  size_t num_waiting() const;
  std::optional<int64_t> next_deadline_us() const;
  // Those who have waited too long get an error.
  void refuse_expired(int64_t now_us, ShelfCalls& calls);
  static void refuse_waiters(ShelfItem& item, const ApiError& error, ShelfCalls& calls);

 private:
  Map items_;
  ModelAliases aliases_;
  ModelAliases adapters_;
};

ApiError unavailable_error(std::string message, int64_t retry_after_s);

}  // namespace quire::server
