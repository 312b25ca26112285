// A persistent team of compute threads, pinned to physical cores.
//
//   team.run([&](int thread) { work_on(slice(thread, team.size())); });   // returns when every
//   thread has finished
//
// The caller is thread 0. Workers spin between regions that follow each other closely and park when
// idle. What a thread computes may depend on its index only through which outputs it writes, never
// through how they are reduced (law L4).
//
// Work that can be cut anywhere is dealt out before a region and taken in pieces inside it, so that
// nobody waits long for a thread whose core is slower or busy:
//
//   team.deal(num_columns, 32, team.size());
//   team.run([&](int thread) {
//     for (WorkRange r = team.take(thread); r.begin < r.end; r = team.take(thread)) work_on(r);
//   });
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "base/result.h"

namespace quire {

// The half-open part [begin, end) of [0, count) that `thread` of `num_threads` owns, cut at
// multiples of `grain`.
struct WorkRange {
  int64_t begin;
  int64_t end;
};
constexpr WorkRange split_work(int64_t count, int64_t grain, int thread, int num_threads) {
  const int64_t chunks = (count + grain - 1) / grain;
  const int64_t first = chunks * thread / num_threads * grain;
  const int64_t last = chunks * (thread + 1) / num_threads * grain;
  return {first < count ? first : count, last < count ? last : count};
}

struct ThreadTeamOptions {
  int num_threads = 0;  // 0: one per physical core that the process may use
  bool pin = true;
};

class ThreadTeam {
 public:
  // kInvalidArgument: num_threads < 0. kResourceExhausted: the system gives no more threads.
  static Result<ThreadTeam> create(const ThreadTeamOptions& options);
  ~ThreadTeam();
  ThreadTeam(ThreadTeam&&) noexcept;
  ThreadTeam& operator=(ThreadTeam&&) noexcept;

  int size() const;

  // Pins the calling thread to the team's first core (the workers own the others). For the one
  // thread that lives to call run(); threads that it starts later inherit the pin, so it is never
  // done unasked.
  void pin_caller();

  // Deals [0, count) out to the first `num_threads` threads, a part as of split_work() to each. Not
  // inside a region; replaces what was dealt before. count / grain < 2^32.
  void deal(int64_t count, int64_t grain, int num_threads);
  // A piece of what is left of the thread's part, from its front, or of another's part, from its
  // back; pieces become smaller towards the end, down to `grain`. Empty when nothing is left.
  WorkRange take(int thread);

  // Calls body(thread) once on each thread, thread in [0, size()). Not reentrant; one caller at a
  // time. body may not throw. Allocates nothing.
  template <typename Body>
  void run(Body&& body) {
    run_erased([](void* context,
                  int thread) { (*static_cast<std::remove_reference_t<Body>*>(context))(thread); },
               const_cast<void*>(static_cast<const void*>(&body)));
  }

 private:
  struct Impl;
  explicit ThreadTeam(std::unique_ptr<Impl> impl);
  void run_erased(void (*body)(void*, int), void* context);
  std::unique_ptr<Impl> impl_;
};

// Physical cores that the process may use (its affinity mask counts), at least 1.
int num_physical_cores();

}  // namespace quire
