#include "base/threads/spins.h"

#include <unistd.h>

namespace quire {

int spins_before_sleep(int num_threads) {
  constexpr int kSpins = 4000;
  return num_threads <= ::sysconf(_SC_NPROCESSORS_ONLN) ? kSpins : 0;
}

}  // namespace quire
