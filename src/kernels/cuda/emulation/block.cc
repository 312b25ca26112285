#include "kernels/cuda/emulation/block.h"

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <utility>

#include "kernels/cuda/emulation/async_unit.h"

namespace quire::cuda::emulation {
namespace {

constexpr size_t kStackBytes = size_t{96} << 10;
constexpr uint64_t kRoundsOfSlowWarp = 512;
thread_local Block* current_block = nullptr;
thread_local ucontext_t scheduler_context;
thread_local jmp_buf scheduler_jump;

// Stacks are kept for the blocks that follow.
class StackPool {
 public:
  std::unique_ptr<char[]> take() {
    if (free_.empty()) return std::unique_ptr<char[]>(new char[kStackBytes]);
    std::unique_ptr<char[]> stack = std::move(free_.back());
    free_.pop_back();
    return stack;
  }
  void put(std::unique_ptr<char[]> stack) { free_.push_back(std::move(stack)); }

 private:
  std::vector<std::unique_ptr<char[]>> free_;
};
thread_local StackPool stack_pool;

}  // namespace

// A fiber is entered by its context, and from then on switched by jumps, which make no system
// calls.
struct Block::Fiber {
  ucontext_t context{};
  jmp_buf jump{};
  bool is_entered = false;
  std::unique_ptr<char[]> stack = stack_pool.take();
  const Barrier* waits_for = nullptr;
  uint64_t waits_generation = 0;
  bool done = false;
  std::vector<Copy> open_group;
  std::vector<std::vector<Copy>> groups;

  ~Fiber() { stack_pool.put(std::move(stack)); }

  void prepare(uint64_t block) {
    getcontext(&context);
    context.uc_stack.ss_sp = stack.get();
    context.uc_stack.ss_size = kStackBytes;
    makecontext(&context, reinterpret_cast<void (*)()>(&Block::enter), 2,
                static_cast<uint32_t>(block >> 32), static_cast<uint32_t>(block));
  }
  // Runs, called by the scheduler, until the fiber waits or is done.
  void run() {
    if (_setjmp(scheduler_jump) != 0) return;
    if (std::exchange(is_entered, true)) _longjmp(jump, 1);
    swapcontext(&scheduler_context, &context);
  }
  void leave() {
    if (_setjmp(jump) == 0) _longjmp(scheduler_jump, 1);
  }
  bool can_run() const {
    return !done && (waits_for == nullptr || waits_for->generation != waits_generation);
  }
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

Block& Block::current() {
  QUIRE_CHECK(current_block != nullptr, "device code outside of a kernel");
  return *current_block;
}

void Block::enter(uint32_t high, uint32_t low) {
  auto* block = reinterpret_cast<Block*>(uint64_t{high} << 32 | low);
  block->body_();
  Fiber& fiber = *block->fibers_[static_cast<size_t>(block->thread_)];
  fiber.done = true;
  fiber.leave();
}

void Block::run(const BlockShape& shape, uint64_t seed, const std::function<void()>& body) {
  QUIRE_CHECK(current_block == nullptr, "a kernel inside a kernel");
  Block block(shape, seed, body);
  current_block = &block;
  block.run_all();
  current_block = nullptr;
}

void Block::run_all() {
  const auto address = reinterpret_cast<uint64_t>(this);
  for (int i = 0; i < shape_.num_threads; ++i) {
    fibers_.push_back(std::make_unique<Fiber>());
    fibers_.back()->prepare(address);
  }
  const size_t num_warps = warps_.size();
  for (uint64_t round = 0; !all_done(); ++round) {
    random_ = random_ * 6364136223846793005u + 1442695040888963407u;
    const size_t first = (random_ >> 33) % fibers_.size();
    // For some rounds one warp runs only when no other can; with num_warps none is held up.
    if (round % kRoundsOfSlowWarp == 0) slow_warp_ = (random_ >> 40) % (num_warps + 1);
    bool any_ran = run_round(first, slow_warp_) || async_unit_->land_copies();
    if (!any_ran) any_ran = run_round(first, num_warps);
    QUIRE_CHECK(any_ran || all_done(), "block {}: every thread waits", shape_.block_index);
  }
}

bool Block::all_done() const {
  return std::all_of(fibers_.begin(), fibers_.end(),
                     [](const std::unique_ptr<Fiber>& fiber) { return fiber->done; });
}

// Runs each fiber that can run, from number `first` on; returns false when there was none.
bool Block::run_round(size_t first, size_t slow_warp) {
  bool any_ran = false;
  for (size_t i = 0; i < fibers_.size(); ++i) {
    const size_t index = (first + i) % fibers_.size();
    Fiber& fiber = *fibers_[index];
    if (index / 32 == slow_warp || !fiber.can_run()) continue;
    any_ran = true;
    thread_ = static_cast<int>(index);
    fiber.run();
  }
  return any_ran;
}

void Block::wait(Barrier& barrier, int expected) {
  if (++barrier.arrived == expected) {
    barrier.arrived = 0;
    ++barrier.generation;
    return;
  }
  wait_generation(barrier);
}

void Block::wait_generation(const Barrier& barrier) {
  Fiber& fiber = *fibers_[static_cast<size_t>(thread_)];
  fiber.waits_for = &barrier;
  fiber.waits_generation = barrier.generation;
  fiber.leave();
}

void Block::wait_for_block() { wait(block_barrier_, shape_.num_threads); }
void Block::wait_named(int id, int num_threads) { wait(named_[id], num_threads); }
void Block::arrive_named(int id, int num_threads) {
  Barrier& barrier = named_[id];
  if (++barrier.arrived < num_threads) return;
  barrier.arrived = 0;
  ++barrier.generation;
}
void Block::wait_for_warp() { wait(warps_[static_cast<size_t>(thread_ / 32)].barrier, 32); }

void Block::copy_async(void* shared, const void* global, bool valid) {
  fibers_[static_cast<size_t>(thread_)]->open_group.push_back({shared, global, valid});
}

void Block::copy_async_commit() {
  Fiber& fiber = *fibers_[static_cast<size_t>(thread_)];
  fiber.groups.push_back(std::exchange(fiber.open_group, {}));
}

void Block::copy_async_wait(int pending) {
  Fiber& fiber = *fibers_[static_cast<size_t>(thread_)];
  while (static_cast<int>(fiber.groups.size()) > pending) {
    for (const Copy& copy : fiber.groups.front()) {
      if (copy.valid) {
        std::memcpy(copy.shared, copy.global, 16);
      } else {
        std::memset(copy.shared, 0, 16);
      }
    }
    fiber.groups.erase(fiber.groups.begin());
  }
}

}  // namespace quire::cuda::emulation
