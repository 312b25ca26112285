// MemberControl decides how many members of a thread team work, by the number of free cores.
#pragma once

#include <algorithm>
#include <cstdint>

namespace quire {

// A member that waited for a core is removed at once; one more is tried again after a pause. The
// pause doubles, from kLeastPauseUs to kMostPauseUs, each time the tried member is late before it
// has worked for kWorthwhileUs, so that a lasting load of other programs costs only a rare stall. A
// member that worked longer was worth its stall, however often it is late: its pause becomes a
// quarter, or the least if it worked for longer than the pause. Not thread-safe.
class MemberControl {
 public:
  static constexpr int64_t kLeastPauseUs = 4'000;
  static constexpr int64_t kMostPauseUs = 256'000;
  static constexpr int64_t kWorthwhileUs = 20'000;  // several stalls of a time slice

  explicit MemberControl(int max_members) : max_members_(max_members), members_(max_members) {}

  int num_members() const { return members_; }
  bool wants_more() const { return members_ < max_members_; }

  void note_late(int64_t now_us, int num_late) {
    const int64_t worked_us = now_us - tried_us_;
    if (worked_us < kWorthwhileUs) {
      pause_us_ = std::min(2 * pause_us_, kMostPauseUs);
    } else {
      pause_us_ = worked_us < pause_us_ ? std::max(pause_us_ / 4, kLeastPauseUs) : kLeastPauseUs;
    }
    members_ = std::max(1, members_ - num_late);
    next_try_us_ = now_us + pause_us_;
  }

  void note_time(int64_t now_us) {
    if (!wants_more() || now_us < next_try_us_) return;
    ++members_;
    tried_us_ = now_us;
    next_try_us_ = now_us + pause_us_;
  }

 private:
  int max_members_;
  int members_;
  int64_t pause_us_ = kLeastPauseUs;
  int64_t tried_us_ = INT64_MIN / 2;
  int64_t next_try_us_ = 0;
};

}  // namespace quire
