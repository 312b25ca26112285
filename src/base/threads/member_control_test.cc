#include "base/threads/member_control.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(MemberControl, LateMembersLeaveAtOnceAndOneStays) {
  MemberControl control(8);
  EXPECT_EQ(control.num_members(), 8);
  control.note_late(1'000, 3);
  EXPECT_EQ(control.num_members(), 5);
  control.note_late(1'100, 9);
  EXPECT_EQ(control.num_members(), 1);
}

TEST(MemberControl, TriesOneMoreAfterAPause) {
  MemberControl control(4);
  control.note_late(0, 2);
  control.note_time(MemberControl::kLeastPauseUs - 1);
  EXPECT_EQ(control.num_members(), 2);
  control.note_time(MemberControl::kLeastPauseUs);
  EXPECT_EQ(control.num_members(), 3);
  control.note_time(2 * MemberControl::kLeastPauseUs);
  EXPECT_EQ(control.num_members(), 4);
  control.note_time(9 * MemberControl::kLeastPauseUs);
  EXPECT_EQ(control.num_members(), 4);
}

// Returns the microseconds until a team of two that lost a member at `now_us` tries it again.
int64_t pause_us(MemberControl& control, int64_t now_us) {
  int64_t pause = 0;
  while (control.num_members() < 2) control.note_time(now_us + ++pause);
  return pause;
}

TEST(MemberControl, PausesGrowWhileTheTriedMemberIsLateAtOnce) {
  MemberControl control(2);
  int64_t now_us = 0;
  int64_t expected_us = MemberControl::kLeastPauseUs;
  for (int i = 0; i < 10; ++i) {
    control.note_late(now_us, 1);
    const int64_t pause = pause_us(control, now_us);
    ASSERT_EQ(pause, expected_us);
    now_us += pause + 1'000;  // the tried member was late after a millisecond
    expected_us = std::min(2 * expected_us, MemberControl::kMostPauseUs);
  }
  now_us += MemberControl::kMostPauseUs;  // but was in time for long
  control.note_late(now_us, 1);
  EXPECT_EQ(pause_us(control, now_us), MemberControl::kLeastPauseUs);
}

// There is a short disturbance every 300 ms after a lasting load has ended: soon the member is
// removed only for the least pause.
TEST(MemberControl, AMemberThatWorksForLongBetweenDisturbancesComesBackSoon) {
  MemberControl control(2);
  int64_t now_us = 0;
  for (int i = 0; i < 10; ++i) {  // the lasting load
    control.note_late(now_us, 1);
    now_us += pause_us(control, now_us) + 1'000;
  }
  control.note_late(now_us, 1);
  ASSERT_EQ(pause_us(control, now_us), MemberControl::kMostPauseUs);
  now_us += 300'000;  // of which it worked for 44 ms
  control.note_late(now_us, 1);
  ASSERT_EQ(pause_us(control, now_us), MemberControl::kMostPauseUs / 4);
  for (int i = 0; i < 5; ++i) {
    now_us += 300'000;
    control.note_late(now_us, 1);
    ASSERT_EQ(pause_us(control, now_us), MemberControl::kLeastPauseUs);
  }
}

}  // namespace
}  // namespace quire
