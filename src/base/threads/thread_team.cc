#include "base/threads/thread_team.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/threads/cpu_topology.h"
#include "base/threads/member_control.h"
#include "base/threads/run_delay.h"

namespace quire {
namespace {

// How long a thread spins before it sleeps. A decode step runs a region every 10-100 us, so a
// worker that has just finished one is soon needed again; the time also covers scheduling and
// sampling between two steps.
constexpr auto kSpinTime = std::chrono::microseconds(200);
constexpr int kSpinsPerLook = 64;  // between looks at the clock; a spin takes 10 to 50 ns

// A time slice of Linux's scheduler is 700 us or more, so a thread that lost its core is away for
// longer than this. The last pieces of a region mostly take less.
constexpr int64_t kLongWaitUs = 300;
// How often the caller's own delay is read, and after how long a break it does not count.
constexpr int64_t kAskCallerEveryUs = 1'000;
constexpr int64_t kLongestAskUs = 20'000;

// A piece is a quarter of the rest of a part: pieces are few, but small towards the end.
constexpr uint64_t kPiecesOfRest = 4;

inline void cpu_relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Spins; returns whether done() became true meanwhile.
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

void pin_current_thread(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  // If the system refuses (a container's seccomp filter), that costs speed, not correctness.
  (void)pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

}  // namespace

// One region: the caller stores body, context and the number of unfinished slots, then raises
// `generation`. To run a slot, a member first claims it: it raises the slot's `claimed` to the
// region's generation. That succeeds for one member only, and for none once the region is over,
// since it is over only when every slot was claimed and finished. Body and context are read after a
// claim, so they are those of a region that is not over. The release/acquire pairs of `generation`
// and `unfinished` are the only synchronization while all threads spin. `sleepers` and the mutex
// serve sleeping: a sleeper counts itself before it reads the generation again, and the caller
// raises the generation before it reads the count, so one of them always sees the other.
struct ThreadTeam::Impl {
  template <typename T>
  struct alignas(64) Line {
    std::atomic<T> value{0};
  };

  struct alignas(64) Slot {
    std::atomic<uint64_t> claimed{0};  // last region in which it was claimed
    // The rest of the slot's part of dealt work: [first grain << 32 | end grain].
    std::atomic<uint64_t> left{0};
  };

  struct alignas(64) Worker {
    std::atomic<bool> sleeps{false};
    std::atomic<bool> is_in_region{false};
    std::condition_variable wake;
    RunDelay delay;
    int64_t ran_us = -1;  // run_us() after a long wait of the caller; -1: the worker was idle
    std::thread thread;
  };

  // When a region began, by the clocks of the caller.
  struct RegionStart {
    int64_t us = 0;  // 0: not timed
    int64_t ran_us = 0;
    bool is_set() const { return us > 0; }
  };

  explicit Impl(int threads)
      : num_threads(threads),
        slots(static_cast<size_t>(threads)),
        workers(static_cast<size_t>(threads)),
        control(threads),
        members(threads) {}

  ~Impl() {
    stop.store(true);
    for (Worker& worker : workers) {
      if (!worker.thread.joinable()) continue;
      {
        const std::lock_guard lock(mutex);
        worker.wake.notify_one();
      }
      worker.thread.join();
    }
  }

  void work(int member, bool pin) {
    Worker& self = workers[static_cast<size_t>(member)];
    if (pin && !cpus.empty()) pin_current_thread(cpus[static_cast<size_t>(member) % cpus.size()]);
    self.delay.watch_this_thread(counts_delays);
    for (uint64_t seen = 0;;) {
      await_region_after(seen, member, self);
      if (stop.load()) return;
      seen = generation.value.load(std::memory_order_acquire);
      if (on_enter) on_enter(member);
      self.is_in_region.store(true, std::memory_order_relaxed);
      run_slots(seen, member);
      self.is_in_region.store(false, std::memory_order_relaxed);
    }
  }

  // Returns when there is a region for the member, or the team ends.
  void await_region_after(uint64_t seen, int member, Worker& self) {
    const auto is_wanted = [&] {
      return stop.load() ||
             (generation.value.load() != seen && member < members.load(std::memory_order_relaxed));
    };
    if (spin_until(is_wanted)) return;
    std::unique_lock lock(mutex);
    self.sleeps.store(true);
    sleepers.value.fetch_add(1);
    self.wake.wait(lock, is_wanted);
    sleepers.value.fetch_sub(1);
    self.sleeps.store(false);
  }

  // Claims and runs slots, first the member's own, until none is left. A member that is too late
  // for this region claims none.
  void run_slots(uint64_t region, int member) {
    for (int i = 0; i < num_threads; ++i) {
      const int slot = (member + i) % num_threads;
      if (!claim(slots[static_cast<size_t>(slot)], region)) continue;
      body(context, slot);
      if (unfinished.value.fetch_sub(1) != 1 || !caller_sleeps.load()) continue;
      const std::lock_guard lock(mutex);
      wake_caller.notify_one();
    }
  }

