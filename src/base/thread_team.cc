#include "base/thread_team.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/check.h"

namespace quire {
namespace {

// How long a thread spins before it sleeps. A decode step runs a region every 10-100 us, so a
// worker that just finished one is wanted again at once; this also spans the scheduling and the
// sampling between two steps.
constexpr auto kSpinTime = std::chrono::microseconds(200);
constexpr int kSpinsPerLook = 64;  // at the clock: a spin takes 10 to 50 ns

// A piece is a quarter of what is left of a part: few pieces, and small ones when it matters.
constexpr uint64_t kPiecesOfRest = 4;

inline void cpu_relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Whether done() came true while the thread spun.
template <typename Done>
bool spin_until(Done&& done) {
  for (auto end = std::chrono::steady_clock::time_point::max();;) {
    for (int i = 0; i < kSpinsPerLook; ++i) {
      if (done()) return true;
      cpu_relax();
    }
    const auto now = std::chrono::steady_clock::now();
    if (now >= end) return false;
    end = std::min(end, now + kSpinTime);
  }
}

// One line of /sys/devices/system/cpu/cpuN/topology/<name> as a number, or -1 when it is not there.
int topology_number(int cpu, const char* name) {
  char path[128];
  std::snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/%s", cpu, name);
  std::FILE* file = std::fopen(path, "r");
  if (file == nullptr) return -1;
  int value = -1;
  if (std::fscanf(file, "%d", &value) != 1) value = -1;
  std::fclose(file);
  return value;
}

// The first allowed CPU of each physical core that the process may use, ascending.
std::vector<int> one_cpu_per_core() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return cpus;
  std::vector<std::pair<int, int>> seen;  // (package, core)
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    const std::pair<int, int> core{topology_number(cpu, "physical_package_id"),
                                   topology_number(cpu, "core_id")};
    // Where the topology is hidden every CPU counts as a core.
    const bool known = core.second >= 0;
    if (known && std::find(seen.begin(), seen.end(), core) != seen.end()) continue;
    if (known) seen.push_back(core);
    cpus.push_back(cpu);
  }
  return cpus;
}

void pin_current_thread(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  // A refusal (a container's seccomp filter) costs speed, not correctness.
  (void)pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

}  // namespace

int num_physical_cores() {
  const auto cpus = one_cpu_per_core();
  return std::max(1, static_cast<int>(cpus.size()));
}

// One region: the caller stores body and context, sets `running`, then raises `generation`; a
// worker that sees a new generation runs the body and lowers `running`; the last one lets the
// caller go. The two release/acquire pairs (generation, running) are the only synchronization while
// everybody spins. `sleepers` and the mutex serve parking: a sleeper counts itself before it looks
// at the generation again, and the caller raises the generation before it looks at the count, so
// one of them always sees the other.
struct ThreadTeam::Impl {
  struct alignas(64) Line {
    std::atomic<uint32_t> value{0};
  };

  // What is left of a thread's part: [first grain << 32 | end grain].
  struct alignas(64) Part {
    std::atomic<uint64_t> left{0};
  };

  void (*body)(void*, int) = nullptr;
  void* context = nullptr;
  std::vector<Part> parts;
  int num_parts = 0;
  int64_t dealt = 0;  // items
  int64_t grain = 1;
  Line generation;
  Line running;
  Line sleepers;
  std::atomic<bool> caller_sleeps{false};
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::condition_variable wake_workers;
  std::condition_variable wake_caller;
  std::vector<int> cpus;  // one per physical core; empty when unknown
  std::vector<std::thread> workers;
  int num_threads = 1;
  bool in_region = false;

  ~Impl() {
    stop.store(true, std::memory_order_release);
    raise_generation();
    for (std::thread& worker : workers) worker.join();
  }

  void work(int thread, bool pin) {
    if (pin && !cpus.empty()) pin_current_thread(cpus[thread % cpus.size()]);
    uint32_t seen = 0;
    while (true) {
      await_generation_after(seen);
      ++seen;
      if (stop.load(std::memory_order_acquire)) return;
      body(context, thread);
      if (running.value.fetch_sub(1) == 1 && caller_sleeps.load()) {
        const std::lock_guard lock(mutex);
        wake_caller.notify_one();
      }
    }
  }

  void await_generation_after(uint32_t seen) {
    if (spin_until([&] { return generation.value.load(std::memory_order_acquire) != seen; }))
      return;
    std::unique_lock lock(mutex);
    sleepers.value.fetch_add(1);
    wake_workers.wait(lock, [&] { return generation.value.load() != seen; });
    sleepers.value.fetch_sub(1);
  }

  WorkRange items(uint64_t begin, uint64_t end) const {
    return {static_cast<int64_t>(begin) * grain,
            std::min(static_cast<int64_t>(end) * grain, dealt)};
  }

