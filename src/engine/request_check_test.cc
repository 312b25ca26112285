#include "engine/request_check.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

const RequestLimits kLimits{.vocab_size = 100,
                            .max_model_len = 64,
                            .max_logprobs = 20,
                            .max_prompt_logprobs_bytes = 10'000,
                            .max_num_queued_reqs = 10,
                            .max_num_queued_tokens = 200,
                            .has_tokenizer = true};

GenerationRequest good() {
  GenerationRequest r;
  r.prompt_token_ids = {1, 2, 3};
  return r;
}

StatusCode code(const GenerationRequest& r, const RequestLimits& limits = kLimits) {
  const Status status = check_request(r, limits);
  EXPECT_EQ(status.message().find('\n'), std::string::npos);
  return status.code();
}

TEST(RequestCheck, BoundsOfEveryField) {
  EXPECT_EQ(code(good()), StatusCode::kOk);
  auto r = good();
  r.prompt_token_ids.assign(63, 5);
  EXPECT_EQ(code(r), StatusCode::kOk);
  r.prompt_token_ids.assign(64, 5);
  EXPECT_EQ(code(r), StatusCode::kInvalidArgument);
  for (const TokenId id : {-1, 100, INT32_MAX, INT32_MIN}) {
    r = good();
    r.prompt_token_ids[1] = id;
    EXPECT_EQ(code(r), StatusCode::kInvalidArgument) << id;
  }
  for (const int64_t timeout : {int64_t{0}, int64_t{-5}, INT64_MAX}) {
    r = good();
    r.timeout_us = timeout;
    EXPECT_EQ(code(r), StatusCode::kInvalidArgument) << timeout;
  }
  r = good();
  r.arrival_us = -1;
  EXPECT_EQ(code(r), StatusCode::kInvalidArgument);
}

TEST(RequestCheck, ManyChoicesAreRefusedBeforeTheyCost) {
  auto r = good();
  for (const int32_t n : {0, -1, 16385, INT32_MAX}) {
    r.num_choices = n;
    EXPECT_EQ(code(r), StatusCode::kInvalidArgument) << n;
  }
  r.num_choices = 10;
  EXPECT_EQ(code(r), StatusCode::kOk);
  r.num_choices = 11;
  EXPECT_EQ(code(r), StatusCode::kTooLarge);
  r.num_choices = 5;
  r.prompt_token_ids.assign(40, 1);
  EXPECT_EQ(code(r), StatusCode::kOk);
  r.prompt_token_ids.assign(41, 1);
  EXPECT_EQ(code(r), StatusCode::kTooLarge);
}

TEST(RequestCheck, PromptLogprobsAreBoundedByBytes) {
  auto r = good();
  r.prompt_token_ids.assign(60, 1);
  r.params.prompt_logprobs = 5;
  EXPECT_EQ(code(r), StatusCode::kOk);
  r.params.prompt_logprobs = 20;
  EXPECT_EQ(code(r), StatusCode::kTooLarge);
  auto open = kLimits;
  open.max_logprobs = -1;
  r.params.prompt_logprobs = -1;
  EXPECT_EQ(code(r, open), StatusCode::kTooLarge);
}

TEST(RequestCheck, StopStringsAreText) {
  auto r = good();
  r.params.stop = {"\xC3\xA9t\xC3\xA9"};
  EXPECT_EQ(code(r), StatusCode::kOk);
  r.params.stop = {"\xA9"};
  EXPECT_EQ(code(r), StatusCode::kInvalidArgument);
  auto ids_only = kLimits;
  ids_only.has_tokenizer = false;
  r.params.stop = {"x"};
  EXPECT_EQ(code(r, ids_only), StatusCode::kInvalidArgument);
}

TEST(RequestCheck, AModelOfSpeechWantsOneRecording) {
  RequestLimits limits = kLimits;
  limits.media = {.max_item_embeddings = 8, .max_cached_embeddings = 8, .is_source = true};
  const auto of_size = [](int32_t size) {
    auto item = std::make_shared<MediaItem>();
    item->num_embeddings = size;
    return MediaSpan::of_source(std::move(item));
  };
  auto r = good();
  EXPECT_EQ(code(r, limits), StatusCode::kInvalidArgument);
  r.media = {of_size(8)};
  EXPECT_EQ(code(r, limits), StatusCode::kOk);
  EXPECT_EQ(code(r), StatusCode::kInvalidArgument) << "of a model that takes text alone";
  EXPECT_EQ(check_request(r, kLimits).message(),
            "media: expected none, since the model takes text alone, got 1 items");
  r.media = {of_size(9)};
  EXPECT_EQ(code(r, limits), StatusCode::kInvalidArgument);
  r.media = {of_size(8), of_size(8)};
  EXPECT_EQ(code(r, limits), StatusCode::kInvalidArgument);
  r.media = {of_size(8)};
  r.media.front().end = 3;
  EXPECT_EQ(code(r, limits), StatusCode::kInvalidArgument) << "in the place of tokens";
  r.media = {MediaSpan::of_source(nullptr)};
  EXPECT_EQ(code(r, limits), StatusCode::kInvalidArgument);
}

TEST(RequestCheck, AModelThatLooksAtPicturesTakesOneOrNone) {
  RequestLimits limits = kLimits;
  limits.media = {.max_item_embeddings = 8,
                  .max_cached_embeddings = 8,
                  .is_source = true,
                  .may_lack_source = true};
  const auto picture = [](int32_t shown_from) {
    auto item = std::make_shared<MediaItem>();
    item->num_embeddings = 8;
    item->rgb = {1, 2, 3};
    return MediaSpan::of_source(std::move(item), shown_from);
  };
  auto r = good();
  const auto num_tokens = static_cast<int32_t>(r.prompt_token_ids.size());
  EXPECT_EQ(code(r, limits), StatusCode::kOk) << "text alone";
  for (const auto& [shown_from, expected] : {std::pair{0, StatusCode::kOk},
                                             {num_tokens - 1, StatusCode::kOk},
                                             {num_tokens, StatusCode::kInvalidArgument},
                                             {-1, StatusCode::kInvalidArgument}}) {
    r.media = {picture(shown_from)};
    EXPECT_EQ(code(r, limits), expected) << shown_from;
  }
  r.media = {picture(0), picture(0)};
  EXPECT_EQ(code(r, limits), StatusCode::kInvalidArgument);
  r.media = {MediaSpan::of_source(std::make_shared<MediaItem>())};
  EXPECT_EQ(code(r, limits), StatusCode::kInvalidArgument) << "no picture";
}

}  // namespace
}  // namespace quire
