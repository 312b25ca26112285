#include "base/thread_team.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
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
// worker that just finished one is wanted again at once; 200 us also spans the scheduling and
// sampling between two steps.
constexpr int kSpinsBeforePark = 6000;

inline void cpu_relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
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

  void (*body)(void*, int) = nullptr;
  void* context = nullptr;
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
    for (int i = 0; i < kSpinsBeforePark; ++i) {
      if (generation.value.load(std::memory_order_acquire) != seen) return;
      cpu_relax();
    }
    std::unique_lock lock(mutex);
    sleepers.value.fetch_add(1);
    wake_workers.wait(lock, [&] { return generation.value.load() != seen; });
    sleepers.value.fetch_sub(1);
  }

  void raise_generation() {
    generation.value.fetch_add(1);
    if (sleepers.value.load() == 0) return;
    const std::lock_guard lock(mutex);
    wake_workers.notify_all();
  }

  void await_workers() {
    for (int i = 0; i < kSpinsBeforePark; ++i) {
      if (running.value.load(std::memory_order_acquire) == 0) return;
      cpu_relax();
    }
    std::unique_lock lock(mutex);
    caller_sleeps.store(true);
    wake_caller.wait(lock, [&] { return running.value.load() == 0; });
    caller_sleeps.store(false);
  }
};

Result<ThreadTeam> ThreadTeam::create(const ThreadTeamOptions& options) {
  if (options.num_threads < 0) {
    return invalid_argument("threads: expected a number >= 0, got {}", options.num_threads);
  }
  auto impl = std::make_unique<Impl>();
  impl->cpus = one_cpu_per_core();
  const int cores = std::max(1, static_cast<int>(impl->cpus.size()));
  impl->num_threads = options.num_threads > 0 ? options.num_threads : cores;
  // More threads than cores share them by the kernel's choice: pinning would stack them.
  const bool pin = options.pin && impl->num_threads <= cores;
  try {
    for (int thread = 1; thread < impl->num_threads; ++thread) {
      impl->workers.emplace_back([impl = impl.get(), thread, pin] { impl->work(thread, pin); });
    }
  } catch (const std::system_error& e) {
    return resource_exhausted("threads: expected {} compute threads, the system gave {}: {}",
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