  // Some of what is left of a part, from the front or the back. Relaxed: a part says who does what,
  // not what was done.
  WorkRange take_of(Part& part, bool from_front) {
    uint64_t left = part.left.load(std::memory_order_relaxed);
    while (true) {
      const uint64_t begin = left >> 32;
      const uint64_t end = left & 0xffffffffu;
      if (begin == end) return {0, 0};
      const uint64_t count = (end - begin + kPiecesOfRest - 1) / kPiecesOfRest;
      const uint64_t rest = from_front ? (begin + count) << 32 | end : begin << 32 | (end - count);
      if (!part.left.compare_exchange_weak(left, rest, std::memory_order_relaxed)) continue;
      return from_front ? items(begin, begin + count) : items(end - count, end);
    }
  }

  void raise_generation() {
    generation.value.fetch_add(1);
    if (sleepers.value.load() == 0) return;
    const std::lock_guard lock(mutex);
    wake_workers.notify_all();
  }

  void await_workers() {
    if (spin_until([&] { return running.value.load(std::memory_order_acquire) == 0; })) return;
    std::unique_lock lock(mutex);
    caller_sleeps.store(true);
    wake_caller.wait(lock, [&] { return running.value.load() == 0; });
    caller_sleeps.store(false);
  }
};

Result<ThreadTeam> ThreadTeam::create(const ThreadTeamOptions& options) {
  if (options.num_threads < 0) {
    return invalid_argument("--threads: expected a number >= 0, got {}", options.num_threads);
  }
  auto impl = std::make_unique<Impl>();
  impl->cpus = one_cpu_per_core();
  const int cores = std::max(1, static_cast<int>(impl->cpus.size()));
  impl->num_threads = options.num_threads > 0 ? options.num_threads : cores;
  impl->parts = std::vector<Impl::Part>(static_cast<size_t>(impl->num_threads));
  // More threads than cores share them by the kernel's choice: pinning would stack them.
  const bool pin = options.pin && impl->num_threads <= cores;
  try {
    for (int thread = 1; thread < impl->num_threads; ++thread) {
      impl->workers.emplace_back([impl = impl.get(), thread, pin] { impl->work(thread, pin); });
    }
  } catch (const std::system_error& e) {
    return resource_exhausted("--threads: expected {} compute threads, the system gave {}: {}",
                              impl->num_threads, impl->workers.size() + 1, e.what());
  }
  return ThreadTeam(std::move(impl));
}

ThreadTeam::ThreadTeam(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ThreadTeam::~ThreadTeam() = default;
ThreadTeam::ThreadTeam(ThreadTeam&&) noexcept = default;
ThreadTeam& ThreadTeam::operator=(ThreadTeam&&) noexcept = default;

int ThreadTeam::size() const { return impl_->num_threads; }

void ThreadTeam::pin_caller() {
  if (!impl_->cpus.empty() && impl_->num_threads <= static_cast<int>(impl_->cpus.size())) {
    pin_current_thread(impl_->cpus[0]);
  }
}

void ThreadTeam::deal(int64_t count, int64_t grain, int num_threads) {
  Impl& impl = *impl_;
  QUIRE_DCHECK(!impl.in_region && num_threads <= impl.num_threads, "dealt to {} threads of {}",
               num_threads, impl.num_threads);
  QUIRE_DCHECK(grain >= 1 && count / grain < int64_t{1} << 32, "{} items by {}", count, grain);
  impl.dealt = count;
  impl.grain = grain;
  impl.num_parts = num_threads;
  for (int thread = 0; thread < num_threads; ++thread) {
    const WorkRange part = split_work(count, grain, thread, num_threads);
    const auto begin = static_cast<uint64_t>((part.begin + grain - 1) / grain);
    const auto end = static_cast<uint64_t>((part.end + grain - 1) / grain);
    impl.parts[static_cast<size_t>(thread)].left.store(begin << 32 | end,
                                                       std::memory_order_relaxed);
  }
}

WorkRange ThreadTeam::take(int thread) {
  Impl& impl = *impl_;
  for (int i = 0; i < impl.num_parts; ++i) {
    const int part = (thread + i) % impl.num_parts;
    const WorkRange piece = impl.take_of(impl.parts[static_cast<size_t>(part)], i == 0);
    if (piece.begin < piece.end) return piece;
  }
  return {0, 0};
}

void ThreadTeam::run_erased(void (*body)(void*, int), void* context) {
  Impl& impl = *impl_;
  QUIRE_DCHECK(!impl.in_region, "a region was started inside another");
  if (impl.num_threads == 1) return body(context, 0);
  impl.in_region = true;
  impl.body = body;
  impl.context = context;
  impl.running.value.store(static_cast<uint32_t>(impl.num_threads - 1), std::memory_order_relaxed);
  impl.raise_generation();
  body(context, 0);
  impl.await_workers();
  impl.in_region = false;
}

}  // namespace quire
