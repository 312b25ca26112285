#include "engine/requests/beam_progress.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/requests/token_times.h"

namespace quire {

void BeamProgress::apply(Choice& choice, const RequestUpdate& update, int64_t now_us) {
  Group& group = *choice.group;
  if (choice.index == 0 && update.result != nullptr) collect_prompt_logprobs(group, *update.result);
  if (!update.status.ok()) {
    if (update.status.code() == StatusCode::kInternal) metrics_.on_corrupted();
    return answers_.end_group(group, FinishReason::kError, update.status);
  }
  if (update.result == nullptr || update.result->sampled_token_ids.empty()) return;
  BeamSearch& search = *group.beams;
  const std::vector<TokenLogprobs>& rows = update.result->logprobs;
  if (rows.empty() || std::ssize(rows[0].top) < search.num_candidates()) {
    return answers_.end_group(
        group, FinishReason::kError,
        internal_error("beam search: expected {} likeliest tokens, got {}", search.num_candidates(),
                       rows.empty() ? 0 : rows[0].top.size()));
  }
  search.set_candidates(choice.index, rows[0]);
  // A preemption discards computed tokens. A beam may then have candidates although its tokens must
  // be computed again.
  const auto is_ready = [&](int32_t place) {
    const Choice& beam = group.choices[static_cast<size_t>(place)];
    return search.has_candidates(place) && scheduler_.find(beam.request_id)->num_new_tokens() == 0;
  };
  if (std::ranges::all_of(search.places(), is_ready)) advance(group, now_us);
}

void BeamProgress::advance(Group& group, int64_t now_us) {
  const auto num_tokens = static_cast<int32_t>(group.beams->places().size());
  const std::span<const BeamSearch::Move> moves = group.beams->advance();
  Choice& first = group.choices[0];
  note_tokens(first, num_tokens, now_us, scheduler_.find(first.request_id), metrics_);
  metrics_.on_beam_step(num_tokens);
  if (group.beams->done()) return end(group);
  const auto id_of = [&](int32_t place) {
    return group.choices[static_cast<size_t>(place)].request_id;
  };
  std::vector<BeamMove> beam_moves;
  beam_moves.reserve(moves.size());
  for (const BeamSearch::Move& move : moves) {
    beam_moves.push_back(
        {.id = id_of(move.place), .parent = id_of(move.parent), .token_id = move.token_id});
  }
  scheduler_.move_beams(beam_moves);
}

void BeamProgress::end(Group& group) {
  const std::vector<BeamSearch::Text> texts = group.beams->best();
  const Choice& first = group.choices[0];
  const Request* request = scheduler_.find(first.request_id);
  const int32_t num_preemptions = request == nullptr ? 0 : request->num_preemptions;
  for (size_t i = 0; i < group.choices.size(); ++i) {
    Choice& choice = group.choices[i];
    if (choice.finished) continue;
    choice.times = first.times;
    choice.prompt_done = true;
    choice.num_cached_tokens = first.num_cached_tokens;
    choice.num_preemptions = num_preemptions;
    const BeamSearch::Text& text = texts[i];
    OutputDelta delta;
    append_tokens(choice, text.token_ids, text.logprobs, text.stopped, delta);
    if (choice.text) choice.text->finish(delta.text);
    answers_.end(choice, text.stopped ? FinishReason::kStop : FinishReason::kLength, {},
                 std::move(delta));
  }
}

}  // namespace quire
