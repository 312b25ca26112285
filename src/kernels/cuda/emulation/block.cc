#include "kernels/cuda/emulation/block.h"

#include <deque>
#include <utility>

#include "kernels/cuda/emulation/async_unit.h"

namespace quire::cuda::emulation {
namespace {

constexpr size_t kStackBytes = size_t{96} << 10;
constexpr uint64_t kRoundsOfSlowWarp = 512;

}  // namespace

// A fiber runs a thread of one block after another, because starting a fiber takes longer than
// switching to it.
struct Block::Fiber {
  // Stacks of neighbouring fibers begin some cache lines apart: at equal addresses within their
  // pages they would evict each other from the cache.
  explicit Fiber(size_t number) : stack(new char[kStackBytes]) {
    begin_at(place, stack.get(), kStackBytes - number * 320 % 4096, &Block::run_threads);
  }

  Place place;
  std::unique_ptr<char[]> stack;
  std::vector<Copy> open_group;
  std::vector<std::vector<Copy>> groups;
};

Block::Block(const BlockShape& shape, uint64_t seed, const std::function<void()>& body)
    : shape_(shape),
      random_(seed * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(shape.block_index) + 1),
      body_(body),
      warps_(static_cast<size_t>(shape.num_threads / 32)),
      rounds_(shape.num_threads),
      shared_memory_(static_cast<size_t>(shape.shared_bytes) + 1024, 0xff),
      async_unit_(std::make_unique<AsyncUnit>(*this)) {
  QUIRE_CHECK(shape.num_threads > 0 && shape.num_threads % 32 == 0, "{} threads in a block",
              shape.num_threads);
  const auto address = reinterpret_cast<uintptr_t>(shared_memory_.data());
  shared_ = shared_memory_.data() + (1024 - address % 1024) % 1024;
}

Block::~Block() = default;

// The main loop of a fiber.
void Block::run_threads() {
  for (;;) {
    current().body_();
    --current().num_left_;
    current().give_way();
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
  // The first fibers of the pool run the threads of a block; all are kept for later blocks.
  static thread_local std::deque<Fiber> pool;
  while (pool.size() < num_threads) pool.emplace_back(pool.size());
  for (size_t i = 0; i < num_threads; ++i) {
    fibers_.push_back(&pool[i]);
    places_.push_back(&pool[i].place);
    pool[i].open_group.clear();
    pool[i].groups.clear();
  }
  num_left_ = shape_.num_threads;
  const size_t num_warps = warps_.size();
  for (uint64_t round = 0; num_left_ > 0; ++round) {
    random_ = random_ * 6364136223846793005u + 1442695040888963407u;
    // For some rounds one warp runs only when no other can. The value num_warps means that none is
    // held up.
    if (round % kRoundsOfSlowWarp == 0) slow_warp_ = (random_ >> 40) % (num_warps + 1);
    bool any_ran = run_round(slow_warp_) || async_unit_->land_copies();
    if (!any_ran) any_ran = run_round(num_warps);
    QUIRE_CHECK(any_ran, "block {}: every thread waits", shape_.block_index);
  }
}

// Runs each fiber that was ready when the round began, from a random one on, except those of
// `held_warp`. Returns false if there was none. When a fiber waits, it switches to the next one
// directly; the last one returns here.
bool Block::run_round(size_t held_warp) {
  rounds_.begin(random_ >> 33, held_warp);
  const int thread = rounds_.next();
  if (thread < 0) return false;
  thread_ = thread;
  switch_places(scheduler_, *places_[static_cast<size_t>(thread)]);
  return true;
}

void Block::release(Barrier& barrier) {
  barrier.arrived = 0;
  ++barrier.generation;
  rounds_.add(barrier.waiters);
  barrier.waiters.clear();
}

void Block::wait_named(int id, int num_threads) { wait(named_[id], num_threads); }
void Block::arrive_named(int id, int num_threads) {
  Barrier& barrier = named_[id];
  if (++barrier.arrived == num_threads) release(barrier);
}

void Block::copy_async(void* shared, const void* global, bool valid) {
  fibers_[static_cast<size_t>(thread_)]->open_group.push_back({shared, global, valid});
}

void Block::copy_async_commit() {
  Fiber& fiber = *fibers_[static_cast<size_t>(thread_)];
  fiber.groups.push_back(std::exchange(fiber.open_group, {}));
}

void Block::copy_async_wait(int pending) {
  std::vector<std::vector<Copy>>& groups = fibers_[static_cast<size_t>(thread_)]->groups;
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
