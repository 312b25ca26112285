// A SlotTable stores the requests of a replica's scheduler. Each has a slot, which its id names.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "sim/replica/delivery.h"

namespace quire::sim {

struct Slot {
  RequestId id{};
  Delivery leg;
  int32_t known_tokens = 0;
  int32_t num_open = 0;  // tokens that the running steps will have sampled
  int32_t num_read_by_drafter = 0;
  bool scheduled = false;
  bool has_token = false;  // in this leg
  bool recovering = false;
  int64_t delivered_ns = 0;
  int64_t kv_blocked_mark = 0;
  int64_t scheduled_ns = 0;
  int64_t mark_ns = 0;    // start of the interval that is being accounted
  int64_t host_mark = 0;  // host time at mark_ns
  int64_t preempted_ns = 0;
  int64_t preempted_host = 0;
  int64_t kv_ns = 0;  // time lost to preemption in this interval
  int64_t last_token_ns = 0;

  int32_t num_tokens_left() const { return leg.prompt_tokens + leg.output_tokens - known_tokens; }
};

class SlotTable {
 public:
  // Borrows the workload, which defines the requests' tokens.
  explicit SlotTable(const Workload& workload) : workload_(workload) {}

  // Returns the request's slot, or null if another request has it by now. Ids are in the order in
  // which requests joined.
  Slot* find(RequestId id);
  Slot& open(const Delivery& leg, int64_t delivered_ns, int64_t kv_blocked_mark);
  void close(Slot& slot);
  // Returns all slots; those without an id are closed.
  std::span<const Slot> all() const { return slots_; }

  // Returns the requests that the scheduler has admitted, as indices of all(), in any order.
  std::span<const int32_t> running() const { return running_; }
  Slot& at(int32_t index) { return slots_[static_cast<size_t>(index)]; }
  const Slot& at(int32_t index) const { return slots_[static_cast<size_t>(index)]; }
  void begin_running(const Slot& slot) { running_.push_back(index_of(slot)); }
  void end_running(const Slot& slot);

  const SimRequest& request(const Delivery& leg) const {
    return workload_.requests[static_cast<size_t>(leg.request)];
  }
  TokenId output_token(const Slot& slot, int64_t position) const;

 private:
  static constexpr uint64_t kSlotBits = 20;
  int32_t index_of(const Slot& slot) const { return static_cast<int32_t>(&slot - slots_.data()); }

  const Workload& workload_;
  std::vector<Slot> slots_;
  std::vector<int32_t> free_slots_;
  std::vector<int32_t> running_;
  uint64_t num_joined_ = 0;
};

}  // namespace quire::sim
