// AdapterUses: how many requests use each adapter, and the limit on different adapters that run at
// once. One thread may use it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/adapter.h"

namespace quire {

struct AdapterUse {
  const Adapter* adapter = nullptr;  // valid as long as a request of the scheduler holds it
  int32_t num_running = 0;
  int32_t num_waiting = 0;
};

// A null adapter means no adapter: it needs no room and is not counted.
class AdapterUses {
 public:
  // max_running is the most different adapters that running requests may use; 0: no limit.
  explicit AdapterUses(int32_t max_running) : max_running_(max_running) {}

  // Whether a request with this adapter may run beside the running ones.
  bool has_room(const Adapter* adapter) const;
  void add_running(const Adapter* adapter, int32_t count);
  void add_waiting(const Adapter* adapter, int32_t count);

  int32_t num_running() const { return num_running_; }  // different adapters
  std::span<const AdapterUse> uses() const { return uses_; }

 private:
  AdapterUse& find(const Adapter* adapter);
  void drop_unused();

  int32_t max_running_;
  int32_t num_running_ = 0;
  std::vector<AdapterUse> uses_;
};

}  // namespace quire
