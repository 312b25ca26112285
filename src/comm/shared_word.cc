#include "comm/shared_word.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

namespace quire {
namespace {

constexpr long kSleepNs = 20'000'000;

}  // namespace

// The two atomics are sequentially consistent, so either this thread sees the sleeper, or the
// sleeper sees the new value.
void SharedWord::raise(uint32_t value) {
  value_.store(value, std::memory_order_seq_cst);
  if (num_sleepers_.load(std::memory_order_seq_cst) > 0) wake();
}

void SharedWord::wake() {
  ::syscall(SYS_futex, &value_, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

bool SharedWord::spin(uint32_t wanted, int num_spins) const {
  for (int spin = 0; spin < num_spins; ++spin) {
    if (has_come(wanted)) return true;
    __builtin_ia32_pause();
  }
  return has_come(wanted);
}

bool SharedWord::sleep(uint32_t wanted, const std::function<bool()>& goes_on) {
  num_sleepers_.fetch_add(1, std::memory_order_seq_cst);
  while (!has_come(wanted) && goes_on()) {
    const uint32_t seen = value_.load(std::memory_order_seq_cst);
    const timespec timeout{0, kSleepNs};
    if (!is_at_least(seen, wanted))
      ::syscall(SYS_futex, &value_, FUTEX_WAIT, seen, &timeout, nullptr, 0);
  }
  num_sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  return has_come(wanted);
}

}  // namespace quire
