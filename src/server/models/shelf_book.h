// ShelfBook records which models of a folder are in memory and decides which of them to unload for
// another. It works with names, counts and times only. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire::server {

struct ShelfLimits {
  int32_t max_loaded = 1;
  int64_t max_bytes = 0;  // for all models in memory; 0: no limit
};

class ShelfBook {
 public:
  struct Row {
    int64_t bytes = 0;
    int64_t num_uses = 0;
    int64_t last_use_us = 0;
    // How long the model stays after its last use; nullopt: until another model needs its place.
    std::optional<int64_t> keep_alive_us;

    bool is_idle() const { return num_uses == 0; }
    std::optional<int64_t> expires_us() const;  // nullopt: never, or in use
  };

  explicit ShelfBook(ShelfLimits limits) : limits_(limits) {}

  // Adds a model that is in memory or is about to be loaded.
  void add(std::string_view name, int64_t bytes, int64_t now_us,
           std::optional<int64_t> keep_alive_us);
  void set_bytes(std::string_view name, int64_t bytes) { row(name).bytes = bytes; }
  void erase(std::string_view name);
  void begin_use(std::string_view name, int64_t now_us);
  void end_use(std::string_view name, int64_t now_us);
  Row& row(std::string_view name);
  const Row* find(std::string_view name) const;

  const ShelfLimits& limits() const { return limits_; }
  size_t num_loaded() const { return rows_.size(); }
  int64_t bytes_loaded() const;
  // Returns the models to unload so that a model of this size fits, and no more than needed: idle
  // models before those in use, and the least recently used first. nullopt: the model is larger
  // than the limit.
  std::optional<std::vector<std::string>> victims_for(int64_t bytes) const;
  // Returns the idle models whose time is over.
  std::vector<std::string> expired(int64_t now_us) const;
  // Returns when the next model's time is over; nullopt: never.
  std::optional<int64_t> next_expiry_us() const;
  // Returns the model that was used last; empty: none is loaded.
  std::string most_recent() const;

 private:
  const ShelfLimits limits_;
  std::map<std::string, Row, std::less<>> rows_;
};

}  // namespace quire::server
