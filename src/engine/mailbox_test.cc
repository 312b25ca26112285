#include "engine/mailbox.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

Submission submission(size_t num_tokens) {
  Submission s;
  s.request.prompt_token_ids.assign(num_tokens, 1);
  return s;
}

TEST(Mailbox, WhatWasTakenCountsUntilTheEngineReports) {
  Mailbox mailbox(2, 100);
  ASSERT_TRUE(mailbox.submit(submission(10)).ok());
  ASSERT_TRUE(mailbox.submit(submission(10)).ok());
  EXPECT_EQ(mailbox.submit(submission(10)).code(), StatusCode::kResourceExhausted);
  Mail mail;
  ASSERT_TRUE(mailbox.take(mail, Mailbox::Wait::kNone, {}));
  EXPECT_EQ(mail.submissions.size(), 2u);
  // The engine has taken them, and has not yet published whether they wait or run.
  EXPECT_EQ(mailbox.submit(submission(10)).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(mailbox.queue().num_requests, 2);
  EXPECT_EQ(mailbox.queue().num_tokens, 20);
  ASSERT_TRUE(mailbox.take(mail, Mailbox::Wait::kNone, {.num_requests = 1, .num_tokens = 10}));
  EXPECT_TRUE(mailbox.submit(submission(10)).ok());
  EXPECT_EQ(mailbox.submit(submission(10)).code(), StatusCode::kResourceExhausted);
}

TEST(Mailbox, TokensAreBoundedAsRequestsAre) {
  Mailbox mailbox(10, 25);
  ASSERT_TRUE(mailbox.submit(submission(20)).ok());
  EXPECT_EQ(mailbox.submit(submission(6)).code(), StatusCode::kResourceExhausted);
  Mail mail;
  ASSERT_TRUE(mailbox.take(mail, Mailbox::Wait::kNone, {}));
  EXPECT_EQ(mailbox.submit(submission(6)).code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(mailbox.submit(submission(5)).ok());
}

}  // namespace
}  // namespace quire
