// A Block is one thread block of a kernel on a CPU: every GPU thread is a fiber, and fibers wait at
// barriers and at exchanges between lanes. Runs are reproducible. A seed decides which fiber goes
// first after a wait, and which warp is held up while others can run, so that under some seed a
// missing barrier shows as wrong numbers, or as threads that wait forever. Shared memory starts as
// NaN, and asynchronous copies are done only when they are waited for, as late as a GPU may do
// them.
//
// It is for tests. A host thread runs one block at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "base/check.h"
#include "kernels/cuda/emulation/fiber.h"
#include "kernels/cuda/emulation/rounds.h"

namespace quire::cuda::emulation {

struct BlockShape {
  int block_index = 0;
  int num_blocks = 1;
  int num_threads = 32;  // a multiple of 32
  int shared_bytes = 0;
};

class AsyncUnit;

class Block {
 public:
  struct Barrier {
    int arrived = 0;
    uint64_t generation = 0;
    std::vector<int> waiters;  // threads
  };

  // Runs `body` once per thread and returns when all are done. CHECKs that the threads of the block
  // do not all wait for each other.
  static void run(const BlockShape& shape, uint64_t seed, const std::function<void()>& body);

  // Returns the block of the thread that runs at present. Only valid inside `body`.
  static Block& current() {
    QUIRE_CHECK(current_ != nullptr, "device code outside of a kernel");
    return *current_;
  }
  const BlockShape& shape() const { return shape_; }
  int thread() const { return thread_; }
  uint8_t* shared_memory() { return shared_; }
  AsyncUnit& async_unit() { return *async_unit_; }

  void wait_for_block() { wait(block_barrier_, shape_.num_threads); }
  void wait_for_warp() { wait(warps_[static_cast<size_t>(thread_ / 32)].barrier, 32); }
  // Waits at barrier `id`, 1 to 15, for `num_threads` threads, some of which may only arrive.
  void wait_named(int id, int num_threads);
  void arrive_named(int id, int num_threads);
  // Waits until the barrier has another generation.
  void wait_generation(Barrier& barrier) {
    barrier.waiters.push_back(thread_);
    give_way();
  }
  // Begins the barrier's next generation, so that the threads that wait for it can run.
  void release(Barrier& barrier);
  // Returns the value of each lane of the warp, in the order of lanes. Valid until the lane's next
  // exchange.
  template <typename T>
  const T* exchange(const T& mine) {
    static_assert(sizeof(T) <= kMaxExchange);
    Warp& warp = warps_[static_cast<size_t>(thread_ / 32)];
    const int lane = thread_ % 32;
    std::byte* slots = warp.slots[warp.parity[lane]];
    warp.parity[lane] ^= 1;
    std::memcpy(slots + static_cast<size_t>(lane) * sizeof(T), &mine, sizeof(T));
    wait_for_warp();
    return reinterpret_cast<const T*>(slots);
  }

  void copy_async(void* shared, const void* global, bool valid);
  void copy_async_commit();
  void copy_async_wait(int pending);

 private:
  static constexpr size_t kMaxExchange = 64;
  struct Warp {
    Barrier barrier;
    alignas(64) std::byte slots[2][32 * kMaxExchange];
    int parity[32] = {};
  };
  struct Copy {
    void* shared;
    const void* global;
    bool valid;
  };
  struct Fiber;

  Block(const BlockShape& shape, uint64_t seed, const std::function<void()>& body);
  ~Block();
  void run_all();
  bool run_round(size_t held_warp);
  void wait(Barrier& barrier, int expected) {
    if (++barrier.arrived == expected) {
      release(barrier);
    } else {
      wait_generation(barrier);
    }
  }
  // Lets other threads run until this one, which waits or is done, is resumed.
  void give_way() {
    Place& mine = *places_[static_cast<size_t>(thread_)];
    const int next = rounds_.next();
    if (next >= 0) thread_ = next;
    switch_places(mine, next < 0 ? scheduler_ : *places_[static_cast<size_t>(next)]);
  }
  static void run_threads();

  [[gnu::tls_model("initial-exec")]] static inline thread_local constinit Block* current_ = nullptr;

  BlockShape shape_;
  uint64_t random_;
  size_t slow_warp_ = 0;
  const std::function<void()>& body_;
  int thread_ = 0;
  Barrier block_barrier_;
  Barrier named_[16];
  std::vector<Warp> warps_;
  Place scheduler_;
  std::vector<Fiber*> fibers_;  // by thread
  std::vector<Place*> places_;  // of the fibers in fibers_
  int num_left_ = 0;            // threads that are not done
  Rounds rounds_;
  std::vector<uint8_t> shared_memory_;
  uint8_t* shared_ = nullptr;
  std::unique_ptr<AsyncUnit> async_unit_;
};

}  // namespace quire::cuda::emulation
