#include "kernels/cuda/emulation/block.h"

#include <ucontext.h>

#include <deque>
#include <numeric>
#include <utility>

#include "kernels/cuda/emulation/async_unit.h"

namespace quire::cuda::emulation {
namespace {

constexpr size_t kStackBytes = size_t{96} << 10;
constexpr uint64_t kRoundsOfSlowWarp = 512;

// What the compiler's own jumps keep. They save no registers and make no calls, which matters here:
// every exchange between the lanes of a warp is 32 switches between fibers.
using JumpBuffer = void* [5];
thread_local JumpBuffer scheduler_jump;

}  // namespace

// A fiber is entered by a context once and switched by jumps from then on. It runs a thread of one
// block after another, because contexts make system calls.
class Block::Fiber {
 public:
  // Stacks of neighbours begin some lines of the cache apart: at equal addresses within their pages
  // they would keep each other out of it.
  explicit Fiber(size_t number) : stack_bytes_(kStackBytes - number * 320 % 4096) {}

  // Runs, called by the scheduler, until the fiber waits or its thread is done.
  void run() {
    if (__builtin_setjmp(scheduler_jump) == 0) resume();
  }
  // Returns, called by the fiber, when the scheduler runs it again.
  void leave() {
    if (__builtin_setjmp(jump_) == 0) return_to_scheduler();
  }

  std::vector<Copy> open_group;
  std::vector<std::vector<Copy>> groups;

 private:
  [[noreturn, gnu::noinline]] static void return_to_scheduler() {
    __builtin_longjmp(scheduler_jump, 1);
  }
  [[gnu::noinline]] void resume() {
    if (is_entered_) __builtin_longjmp(jump_, 1);
    is_entered_ = true;
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = stack_.get();
    context.uc_stack.ss_size = stack_bytes_;
    makecontext(&context, &Block::run_threads, 0);
    setcontext(&context);
  }

  JumpBuffer jump_{};
  bool is_entered_ = false;
  size_t stack_bytes_;
  std::unique_ptr<char[]> stack_{new char[kStackBytes]};
};

Block::Block(const BlockShape& shape, uint64_t seed, const std::function<void()>& body)
    : shape_(shape),
      random_(seed * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(shape.block_index) + 1),
      body_(body),
      warps_(static_cast<size_t>(shape.num_threads / 32)),
      shared_memory_(static_cast<size_t>(shape.shared_bytes) + 1024, 0xff),
      async_unit_(std::make_unique<AsyncUnit>(*this)) {
  QUIRE_CHECK(shape.num_threads > 0 && shape.num_threads % 32 == 0, "{} threads in a block",
              shape.num_threads);
  const auto address = reinterpret_cast<uintptr_t>(shared_memory_.data());
  shared_ = shared_memory_.data() + (1024 - address % 1024) % 1024;
}

Block::~Block() = default;

// The life of a fiber.
void Block::run_threads() {
  for (;;) {
    current().body_();
    --current().num_left_;
    current().fiber().leave();
  }
}

void Block::run(const BlockShape& shape, uint64_t seed, const std::function<void()>& body) {
  QUIRE_CHECK(current_ == nullptr, "a kernel inside a kernel");
  Block block(shape, seed, body);
  current_ = &block;
  block.run_all();
  current_ = nullptr;
}

void Block::run_all() {
  const auto num_threads = static_cast<size_t>(shape_.num_threads);
  // The first fibers run the threads of a block; all are kept for the blocks that follow.
  static thread_local std::deque<Fiber> pool;
  while (pool.size() < num_threads) pool.emplace_back(pool.size());
  for (size_t i = 0; i < num_threads; ++i) {
    fibers_.push_back(&pool[i]);
    pool[i].open_group.clear();
    pool[i].groups.clear();
  }
  ready_.resize(num_threads);
  std::iota(ready_.begin(), ready_.end(), 0);
  num_left_ = shape_.num_threads;
  const size_t num_warps = warps_.size();
  for (uint64_t round = 0; num_left_ > 0; ++round) {
    random_ = random_ * 6364136223846793005u + 1442695040888963407u;
    // For some rounds one warp runs only when no other can; with num_warps none is held up.
    if (round % kRoundsOfSlowWarp == 0) slow_warp_ = (random_ >> 40) % (num_warps + 1);
    bool any_ran = run_round(slow_warp_) || async_unit_->land_copies();
    if (!any_ran) any_ran = run_round(num_warps);
    QUIRE_CHECK(any_ran, "block {}: every thread waits", shape_.block_index);
  }
}

// Runs each fiber that could run when the round began, from a random one on, but for those of
// `slow_warp`; returns false when there was none.
bool Block::run_round(size_t slow_warp) {
  round_.clear();
  std::swap(round_, ready_);
  if (round_.empty()) return false;
  const size_t first = (random_ >> 33) % round_.size();
  bool any_ran = false;
  for (size_t i = 0; i < round_.size(); ++i) {
    const size_t at = first + i;
    const int thread = round_[at < round_.size() ? at : at - round_.size()];
    if (static_cast<size_t>(thread / 32) == slow_warp) {
      ready_.push_back(thread);
      continue;
    }
    any_ran = true;
    thread_ = thread;
    fiber().run();
  }
  return any_ran;
}

Block::Fiber& Block::fiber() { return *fibers_[static_cast<size_t>(thread_)]; }

void Block::wait(Barrier& barrier, int expected) {
  if (++barrier.arrived == expected) {
    release(barrier);
  } else {
    wait_generation(barrier);
  }
}

void Block::wait_generation(Barrier& barrier) {
  barrier.waiters.push_back(thread_);
  fiber().leave();
}

void Block::release(Barrier& barrier) {
  barrier.arrived = 0;
  ++barrier.generation;
  ready_.insert(ready_.end(), barrier.waiters.begin(), barrier.waiters.end());
  barrier.waiters.clear();
}

void Block::wait_for_block() { wait(block_barrier_, shape_.num_threads); }
void Block::wait_named(int id, int num_threads) { wait(named_[id], num_threads); }
void Block::arrive_named(int id, int num_threads) {
  Barrier& barrier = named_[id];
  if (++barrier.arrived == num_threads) release(barrier);
}
void Block::wait_for_warp() { wait(warps_[static_cast<size_t>(thread_ / 32)].barrier, 32); }

void Block::copy_async(void* shared, const void* global, bool valid) {
  fiber().open_group.push_back({shared, global, valid});
}

void Block::copy_async_commit() { fiber().groups.push_back(std::exchange(fiber().open_group, {})); }

void Block::copy_async_wait(int pending) {
  std::vector<std::vector<Copy>>& groups = fiber().groups;
  while (static_cast<int>(groups.size()) > pending) {
    for (const Copy& copy : groups.front()) {
      if (copy.valid) {
        std::memcpy(copy.shared, copy.global, 16);
      } else {
        std::memset(copy.shared, 0, 16);
      }
    }
    groups.erase(groups.begin());
  }
}

}  // namespace quire::cuda::emulation
