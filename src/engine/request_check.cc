#include "engine/request_check.h"

#include <algorithm>

#include "base/utf8.h"
#include "engine/beam/beam_search.h"

namespace quire {
namespace {

constexpr int32_t kMaxChoices = 16384;
constexpr int64_t kMaxTimeoutUs = int64_t{30} * 24 * 3600 * 1'000'000;

Status check_prompt(const GenerationRequest& request, const RequestLimits& limits) {
  const auto& prompt = request.prompt_token_ids;
  if (prompt.empty()) return invalid_argument("prompt: expected at least one token, got none");
  if (request.kind == RequestKind::kPool) {
    if (prompt.size() > static_cast<size_t>(limits.max_model_len)) {
      return invalid_argument("prompt: expected at most {} tokens (the model's limit), got {}",
                              limits.max_model_len, prompt.size());
    }
  } else if (prompt.size() >= static_cast<size_t>(limits.max_model_len)) {
    return invalid_argument(
        "prompt: expected at most {} tokens (the context is {} tokens, and at least one is "
        "generated), got {}",
        limits.max_model_len - 1, limits.max_model_len, prompt.size());
  }
  for (const TokenId id : prompt) {
    if (id < 0 || id >= limits.vocab_size) {
      return invalid_argument("prompt: expected token ids in [0, {}), got {}", limits.vocab_size,
                              id);
    }
  }
  return {};
}

Status check_pooling(const GenerationRequest& request, const RequestLimits& limits) {
  if (request.pooling == nullptr) {
    if (limits.generates) return {};
    return invalid_argument(
        "expected a request for embeddings or scores: the model generates no text");
  }
  const PoolingParams& pooling = *request.pooling;
  if (request.kind != RequestKind::kPool || request.num_choices != 1) {
    return invalid_argument("pooling: expected a request of kind pool with one choice, got {}",
                            request.num_choices);
  }
  if (!limits.pooling.supports(pooling.task)) {
    return invalid_argument("expected another kind of request: the model has no {}",
                            pooling.task == PoolingTask::kAlign ? "heads that align tokens"
                            : is_classification(pooling.task)   ? "labels"
                                                                : "embeddings");
  }
  if (pooling.task == PoolingTask::kAlign) {
    if (pooling.first_aligned_token >= 0 && pooling.num_aligned_rows > 0) return {};
    return invalid_argument("pooling: expected tokens and rows to align, got {} and {}",
                            pooling.first_aligned_token, pooling.num_aligned_rows);
  }
  const int32_t size = limits.pooling.embedding_size;
  if (pooling.dimensions < 0 || (pooling.dimensions > size && !is_classification(pooling.task))) {
    return invalid_argument("dimensions: expected 1 to {}, got {}", size, pooling.dimensions);
  }
  return {};
}

// Checks the source of a request, for models whose tokens all attend to one.
Status check_source(const GenerationRequest& request, const RequestLimits& limits) {
  const bool is_text = limits.media.text_source.any();
  const bool is_picture = limits.media.may_lack_source;
  if (is_picture && request.media.empty()) return {};
  const bool is_there =
      request.media.size() == 1 && request.media.front().begin == 0 &&
      request.media.front().is_source() && request.media.front().first == 0 &&
      request.media.front().item != nullptr &&
      request.media.front().item->text.empty() != is_text &&
      request.media.front().item->rgb.empty() != is_picture &&
      request.media.front().shown_from >= 0 &&
      request.media.front().shown_from < (is_picture ? std::ssize(request.prompt_token_ids) : 1);
  const size_t num_items = request.media.size();
  if (!is_there && is_picture) {
    return invalid_argument(
        "media: expected one picture, in the place of one of {} tokens of the prompt, got {} "
        "items, "
        "the first in the place of token {}",
        request.prompt_token_ids.size(), num_items, request.media.front().shown_from);
  }
  if (!is_there && is_text) {
    return invalid_argument(
        "media: expected none, since the model's encoder reads the prompt, got {} items",
        num_items);
  }
  if (!is_there) {
    return invalid_argument(
        "media: expected one recording beside the prompt, since the model writes down what is said "
        "(/v1/audio/transcriptions), got {}",
        num_items == 0 ? "none" : fmt::format("{} items that are not that", num_items));
  }
  const int32_t size = request.media.front().item->num_embeddings;
  if (size > 0 && size <= limits.media.max_item_embeddings) return {};
  return invalid_argument("media: expected an item of at most {} embeddings, got {}",
                          limits.media.max_item_embeddings, size);
}

Status check_media(const GenerationRequest& request, const RequestLimits& limits) {
  if (limits.media.is_source) return check_source(request, limits);
  if (!request.media.empty() && !limits.media.any()) {
    return invalid_argument("media: expected none, since the model takes text alone, got {} items",
                            request.media.size());
  }
  int32_t end = 0;
  for (const MediaSpan& span : request.media) {
    if (span.begin < end || span.end <= span.begin ||
        span.end > std::ssize(request.prompt_token_ids)) {
      return invalid_argument("media: expected tokens in [{}, {}), got [{}, {})", end,
                              request.prompt_token_ids.size(), span.begin, span.end);
    }
    end = span.end;
    const bool is_known = span.item != nullptr && span.first >= 0 &&
                          int64_t{span.first} + span.num_tokens() <= span.item->num_embeddings &&
                          span.item->num_embeddings <= limits.media.max_item_embeddings;
    if (!is_known) {
      return invalid_argument(
          "media: expected an item of at most {} embeddings for tokens [{}, {})",
          limits.media.max_item_embeddings, span.begin, span.end);
    }
  }
  return {};
}

// Checked before anything is copied n times.
Status check_choices(const GenerationRequest& request, const RequestLimits& limits) {
  const int32_t n = request.num_choices;
  if (n < 1 || n > kMaxChoices) {
    return invalid_argument("n: expected 1 to {}, got {}", kMaxChoices, n);
  }
  if (n > limits.max_num_queued_reqs) {
    return too_large("n: expected at most {} (--max-num-queued-reqs), got {}",
                     limits.max_num_queued_reqs, n);
  }
  const int64_t tokens = int64_t{n} * static_cast<int64_t>(request.prompt_token_ids.size());
  if (n > 1 && tokens > limits.max_num_queued_tokens) {
    return too_large("n * prompt tokens: expected at most {} (--max-num-queued-tokens), got {}",
                     limits.max_num_queued_tokens, tokens);
  }
  return {};
}

Status check_stops(const SamplingParams& params, const RequestLimits& limits) {
  if (params.stop.empty()) return {};
  if (!limits.has_tokenizer) {
    return invalid_argument("stop: expected none, since this engine has no tokenizer");
  }
  for (const std::string& stop : params.stop) {
    if (!is_valid_utf8(stop)) return invalid_argument("stop: expected UTF-8 text");
  }
  return {};
}

Status check_prompt_logprobs(const GenerationRequest& request, const RequestLimits& limits) {
  if (!request.params.prompt_logprobs) return {};
  const int32_t n = *request.params.prompt_logprobs;
  const int64_t per_token = static_cast<int64_t>(sizeof(TokenLogprobs)) +
                            int64_t{n < 0 ? limits.vocab_size : n} *
                                static_cast<int64_t>(sizeof(std::pair<TokenId, float>));
  const int64_t bytes = per_token * static_cast<int64_t>(request.prompt_token_ids.size());
  if (bytes <= limits.max_prompt_logprobs_bytes) return {};
  return too_large("prompt_logprobs: expected at most {} bytes for the prompt, got {}",
                   limits.max_prompt_logprobs_bytes, bytes);
}

Status check_alone(bool alone, std::string_view field) {
  return alone ? Status() : invalid_argument("beam search: expected no {} beside it", field);
}

// Refuses fields that would change which texts are likely, or end them, since beams are ranked by
// the model's own distribution. Fields for sampling have no effect.
Status check_beam_search(const GenerationRequest& request, const RequestLimits& limits) {
  if (!request.beam_search) return {};
  const SamplingParams& p = request.params;
  const int32_t width = request.num_choices;
  if (width > limits.max_num_seqs) {
    return invalid_argument("beam search: expected n <= {} (--max-num-seqs), got {}",
                            limits.max_num_seqs, width);
  }
  const int32_t num_candidates = BeamSearch::num_candidates(width, p);
  if (num_candidates > limits.vocab_size) {
    return invalid_argument(
        "beam search: expected n of which {} tokens are looked at for each beam; the model has {}",
        num_candidates, limits.vocab_size);
  }
  const float penalty = request.beam_search->length_penalty;
  constexpr float kMost = BeamSearchParams::kMaxLengthPenalty;
  if (!(penalty >= -kMost && penalty <= kMost)) {
    return invalid_argument("length_penalty: expected a number in [{}, {}], got {}", -kMost, kMost,
                            penalty);
  }
  if (p.max_tokens < 1 || request.kind != RequestKind::kGenerate)
    return invalid_argument("beam search: expected max_tokens >= 1, got {}", p.max_tokens);
  QUIRE_RETURN_IF_ERROR(
      check_alone(!request.structured_outputs && !request.make_mask_source, "structured output"));
  QUIRE_RETURN_IF_ERROR(check_alone(!request.reasoning_budget, "budget of reasoning tokens"));
  QUIRE_RETURN_IF_ERROR(check_alone(p.min_tokens == 0, "min_tokens"));
  QUIRE_RETURN_IF_ERROR(check_alone(p.stop.empty(), "stop"));
  QUIRE_RETURN_IF_ERROR(check_alone(p.stop_token_ids.empty(), "stop_token_ids"));
  QUIRE_RETURN_IF_ERROR(check_alone(p.logit_bias.empty(), "logit_bias"));
  QUIRE_RETURN_IF_ERROR(check_alone(!p.allowed_token_ids, "allowed_token_ids"));
  QUIRE_RETURN_IF_ERROR(check_alone(p.bad_words.empty(), "bad_words"));
  QUIRE_RETURN_IF_ERROR(check_alone(p.logprob_token_ids.empty(), "logprob_token_ids"));
  QUIRE_RETURN_IF_ERROR(check_alone(p.prediction_token_ids.empty(), "prediction"));
  return check_alone(
      p.presence_penalty == 0 && p.frequency_penalty == 0 && p.repetition_penalty == 1,
      "presence_penalty, frequency_penalty or repetition_penalty");
}

}  // namespace

Status check_request(const GenerationRequest& request, const RequestLimits& limits) {
  QUIRE_RETURN_IF_ERROR(check_choices(request, limits));
  QUIRE_RETURN_IF_ERROR(check_prompt(request, limits));
  QUIRE_RETURN_IF_ERROR(check_pooling(request, limits));
  QUIRE_RETURN_IF_ERROR(check_media(request, limits));
  QUIRE_RETURN_IF_ERROR(request.params.validate(limits.vocab_size, limits.max_logprobs));
  QUIRE_RETURN_IF_ERROR(check_beam_search(request, limits));
  QUIRE_RETURN_IF_ERROR(check_stops(request.params, limits));
  QUIRE_RETURN_IF_ERROR(check_prompt_logprobs(request, limits));
  if (request.arrival_us < 0) {
    return invalid_argument("arrival_us: expected >= 0, got {}", request.arrival_us);
  }
  if (request.timeout_us && (*request.timeout_us <= 0 || *request.timeout_us > kMaxTimeoutUs)) {
    return invalid_argument("timeout_us: expected 1 to {}, got {}", kMaxTimeoutUs,
                            *request.timeout_us);
  }
  return {};
}

}  // namespace quire
