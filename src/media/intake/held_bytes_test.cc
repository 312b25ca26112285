#include "media/intake/held_bytes.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(MediaMemory, WhatIsHeldIsBounded) {
  const MediaMemory memory("images", 100, 50);
  std::shared_ptr<HeldBytes> first = memory.lease(), second = memory.lease();
  EXPECT_TRUE(memory.hold(60, *first).ok());
  const Status refused = memory.hold(60, *second);
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.message(),
            "images of requests take 120 bytes, at most 100 may be held at once");
  second = memory.lease();
  first.reset();
  EXPECT_TRUE(memory.hold(60, *second).ok()) << "what is refused or gone is not held";
}

// One file of the largest size can always be decoded, two only if less is held.
TEST(MediaMemory, WhatIsDecodedAtOnceIsBounded) {
  const MediaMemory memory("images", 100, 50);
  const std::shared_ptr<HeldBytes> held = memory.lease();
  EXPECT_TRUE(memory.hold(100, *held).ok());
  std::unique_ptr<HeldBytes> first, second;
  EXPECT_TRUE(memory.decode(50, first).ok());
  EXPECT_EQ(memory.decode(1, second).code(), StatusCode::kResourceExhausted);
  first.reset();
  second.reset();
  EXPECT_TRUE(memory.decode(50, second).ok());
  std::shared_ptr<HeldBytes> late = memory.lease();
  EXPECT_EQ(memory.hold(1, *late).code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace quire
