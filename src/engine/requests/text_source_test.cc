#include "engine/requests/text_source.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/request_check.h"

namespace quire {
namespace {

const TextSourceInfo kModel{.max_tokens = 40, .start = {2, 7}};

GenerationRequest request_of(std::vector<TokenId> prompt) {
  GenerationRequest request;
  request.prompt_token_ids = std::move(prompt);
  return request;
}

TEST(TextSource, ThePromptIsTheSourceAndTheDecoderBegins) {
  GenerationRequest request = request_of({5, 6, 7});
  ASSERT_TRUE(make_source_of_prompt(kModel, request).ok());
  EXPECT_EQ(request.prompt_token_ids, kModel.start);
  ASSERT_EQ(request.media.size(), 1u);
  EXPECT_TRUE(request.media[0].is_source());
  EXPECT_EQ(request.media[0].item->text, (std::vector<TokenId>{5, 6, 7}));
  EXPECT_EQ(request.media[0].item->num_embeddings, 16) << "whole blocks";
  // A request with a source of its own keeps it.
  const auto item = request.media[0].item;
  ASSERT_TRUE(make_source_of_prompt(kModel, request).ok());
  EXPECT_EQ(request.media[0].item, item);
}

TEST(TextSource, KeysAreAsDifferentAsTexts) {
  std::vector<std::string> keys;
  for (const std::vector<TokenId>& text :
       {std::vector<TokenId>{1}, {2}, {1, 2}, {2, 1}, {1, 0}, {256}, {1, 2, 0}}) {
    GenerationRequest request = request_of(text);
    ASSERT_TRUE(make_source_of_prompt(kModel, request).ok());
    keys.push_back(request.media[0].item->key);
  }
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::unique(keys.begin(), keys.end()), keys.end());
}

TEST(TextSource, WhatTheEncoderCannotReadIsRefused) {
  const auto error = [](GenerationRequest request) {
    return make_source_of_prompt(kModel, request).message();
  };
  EXPECT_EQ(error(request_of({})),
            "prompt: expected 1 to 40 tokens, as the model's encoder reads, got 0");
  EXPECT_EQ(error(request_of(std::vector<TokenId>(41, 1))),
            "prompt: expected 1 to 40 tokens, as the model's encoder reads, got 41");
  EXPECT_EQ(error(request_of(std::vector<TokenId>(40, 1))), "");
  GenerationRequest request = request_of({1});
  request.params.prompt_logprobs = 1;
  EXPECT_NE(error(request).find("prompt_logprobs: expected none"), std::string::npos);
  request = request_of({1});
  request.hands_over_kv = true;
  EXPECT_NE(error(request).find("kv_transfer_params: expected none"), std::string::npos);
}

// Models with texts as sources refuse recordings, and the other way round.
TEST(TextSource, OtherSourcesAreRefused) {
  RequestLimits limits;
  limits.vocab_size = 100;
  limits.max_model_len = 50;
  limits.max_num_queued_reqs = limits.max_num_seqs = 4;
  limits.max_num_queued_tokens = 1000;
  limits.media = {.max_item_embeddings = 48,
                  .max_cached_embeddings = 48,
                  .is_source = true,
                  .text_source = kModel};
  GenerationRequest request = request_of({5, 6, 7});
  request.params.max_tokens = 4;
  ASSERT_TRUE(make_source_of_prompt(kModel, request).ok());
  EXPECT_TRUE(check_request(request, limits).ok());
  auto recording = std::make_shared<MediaItem>();
  recording->num_embeddings = 16;
  GenerationRequest heard = request;
  heard.media = {MediaSpan::of_source(recording)};
  EXPECT_NE(check_request(heard, limits).message().find("the model's encoder reads the prompt"),
            std::string::npos);
  limits.media.text_source = {};
  EXPECT_NE(check_request(request, limits).message().find("expected one recording"),
            std::string::npos);
}

}  // namespace
}  // namespace quire
