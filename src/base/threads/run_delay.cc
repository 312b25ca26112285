#include "base/threads/run_delay.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <charconv>
#include <string_view>

namespace quire {

RunDelay::~RunDelay() {
  const int file = file_.load();
  if (file >= 0) close(file);
}

void RunDelay::watch_this_thread(bool may_count) {
  clockid_t clock = CLOCK_THREAD_CPUTIME_ID;
  pthread_getcpuclockid(pthread_self(), &clock);
  clock_.store(clock);
  const int file = may_count ? open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC) : -1;
  const int old_file = file_.exchange(file);
  if (old_file >= 0) close(old_file);
  taken_ns_.store(total_ns());
}

int64_t RunDelay::take_us() {
  const int64_t total = total_ns();
  return (total - taken_ns_.exchange(total)) / 1000;
}

int64_t RunDelay::run_us() const {
  timespec ran{};
  if (clock_gettime(clock_.load(), &ran) != 0) return 0;
  return ran.tv_sec * 1'000'000 + ran.tv_nsec / 1'000;
}

// The file reads "<ns on a core> <ns ready and waiting> <times run>".
int64_t RunDelay::total_ns() const {
  const int file = file_.load();
  if (file < 0) return 0;
  char buffer[96];
  const ssize_t length = pread(file, buffer, sizeof buffer, 0);
  if (length <= 0) return 0;
  const std::string_view text(buffer, static_cast<size_t>(length));
  const size_t space = text.find(' ');
  if (space == std::string_view::npos) return 0;
  int64_t value = 0;
  std::from_chars(text.data() + space + 1, text.data() + text.size(), value);
  return value;
}

}  // namespace quire
