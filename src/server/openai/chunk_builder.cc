#include "server/openai/chunk_builder.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "server/openai/logprob_format.h"
#include "server/openai/tool_call_id.h"

namespace quire::server {
namespace {

namespace json = boost::json;

json::array ids_json(const std::vector<TokenId>& ids) {
  json::array out;
  out.reserve(ids.size());
  for (const TokenId id : ids) out.emplace_back(id);
  return out;
}

json::value finish_json(const std::optional<FinishReason>& reason) {
  if (!reason) return nullptr;
  const std::string_view text = to_string(*reason);
  return json::string(text.data(), text.size());
}

json::value stop_json(const std::variant<std::monostate, std::string, TokenId>& reason) {
  if (const auto* text = std::get_if<std::string>(&reason)) return json::string(*text);
  if (const auto* id = std::get_if<TokenId>(&reason)) return *id;
  return nullptr;
}

// The sum of queue_ms, prompt_ms and decode_ms is last_token_ms.
json::object timings_json(const ChoiceTimes& times) {
  const auto ms = [](int64_t from_us, int64_t to_us) {
    return static_cast<double>(std::max<int64_t>(to_us - from_us, 0)) / 1000;
  };
  return {{"first_token_ms", ms(times.arrival_us, times.first_token_us)},
          {"last_token_ms", ms(times.arrival_us, times.last_token_us)},
          {"queue_ms", ms(times.arrival_us, times.first_scheduled_us)},
          {"prompt_ms", ms(times.first_scheduled_us, times.first_token_us)},
          {"decode_ms", ms(times.first_token_us, times.last_token_us)}};
}

void append(OutputDelta& into, OutputDelta&& more) {
  into.text += more.text;
  into.token_ids.insert(into.token_ids.end(), more.token_ids.begin(), more.token_ids.end());
  into.text_ends_bytes.insert(into.text_ends_bytes.end(), more.text_ends_bytes.begin(),
                              more.text_ends_bytes.end());
  std::move(more.logprobs.begin(), more.logprobs.end(), std::back_inserter(into.logprobs));
  into.finish_reason = more.finish_reason;
  into.stop_reason = std::move(more.stop_reason);
}

}  // namespace

ChunkBuilder::ChunkBuilder(ResponseShape shape) : shape_(std::move(shape)) {
  prompts_.resize(shape_.prompts.size());
  for (Prompt& prompt : prompts_) {
    prompt.choices.resize(static_cast<size_t>(shape_.n));
    if (shape_.best_of > shape_.n) prompt.best_of.emplace(shape_.best_of, shape_.n);
  }
}

uint64_t ChunkBuilder::held_bytes() const {
  uint64_t sum = 0;
  for (const Prompt& prompt : prompts_) sum += prompt.best_of ? prompt.best_of->held_bytes() : 0;
  return sum;
}

void ChunkBuilder::add(size_t prompt_index, OutputDelta delta, Chunks& out) {
  QUIRE_CHECK(prompt_index < prompts_.size() && delta.choice_index >= 0 &&
                  delta.choice_index < std::max(shape_.n, shape_.best_of),
              "delta of prompt {} choice {}", prompt_index, delta.choice_index);
  if (delta.times) note_times(*delta.times);
  if (delta.finish_reason) drafts_.add(delta.drafts);
  if (delta.handover != nullptr) handover_ = std::move(delta.handover);
  Prompt& prompt = prompts_[prompt_index];
  if (!prompt.best_of) return add_choice(prompt_index, std::move(delta), out);
  for (OutputDelta& best : prompt.best_of->add(std::move(delta)))
    add_choice(prompt_index, std::move(best), out);
}

void ChunkBuilder::add_choice(size_t prompt_index, OutputDelta delta, Chunks& out) {
  Prompt& prompt = prompts_[prompt_index];
  if (delta.choice_index == 0 && !prompt.has_prompt_logprobs) {
    prompt.has_prompt_logprobs = true;
    prompt.prompt_logprobs = std::move(delta.prompt_logprobs);
    prompt.num_cached_tokens = delta.num_cached_tokens;
  }
  // Every choice prints the prompt's log-probabilities, which come with the deltas of choice 0.
  const bool needs_prompt = shape_.num_prompt_logprobs.has_value();
  if (needs_prompt && !prompt.has_prompt_logprobs) {
    prompt.held.push_back(std::move(delta));
    return;
  }
  add_ordered(prompt_index, std::move(delta), out);
  for (OutputDelta& held : std::exchange(prompt.held, {})) {
    add_ordered(prompt_index, std::move(held), out);
  }
}

void ChunkBuilder::add_ordered(size_t prompt_index, OutputDelta delta, Chunks& out) {
  const int32_t index = delta.choice_index;
  Choice& choice = prompts_[prompt_index].choices[static_cast<size_t>(index)];
  if (choice.finished) return;
  // While a prompt is prefilled in chunks, its deltas are empty.
  if (delta.text.empty() && delta.token_ids.empty() && !delta.finish_reason) return;
  const bool first = !choice.opened;
  if (choice.has_pending) {
    append(choice.pending, std::move(delta));
  } else {
    choice.pending = std::move(delta);
    choice.has_pending = true;
  }
  const auto gathered = static_cast<int32_t>(choice.pending.token_ids.size());
  if (first || choice.pending.finish_reason || gathered >= shape_.stream_interval) {
    release(prompt_index, choice, out);
  }
}

void ChunkBuilder::release(size_t prompt_index, Choice& choice, Chunks& out) {
  OutputDelta delta = std::move(choice.pending);
  choice.has_pending = false;
  choice.finished = delta.finish_reason.has_value();
  const Prompt& prompt = prompts_[prompt_index];
  const int32_t index = delta.choice_index + shape_.n * static_cast<int32_t>(prompt_index);
  const auto num_prompt = static_cast<int64_t>(shape_.prompts[prompt_index].token_ids.size());
  if (shape_.endpoint == Endpoint::kChat && !choice.opened)
    open_chat(prompt_index, choice, index, out);
  choice.num_tokens += static_cast<int64_t>(delta.token_ids.size());

  const auto emit = [&](json::object body) {
    body["index"] = index;
    json::object chunk = envelope();
    chunk["choices"] = json::array{std::move(body)};
    if (shape_.continuous_usage) {
      chunk["usage"] = usage({.prompt = num_prompt,
                              .completion = choice.num_tokens,
                              .cached = prompt.num_cached_tokens,
                              .reasoning = num_reasoning_tokens(choice)});
    }
    out.push_back(std::move(chunk));
  };
  Chunks earlier;
  json::object body = shape_.endpoint == Endpoint::kChat
                          ? chat_choice(choice, delta, earlier)
                          : completion_choice(prompt_index, choice, delta);
  choice.opened = true;
  for (json::object& part : earlier) {
    emit({{"index", 0},
          {"delta", std::move(part)},
          {"logprobs", nullptr},
          {"finish_reason", nullptr},
          {"token_ids", nullptr}});
  }
  emit(std::move(body));
  if (!choice.finished || handover_ == nullptr) return;
  out.back()["kv_transfer_params"] =
      kv_transfer_params_json(*std::exchange(handover_, nullptr), shape_.id);
}

json::object ChunkBuilder::envelope() const {
  json::object chunk;
  chunk["id"] = shape_.id;
  chunk["object"] =
      shape_.endpoint == Endpoint::kChat ? "chat.completion.chunk" : "text_completion";
  chunk["created"] = shape_.created_s;
  chunk["model"] = shape_.model;
  return chunk;
}

void ChunkBuilder::open_chat(size_t prompt_index, Choice& choice, int32_t index, Chunks& out) {
  const PromptInfo& info = shape_.prompts[prompt_index];
  const auto emit = [&](json::object delta, bool with_prompt) {
    json::object body;
    body["index"] = index;
    body["delta"] = std::move(delta);
    body["logprobs"] = nullptr;
    body["finish_reason"] = nullptr;
    json::object chunk = envelope();
    chunk["choices"] = json::array{std::move(body)};
    if (with_prompt) {
      chunk["prompt_token_ids"] =
          shape_.return_token_ids ? json::value(ids_json(info.token_ids)) : json::value();
      if (shape_.return_prompt_text) chunk["prompt_text"] = info.text;
      if (!shape_.stream && shape_.num_prompt_logprobs) {
        chunk["prompt_logprobs"] = prompt_logprobs_json(prompts_[prompt_index].prompt_logprobs,
                                                        *shape_.num_prompt_logprobs,
                                                        {*shape_.codec, shape_.tokens_as_ids});
      }
    }
    if (shape_.continuous_usage) {
      chunk["usage"] = usage({.prompt = static_cast<int64_t>(info.token_ids.size()),
                              .cached = prompts_[prompt_index].num_cached_tokens});
    }
    out.push_back(std::move(chunk));
  };
  emit({{"role", shape_.role}, {"content", ""}}, true);
  if (!shape_.chat_echo.empty()) emit({{"content", shape_.chat_echo}}, false);
  choice.opened = true;
}

std::vector<ReplyEvent> ChunkBuilder::parse_reply(Choice& choice, const OutputDelta& delta) {
  const ReplyShape& reply = shape_.reply;
  if (choice.parser == nullptr) {
    choice.parser = std::make_unique<ReplyParser>(
        *reply.syntax, ReplyOptions{.tools = reply.tools.get(),
                                    .reads_calls = reply.reads_calls,
                                    .shows_special_tokens = reply.shows_special_tokens,
                                    .starts_in_reasoning = reply.starts_in_reasoning});
  }
  std::vector<ReplyToken> tokens;
  if (delta.text_ends_bytes.size() == delta.token_ids.size()) {
    for (size_t i = 0; i < delta.token_ids.size(); ++i) {
      tokens.push_back({delta.token_ids[i], delta.text_ends_bytes[i]});
    }
  }
  std::vector<ReplyEvent> events;
  choice.parser->feed(delta.text, tokens, events);
  if (delta.finish_reason) {
    choice.parser->finish(/*was_cut=*/delta.finish_reason != FinishReason::kStop, events);
  }
  return events;
}

// The pieces of one call's arguments are joined to one entry of the delta.
void ChunkBuilder::add_call_event(Choice& choice, int32_t choice_index, const ReplyEvent& event,
                                  json::array& calls) const {
  if (event.call_index > 0 && !shape_.reply.parallel_tool_calls) return;
  switch (event.kind) {
    case ReplyEvent::Kind::kCallBegin:
      calls.emplace_back(
          json::object{{"index", event.call_index},
                       {"id", tool_call_id({.style = shape_.reply.syntax->dialect()->ids,
                                            .request_id = shape_.id,
                                            .choice_index = choice_index,
                                            .call_index = event.call_index,
                                            .num_earlier_calls = shape_.reply.num_earlier_calls,
                                            .name = event.text,
                                            .written = event.call_id})},
                       {"type", "function"},
                       {"function", json::object{{"name", event.text}, {"arguments", ""}}}});
      break;
    case ReplyEvent::Kind::kArguments:
      if (calls.empty() || calls.back().at("index").as_int64() != event.call_index) {
        calls.emplace_back(json::object{{"index", event.call_index},
                                        {"function", json::object{{"arguments", ""}}}});
      }
      calls.back().at("function").at("arguments").as_string() += event.text;
      break;
    default:
      if (event.is_complete) ++choice.num_ended_calls;
  }
}

// Returns the delta of a parsed reply. Clients read its members in the order reasoning, content,
// calls. When the reply has them in another order, it takes several deltas. Hidden reasoning is
// left out with its tokens and log-probabilities.
json::object ChunkBuilder::reply_delta(Choice& choice, OutputDelta& delta, Chunks& earlier) {
  bool has_content = false, has_reasoning = false;
  json::object out;
  json::array calls;
  int last_rank = 0;
  const auto take = [&] {
    if (!calls.empty()) out["tool_calls"] = std::exchange(calls, {});
    return std::exchange(out, {});
  };
  const auto begin = [&](int rank) {
    if (rank < last_rank && !(out.empty() && calls.empty())) earlier.push_back(take());
    last_rank = rank;
  };
  const auto add_text = [&](std::string_view name, std::string_view text) {
    json::value& into = out[name];
    if (!into.is_string()) into.emplace_string();
    into.get_string().append(text);
  };
  for (const ReplyEvent& event : parse_reply(choice, delta)) {
    if (event.kind == ReplyEvent::Kind::kReasoning) {
      has_reasoning |= !event.text.empty();
      if (event.text.empty() || !shape_.reply.include_reasoning) continue;
      begin(0);
      add_text("reasoning", event.text);
    } else if (event.kind == ReplyEvent::Kind::kContent) {
      has_content |= !event.text.empty();
      if (event.text.empty()) continue;
      begin(1);
      add_text("content", event.text);
    } else {
      begin(2);
      add_call_event(choice, delta.choice_index, event, calls);
    }
  }
  const bool hides = shape_.reply.syntax->has_reasoning() && !shape_.reply.include_reasoning;
  if (hides && (!has_content || has_reasoning)) {
    delta.token_ids.clear();
    delta.logprobs.clear();
  }
  return take();
}

json::object ChunkBuilder::chat_choice(Choice& choice, OutputDelta& delta, Chunks& earlier) {
  json::object body;
  body["index"] = 0;
  body["delta"] = shape_.reply.syntax == nullptr ? json::object{{"content", delta.text}}
                                                 : reply_delta(choice, delta, earlier);
  if (shape_.num_logprobs) {
    const TokenPrinter printer{*shape_.codec, shape_.tokens_as_ids};
    json::array content;
    for (const TokenLogprobs& token : delta.logprobs) {
      content.emplace_back(chat_logprob(token, *shape_.num_logprobs, printer));
    }
    body["logprobs"] = json::object{{"content", std::move(content)}};
  } else {
    body["logprobs"] = nullptr;
  }
  body["finish_reason"] = finish_json(delta.finish_reason);
  if (delta.finish_reason == FinishReason::kStop && choice.num_ended_calls > 0 &&
      !shape_.reply.names_tool) {
    body["finish_reason"] = "tool_calls";
  }
  if (delta.finish_reason) body["stop_reason"] = stop_json(delta.stop_reason);
  body["token_ids"] =
      shape_.return_token_ids ? json::value(ids_json(delta.token_ids)) : json::value();
  return body;
}

json::object ChunkBuilder::completion_choice(size_t prompt_index, Choice& choice,
                                             OutputDelta& delta) {
  const PromptInfo& info = shape_.prompts[prompt_index];
  const bool first = !choice.opened;
  const bool with_prompt = first && shape_.echo;
  json::object body;
  body["index"] = 0;
  body["text"] = with_prompt ? info.text + delta.text : delta.text;
  body["logprobs"] =
      shape_.num_logprobs ? completion_logprobs(prompt_index, choice, delta, with_prompt) : nullptr;
  body["finish_reason"] = finish_json(delta.finish_reason);
  body["stop_reason"] = stop_json(delta.stop_reason);
  body["prompt_token_ids"] =
      shape_.return_token_ids && first ? json::value(ids_json(info.token_ids)) : json::value();
  body["token_ids"] =
      shape_.return_token_ids ? json::value(ids_json(delta.token_ids)) : json::value();
  if (shape_.return_prompt_text && first) body["prompt_text"] = info.text;
  if (!shape_.stream && first && shape_.num_prompt_logprobs) {
    body["prompt_logprobs"] =
        prompt_logprobs_json(prompts_[prompt_index].prompt_logprobs, *shape_.num_prompt_logprobs,
                             {*shape_.codec, shape_.tokens_as_ids});
  }
  return body;
}

json::value ChunkBuilder::completion_logprobs(size_t prompt_index, Choice& choice,
                                              const OutputDelta& delta, bool with_prompt) {
  const TokenPrinter printer{*shape_.codec, shape_.tokens_as_ids};
  CompletionLogprobs logprobs(choice.text_offset);
  if (with_prompt) {
    const std::vector<TokenId>& ids = shape_.prompts[prompt_index].token_ids;
    if (!ids.empty()) logprobs.add_plain(ids.front(), printer);
    for (const TokenLogprobs& token : prompts_[prompt_index].prompt_logprobs) {
      logprobs.add(token, *shape_.num_logprobs, printer);
    }
  }
  for (const TokenLogprobs& token : delta.logprobs)
    logprobs.add(token, *shape_.num_logprobs, printer);
  choice.text_offset = logprobs.text_offset();
  return logprobs.take();
}

int64_t ChunkBuilder::num_reasoning_tokens(const Choice& choice) {
  return choice.parser ? choice.parser->num_reasoning_tokens() : 0;
}

bool ChunkBuilder::counts_reasoning() const {
  return shape_.reply.syntax != nullptr && shape_.reply.syntax->has_reasoning();
}

json::object ChunkBuilder::usage(const TokenCounts& counts) const {
  json::object out;
  out["prompt_tokens"] = counts.prompt;
  out["total_tokens"] = counts.prompt + counts.completion;
  out["completion_tokens"] = counts.completion;
  if (shape_.prompt_tokens_details) {
    out["prompt_tokens_details"] = json::object{{"cached_tokens", counts.cached}};
  }
  json::object details;
  if (counts_reasoning()) details["reasoning_tokens"] = counts.reasoning;
  if (shape_.has_prediction) {
    details["accepted_prediction_tokens"] = drafts_.num_prediction_accepted;
    details["rejected_prediction_tokens"] =
        drafts_.num_prediction_drafts - drafts_.num_prediction_accepted;
  }
  if (!details.empty()) out["completion_tokens_details"] = std::move(details);
  return out;
}

// The members have vLLM's names.
json::object ChunkBuilder::draft_metrics() const {
  const auto share = [](int64_t part, int64_t whole) {
    return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
  };
  return {{"mean_acceptance_length", 1 + share(drafts_.num_accepted, drafts_.num_steps)},
          {"draft_acceptance_rate", share(drafts_.num_accepted, drafts_.num_drafts)},
          {"num_spec_steps", drafts_.num_steps},
          {"num_draft_tokens", drafts_.num_drafts},
          {"num_accepted_draft_tokens", drafts_.num_accepted}};
}

void ChunkBuilder::note_times(const ChoiceTimes& times) {
  if (!times_) {
    times_ = times;
    return;
  }
  times_->arrival_us = std::min(times_->arrival_us, times.arrival_us);
  times_->first_scheduled_us = std::min(times_->first_scheduled_us, times.first_scheduled_us);
  times_->first_token_us = std::min(times_->first_token_us, times.first_token_us);
  times_->last_token_us = std::max(times_->last_token_us, times.last_token_us);
}

void ChunkBuilder::finish(Chunks& out) {
  if (shape_.stream && !shape_.include_usage) return;
  TokenCounts all;
  for (size_t p = 0; p < prompts_.size(); ++p) {
    all.prompt += static_cast<int64_t>(shape_.prompts[p].token_ids.size());
    all.cached += prompts_[p].num_cached_tokens;
    if (prompts_[p].best_of) all.completion += prompts_[p].best_of->num_other_tokens();
    for (const Choice& choice : prompts_[p].choices) {
      all.completion += choice.num_tokens;
      all.reasoning += num_reasoning_tokens(choice);
    }
  }
  json::object chunk = envelope();
  chunk["choices"] = json::array{};
  json::object total = usage(all);
  if (shape_.timings && times_) total["timings"] = timings_json(*times_);
  chunk["usage"] = std::move(total);
  if (shape_.draft_metrics)
    chunk["metrics"] = json::object{{"speculative_decoding", draft_metrics()}};
  out.push_back(std::move(chunk));
}

}  // namespace quire::server