  static bool claim(Slot& slot, uint64_t region) {
    uint64_t claimed = slot.claimed.load(std::memory_order_relaxed);
    return claimed < region &&
           slot.claimed.compare_exchange_strong(claimed, region, std::memory_order_relaxed);
  }

  WorkRange items(uint64_t begin, uint64_t end) const {
    return {static_cast<int64_t>(begin) * grain,
            std::min(static_cast<int64_t>(end) * grain, dealt)};
  }

  // Takes a piece of the rest of a part, from the front or the back. Relaxed order is enough: a
  // part says which member does what, not what was done.
  WorkRange take_of(Slot& part, bool from_front) {
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

  // Starts a region for the members; wakes those that sleep.
  uint64_t begin_region() {
    const uint64_t region = generation.value.load(std::memory_order_relaxed) + 1;
    generation.value.store(region);
    if (sleepers.value.load() == 0) return region;
    for (int member = 1; member < control.num_members(); ++member) {
      Worker& worker = workers[static_cast<size_t>(member)];
      if (!worker.sleeps.load()) continue;
      const std::lock_guard lock(mutex);
      worker.wake.notify_one();
    }
    return region;
  }

  // Returns when the region is over, with the microseconds that this took; 0: hardly any. A worker
  // may have a slot and have lost its core: the caller then leaves its own core again and again,
  // since the system looks for a thread to run there each time a core becomes idle.
  int64_t await_end() {
    const auto is_over = [&] { return unfinished.value.load(std::memory_order_acquire) == 0; };
    for (int i = 0; i < kSpinsPerLook; ++i) {
      if (is_over()) return 0;
      cpu_relax();
    }
    const int64_t start_us = now_us();
    if (!spin_until(is_over)) {
      note_run_times();
      std::unique_lock lock(mutex);
      caller_sleeps.store(true);
      while (!wake_caller.wait_for(lock, kSpinTime, [&] { return unfinished.value.load() == 0; })) {
      }
      caller_sleeps.store(false);
      caller_slept_us = now_us() - run_times_us;
    }
    return now_us() - start_us;
  }

  // If the system does not count delays: records, after a long wait of the caller, how long the
  // workers that are not done have run until now.
  void note_run_times() {
    run_times_us = now_us();
    for (int member = 1; member < control.num_members(); ++member) {
      Worker& worker = workers[static_cast<size_t>(member)];
      if (worker.delay.is_counted()) continue;
      const bool is_at_work = worker.is_in_region.load(std::memory_order_relaxed);
      worker.ran_us = is_at_work ? worker.delay.run_us() : -1;
    }
  }

  // Whether the worker was off its core for much of the rest of the wait.
  bool was_off_core(const Worker& worker, int64_t now) const {
    return worker.ran_us >= 0 && worker.delay.run_us() - worker.ran_us < (now - run_times_us) / 2;
  }

  // Sets the number of members for the next region.
  void adapt(int64_t waited_us, const RegionStart& start) {
    const int64_t now = now_us();
    const bool caller_late = start.is_set() ? was_caller_off_core(start, now) : is_caller_late(now);
    const int num_late = num_late_workers(waited_us, now) + (caller_late ? 1 : 0);
    if (num_late > 0) {
      late_members.fetch_add(num_late, std::memory_order_relaxed);
      if (control.num_members() > 1) control.note_late(now, num_late);
    }
    control.note_time(now);
    members.store(control.num_members(), std::memory_order_relaxed);
  }

  // Returns the number of workers that were off their cores for much of the time that the caller
  // waited for them. Asking takes a microsecond for each, so it is done only after a long wait.
  int num_late_workers(int64_t waited_us, int64_t now) {
    if (waited_us < kLongWaitUs) return 0;
    int late = 0;
    for (int member = 1; member < control.num_members(); ++member) {
      Worker& worker = workers[static_cast<size_t>(member)];
      const bool is_late = worker.delay.is_counted() ? worker.delay.take_us() >= waited_us / 2
                                                     : was_off_core(worker, now);
      late += is_late ? 1 : 0;
    }
    return late;
  }

  // Times a region of several members if the system does not count delays.
  RegionStart start_of_region() {
    if (counts_delays && (caller_asked_us == 0 || workers[0].delay.is_counted())) return {};
    watch_caller();
    caller_slept_us = 0;
    return {.us = now_us(), .ran_us = workers[0].delay.run_us()};
  }
  bool was_caller_off_core(const RegionStart& start, int64_t now) const {
    const int64_t ran_us = workers[0].delay.run_us() - start.ran_us;
    return now - start.us - ran_us - caller_slept_us >= kLongWaitUs;
  }
  // Starts to watch the caller; returns false if it was watched already.
  bool watch_caller() {
    if (caller == std::this_thread::get_id()) return false;
    caller = std::this_thread::get_id();
    workers[0].delay.watch_this_thread(counts_delays);
    return true;
  }

  // Returns whether other threads had the caller's core since the last call. The time before a
  // break between regions does not count.
  bool is_caller_late(int64_t now) {
    const int64_t since_us = now - caller_asked_us;
    if (since_us < kAskCallerEveryUs) return false;
    caller_asked_us = now;
    if (watch_caller()) return false;
    const bool was_delayed = workers[0].delay.take_us() >= kLongWaitUs;
    return was_delayed && control.num_members() > 1 && since_us < kLongestAskUs;
  }

  const int num_threads;
  void (*body)(void*, int) = nullptr;
  void* context = nullptr;
  std::function<void(int)> on_enter;
  std::vector<Slot> slots;
  int num_parts = 0;
  int64_t dealt = 0;  // items
  int64_t grain = 1;
  Line<uint64_t> generation;
  Line<int> unfinished;  // slots
  Line<int> sleepers;    // workers
  std::atomic<bool> caller_sleeps{false};
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::condition_variable wake_caller;
  std::vector<int> cpus;        // one per physical core; empty when unknown
  std::vector<Worker> workers;  // by member; the first is the caller's and has no thread
  bool in_region = false;
  bool is_adaptive = true;
  bool counts_delays = true;  // if the system does
  MemberControl control;
  std::atomic<int> members;
  std::atomic<int64_t> late_members{0};
  std::thread::id caller;
  int64_t caller_asked_us = 0;
  int64_t run_times_us = 0;     // of the last note_run_times()
  int64_t caller_slept_us = 0;  // in the last region with a long wait of the caller
};

Result<ThreadTeam> ThreadTeam::create(const ThreadTeamOptions& options) {
  if (options.num_threads < 0) {
    return invalid_argument("--threads: expected a number >= 0, got {}", options.num_threads);
  }
  const int num_threads = options.num_threads > 0 ? options.num_threads : default_num_threads();
  auto impl = std::make_unique<Impl>(num_threads);
  impl->cpus = one_cpu_per_core();
  impl->on_enter = options.on_enter;
  impl->is_adaptive = options.adapt;
  impl->counts_delays = options.counts_delays;
  // If there are more threads than cores, the kernel distributes them: pinning would put several on
  // one.
  const bool pin = options.pin && num_threads <= static_cast<int>(impl->cpus.size());
  int member = 1;
  try {
    for (; member < num_threads; ++member) {
      impl->workers[static_cast<size_t>(member)].thread =
          std::thread([impl = impl.get(), member, pin] { impl->work(member, pin); });
    }
  } catch (const std::system_error& e) {
    return resource_exhausted("--threads: expected {} compute threads, the system gave {}: {}",
                              num_threads, member, e.what());
  }
  return ThreadTeam(std::move(impl));
}

ThreadTeam::ThreadTeam(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ThreadTeam::~ThreadTeam() = default;
ThreadTeam::ThreadTeam(ThreadTeam&&) noexcept = default;
ThreadTeam& ThreadTeam::operator=(ThreadTeam&&) noexcept = default;

int ThreadTeam::size() const { return impl_->num_threads; }

ThreadTeamStats ThreadTeam::stats() const {
  return {.num_members = impl_->members.load(std::memory_order_relaxed),
          .late_members = impl_->late_members.load(std::memory_order_relaxed)};
}

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
  for (int slot = 0; slot < num_threads; ++slot) {
    const WorkRange part = split_work(count, grain, slot, num_threads);
    const auto begin = static_cast<uint64_t>((part.begin + grain - 1) / grain);
    const auto end = static_cast<uint64_t>((part.end + grain - 1) / grain);
    impl.slots[static_cast<size_t>(slot)].left.store(begin << 32 | end, std::memory_order_relaxed);
  }
}

WorkRange ThreadTeam::take(int slot) {
  Impl& impl = *impl_;
  for (int i = 0; i < impl.num_parts; ++i) {
    const int part = (slot + i) % impl.num_parts;
    const WorkRange piece = impl.take_of(impl.slots[static_cast<size_t>(part)], i == 0);
    if (piece.begin < piece.end) return piece;
  }
  return {0, 0};
}

bool ThreadTeam::has_dealt_work() const {
  for (int part = 0; part < impl_->num_parts; ++part) {
    const uint64_t left =
        impl_->slots[static_cast<size_t>(part)].left.load(std::memory_order_relaxed);
    if (left >> 32 != (left & 0xffffffffu)) return true;
  }
  return false;
}

void ThreadTeam::run_erased(void (*body)(void*, int), void* context) {
  Impl& impl = *impl_;
  QUIRE_DCHECK(!impl.in_region, "a region was started inside another");
  if (impl.num_threads == 1) return body(context, 0);
  impl.in_region = true;
  int64_t waited_us = 0;
  Impl::RegionStart start;
  if (impl.control.num_members() == 1) {
    for (int slot = 0; slot < impl.num_threads; ++slot) body(context, slot);
  } else {
    if (impl.is_adaptive) start = impl.start_of_region();
    impl.body = body;
    impl.context = context;
    impl.unfinished.value.store(impl.num_threads, std::memory_order_relaxed);
    impl.run_slots(impl.begin_region(), 0);
    waited_us = impl.await_end();
  }
  if (impl.is_adaptive) impl.adapt(waited_us, start);
  impl.in_region = false;
}

}  // namespace quire
