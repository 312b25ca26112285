#include "ranks/stage_memory.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

KvSpec spec_of(int64_t block_bytes) {
  KvSpec spec{.groups = {}, .block_bytes = block_bytes};
  if (block_bytes > 0) spec.groups.resize(1);
  return spec;
}

int64_t room_of(std::vector<PartRoom> parts) { return least_room(parts, spec_of(100)); }

TEST(StageMemory, ThePartWithTheLeastRoomIsTheLimit) {
  EXPECT_EQ(room_of({{spec_of(50), 400}}), 800);
  EXPECT_EQ(room_of({{spec_of(50), 400}, {spec_of(25), 150}}), 600);
  EXPECT_EQ(room_of({{spec_of(50), 0}, {spec_of(25), 150}}), 0);
}

TEST(StageMemory, APartWithoutBlocksIsNoLimit) {
  EXPECT_EQ(room_of({{spec_of(0), 1}, {spec_of(50), 400}}), 800);
  EXPECT_EQ(room_of({{spec_of(0), 0}, {spec_of(50), 400}}), 800);
  const std::vector<PartRoom> none = {{spec_of(0), 7}, {spec_of(0), 5}};
  EXPECT_EQ(least_room(none, spec_of(0)), 5);
}

}  // namespace
}  // namespace quire
