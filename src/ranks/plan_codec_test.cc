#include "ranks/plan_codec.h"

#include <gtest/gtest.h>

#include <random>

namespace quire {
namespace {

template <typename T>
std::vector<TokenId> random_tokens(T& random, uint32_t most) {
  std::vector<TokenId> ids(random() % (most + 1));
  for (TokenId& id : ids) id = static_cast<TokenId>(random() % 50'000);
  return ids;
}

struct Step {
  StepResult before;
  StepPlan plan;
  std::vector<uint64_t> adapters;
};

std::shared_ptr<const MediaItem> random_item(std::mt19937& random) {
  auto item = std::make_shared<MediaItem>();
  item->key = std::to_string(random());
  item->num_embeddings = 4;
  item->height = 1 + static_cast<int32_t>(random() % 3);
  item->width = 2;
  item->rgb.assign(static_cast<size_t>(6 * item->height), static_cast<uint8_t>(random()));
  if (random() % 2 == 0) item->order = {0, MediaItem::kLineBreak, 1, 2};
  return item;
}

Step random_step(uint32_t seed) {
  std::mt19937 random(seed);
  const auto number = [&](uint32_t most) { return static_cast<int32_t>(random() % (most + 1)); };
  Step step;
  for (int i = number(4); i > 0; --i) {
    RequestStepResult& result = step.before.requests.emplace_back();
    result.id = RequestId(random());
    result.sampled_token_ids = random_tokens(random, 5);
    if (number(5) == 0) result.status = internal_error("not finite");
  }
  StepPlan& plan = step.plan;
  plan.step_id = random();
  for (int i = number(3); i > 0; --i) plan.dropped.emplace_back(random());
  for (int i = number(3); i > 0; --i) {
    NewRequest& request = plan.new_requests.emplace_back();
    step.adapters.push_back(random() % 3);
    request.id = RequestId(random());
    request.token_ids = random_tokens(random, 40);
    request.num_prompt_tokens = number(40);
    request.kind = static_cast<RequestKind>(number(kNumRequestKinds - 1));
    auto params = std::make_shared<SamplingParams>();
    params->max_tokens = number(1000);
    if (number(1) == 0) params->prompt_logprobs = 0;
    request.params = std::move(params);
    for (int32_t begin = number(3); begin + 3 <= std::ssize(request.token_ids);
         begin += 3 + number(4))
      request.media.push_back({begin, begin + 3, random_item(random), number(1)});
    if (number(2) != 0) continue;
    auto pooling = std::make_shared<PoolingParams>();
    pooling->task = static_cast<PoolingTask>(number(3));
    pooling->dimensions = number(64);
    pooling->reads_all_tokens = number(1) == 0;
    request.pooling = std::move(pooling);
  }
  plan.draft_token_ids = random_tokens(random, 6);
  const auto num_drafts = static_cast<uint32_t>(plan.draft_token_ids.size());
  for (int i = number(5); i > 0; --i) {
    const int32_t first = number(num_drafts);
    plan.scheduled.push_back({.id = RequestId(random()),
                              .num_computed_tokens = number(1000),
                              .num_scheduled_tokens = number(64),
                              .num_drafts = number(num_drafts - static_cast<uint32_t>(first)),
                              .first_draft = first});
  }
  for (int i = number(6); i > 0; --i)
    plan.block_updates.push_back({number(4), number(2), number(100), BlockId(number(5000))});
  for (int i = number(3); i > 0; --i) {
    plan.block_copies.push_back(
        {BlockId(number(5000)), BlockId(number(5000)), static_cast<KvPool>(number(1))});
  }
  for (int i = number(3); i > 0; --i) {
    plan.host_copies.push_back({BlockId(number(5000)), BlockId(number(5000)), number(1) == 0,
                                static_cast<KvPool>(number(1))});
  }
  plan.total_num_scheduled_tokens = number(10'000);
  for (int i = number(2); i > 0; --i) plan.freed_media.push_back(std::to_string(random()));
  for (int i = number(2); i > 0; --i) plan.media_inputs.push_back(random_item(random));
  return step;
}

TEST(PlanCodec, WhatIsReadIsWhatWasWritten) {
  std::vector<std::byte> bytes, again;
  DecodedStep decoded;
  for (uint32_t seed = 0; seed < 500; ++seed) {
    const Step step = random_step(seed);
    encode_step(step.before.requests, step.plan, step.adapters, bytes);
    const Status status = decode_step(bytes, decoded);
    ASSERT_TRUE(status.ok()) << seed << ": " << status.message();
    ASSERT_EQ(decoded.plan.scheduled.size(), step.plan.scheduled.size());
    EXPECT_EQ(decoded.adapters, step.adapters);
    for (size_t i = 0; i < step.plan.new_requests.size(); ++i) {
      const NewRequest& want = step.plan.new_requests[i];
      const NewRequest& got = decoded.plan.new_requests[i];
      EXPECT_EQ(got.token_ids, want.token_ids);
      EXPECT_EQ(got.params->max_tokens, want.params->max_tokens);
      EXPECT_EQ(got.params->prompt_logprobs.has_value(), want.params->prompt_logprobs.has_value());
      EXPECT_EQ(got.pooling != nullptr, want.pooling != nullptr);
      ASSERT_EQ(got.media.size(), want.media.size());
      for (size_t k = 0; k < got.media.size(); ++k) {
        EXPECT_EQ(got.media[k].begin, want.media[k].begin);
        EXPECT_EQ(got.media[k].item->key, want.media[k].item->key);
        EXPECT_EQ(got.media[k].item->order, want.media[k].item->order);
      }
    }
    ASSERT_EQ(decoded.plan.media_inputs.size(), step.plan.media_inputs.size());
    for (size_t i = 0; i < step.plan.media_inputs.size(); ++i)
      EXPECT_EQ(decoded.plan.media_inputs[i]->rgb, step.plan.media_inputs[i]->rgb);
    for (size_t i = 0; i < step.before.requests.size(); ++i) {
      EXPECT_EQ(decoded.before.requests[i].sampled_token_ids,
                step.before.requests[i].sampled_token_ids);
      EXPECT_EQ(decoded.before.requests[i].status.ok(), step.before.requests[i].status.ok());
    }
    // Encoding what was decoded gives the same bytes, so nothing else was lost.
    encode_step(decoded.before.requests, decoded.plan, decoded.adapters, again);
    ASSERT_EQ(again, bytes) << seed;
  }
}

TEST(PlanCodec, BytesThatAreCutOrChangedAreNoPlanOrAnother) {
  std::vector<std::byte> bytes;
  DecodedStep decoded;
  std::mt19937 random(3);
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const Step step = random_step(seed);
    encode_step(step.before.requests, step.plan, step.adapters, bytes);
    for (size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_EQ(decode_step(std::span(bytes).first(size), decoded).code(), StatusCode::kDataLoss);
    }
    for (int change = 0; change < 200; ++change) {
      std::vector<std::byte> changed = bytes;
      changed[random() % changed.size()] = static_cast<std::byte>(random());
      if (!decode_step(changed, decoded).ok()) continue;
      for (const ScheduledRequest& request : decoded.plan.scheduled) decoded.plan.drafts(request);
    }
    bytes.push_back({});
    EXPECT_EQ(decode_step(bytes, decoded).code(), StatusCode::kDataLoss);
  }
}

TEST(PlanCodec, PicturesThatLieAreNoPlan) {
  std::mt19937 random(5);
  const auto status_of = [](const StepPlan& plan) {
    std::vector<std::byte> bytes;
    DecodedStep decoded;
    encode_step({}, plan, {}, bytes);
    return decode_step(bytes, decoded).code();
  };
  const auto with = [&](int32_t begin, int32_t end, int32_t first) {
    StepPlan plan;
    plan.new_requests.push_back({.token_ids = {1, 2, 3, 4},
                                 .params = std::make_shared<SamplingParams>(),
                                 .media = {{begin, end, random_item(random), first}}});
    return status_of(plan);
  };
  EXPECT_EQ(with(1, 4, 1), StatusCode::kOk);
  EXPECT_EQ(with(1, 5, 0), StatusCode::kDataLoss) << "behind the prompt";
  EXPECT_EQ(with(-1, 2, 0), StatusCode::kDataLoss);
  EXPECT_EQ(with(2, 2, 0), StatusCode::kDataLoss);
  EXPECT_EQ(with(0, 4, 1), StatusCode::kDataLoss) << "more embeddings than there are";
  EXPECT_EQ(with(0, 1, 2147483647), StatusCode::kDataLoss);
  for (const int32_t height : {0, -1, 2, 1 << 30}) {
    auto item = std::make_shared<MediaItem>();
    item->height = height;
    item->width = 1;
    item->rgb.assign(3, 0);
    StepPlan plan;
    plan.media_inputs.push_back(std::move(item));
    EXPECT_EQ(status_of(plan), StatusCode::kDataLoss) << height;
  }
}

TEST(PlanCodec, Adapters) {
  std::vector<std::byte> bytes;
  encode_adapter_order({.number = 7, .kept = {3, 5}, .path = "/adapters/sql"}, bytes);
  const auto order = decode_adapter_order(bytes);
  ASSERT_TRUE(order.ok()) << order.status().message();
  EXPECT_EQ(order->number, 7u);
  EXPECT_EQ(order->kept, (std::vector<uint64_t>{3, 5}));
  EXPECT_EQ(order->path, "/adapters/sql");
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decode_adapter_order(std::span(bytes).first(size)).ok()) << size;
  encode_adapter_reply({StatusCode::kNotFound, "no such folder"}, bytes);
  const auto reply = decode_adapter_reply(bytes);
  ASSERT_TRUE(reply.ok()) << reply.status().message();
  EXPECT_EQ(reply->code, StatusCode::kNotFound);
  EXPECT_EQ(reply->text, "no such folder");
  bytes.front() = std::byte{200};  // not a valid code
  EXPECT_FALSE(decode_adapter_reply(bytes).ok());
}

TEST(PlanCodec, KvPlans) {
  std::vector<std::byte> bytes;
  encode_kv_plan({.num_blocks = 7, .num_state_blocks = 9}, bytes);
  const auto plan = decode_kv_plan(bytes);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->num_blocks, 7);
  EXPECT_EQ(plan->num_state_blocks, 9);
  EXPECT_FALSE(decode_kv_plan(std::span(bytes).first(5)).ok());
}

}  // namespace
}  // namespace quire
