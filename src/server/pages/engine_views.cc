#include "server/pages/engine_views.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "base/utf8.h"
#include "engine/async_engine.h"
#include "engine/observe/engine_stats.h"
#include "server/door/server_state.h"
#include "server/json/json_body.h"
#include "server/keys/key_book.h"
#include "server/pages/page.h"
#include "server/pages/steps_view.h"
#include "server/pages/token_pages.h"

namespace quire::server {
namespace {

namespace json = boost::json;

constexpr std::string_view kExploreNames[] = {"a", "b"};

json::value percentile_ms(const std::optional<double>& seconds) {
  return seconds ? json::value(*seconds * 1000) : json::value();
}

json::object percentiles_ms(const Percentiles& p) {
  return {{"p50", percentile_ms(p.p50)}, {"p90", percentile_ms(p.p90)}};
}

// Returns the tokens of `body[name]` as a request would give them: a text is a prompt of
// /v1/completions, a list is the messages of /v1/chat/completions.
ApiResult<std::vector<TokenId>> ids_to_explore(json::object& body, std::string_view name,
                                               const PrepareContext& context) {
  json::value* const prompt = body.if_contains(name);
  if (prompt == nullptr || (!prompt->is_string() && !prompt->is_array())) {
    return field_error(name, fmt::format("expected a text or a list of messages, got {}",
                                         prompt ? describe(*prompt) : std::string("none")));
  }
  const bool is_chat = prompt->is_array();
  std::string text;
  if (is_chat) {
    json::object chat{{"messages", std::move(*prompt)}};
    ApiResult<std::string> rendered = chat_text(chat, context);
    if (!rendered.ok()) return rendered.error();
    text = std::move(rendered).value();
  } else {
    text = prompt->get_string();
  }
  Result<std::vector<TokenId>> ids = context.model.codec->encode(text, !is_chat);
  if (!ids.ok()) return from_status(ids.status());
  return std::move(ids).value();
}

json::array printable_tokens(const TextCodec& codec, const std::vector<TokenId>& ids) {
  json::array out;
  for (const TokenId id : ids) out.emplace_back(to_valid_utf8(codec.token_bytes(id)));
  return out;
}

json::object speculation_json(const EngineStats& s) {
  json::array by_place;
  for (const uint64_t count : s.spec_decode_num_accepted_tokens_per_pos)
    by_place.emplace_back(count);
  return {{"verified", s.spec_decode_num_drafts},
          {"drafted", s.spec_decode_num_draft_tokens},
          {"accepted", s.spec_decode_num_accepted_tokens},
          {"accepted_by_place", std::move(by_place)}};
}

json::object grammars_json(const EngineStats& s) {
  return {{"hits", s.grammar_hits},
          {"compiled", s.grammars_compiled},
          {"failed", s.grammars_failed},
          {"kept", s.num_grammars}};
}

json::array keys_json(const KeyBook& keys) {
  json::array out;
  for (const KeyAccount::Counts& key : keys.counts()) {
    out.emplace_back(json::object{{"name", key.name},
                                  {"running", key.running},
                                  {"requests", key.requests},
                                  {"refused", key.refused[0] + key.refused[1] + key.refused[2]},
                                  {"prompt_tokens", key.prompt_tokens},
                                  {"output_tokens", key.output_tokens}});
  }
  return out;
}

HttpResponse quire_stats(const HttpRequest&, const PrepareContext& context) {
  const EngineStats s = context.model.engine->stats();
  json::object out{{"model", context.model.names.front()},
                   {"version", QUIRE_VERSION},
                   {"uptime_s", s.uptime_s},
                   {"running", s.num_requests_running},
                   {"waiting", s.num_requests_waiting},
                   {"requests_total", s.requests_received},
                   {"prompt_tokens_total", s.prompt_tokens},
                   {"generation_tokens_total", s.generation_tokens},
                   {"preemptions_total", s.num_preemptions},
                   {"kv_blocks_total", s.num_kv_blocks},
                   {"kv_blocks_used", s.kv_blocks_in_use},
                   {"kv_blocks_cached", s.kv_blocks_cached},
                   {"prefix_cache_queries_total", s.prefix_cache_queries},
                   {"prefix_cache_hits_total", s.prefix_cache_hits},
                   {"ttft_ms", percentiles_ms(s.recent_time_to_first_token)},
                   {"itl_ms", percentiles_ms(s.recent_inter_token_latency)},
                   {"step_ms", percentiles_ms(s.recent_step)},
                   {"speculation", speculation_json(s)},
                   {"structured_output", grammars_json(s)}};
  if (context.server != nullptr && context.server->keys != nullptr)
    out["keys"] = keys_json(*context.server->keys);
  return json_page(out);
}

HttpResponse kv_blocks(const HttpRequest&, const PrepareContext& context) {
  const KvGridSnapshot grid = context.model.engine->kv_grid();
  json::array owners, runs;
  for (const std::string& owner : grid.owners) owners.emplace_back(owner);
  for (size_t i = 0; i < grid.blocks.size();) {
    const KvGridCell& cell = grid.blocks[i];
    size_t end = i + 1;
    while (end < grid.blocks.size() && grid.blocks[end].state == cell.state &&
           grid.blocks[end].owner == cell.owner && grid.blocks[end].ref_cnt == cell.ref_cnt) {
      ++end;
    }
    runs.emplace_back(json::array{end - i, static_cast<int>(cell.state), cell.owner, cell.ref_cnt});
    i = end;
  }
  return json_page(json::object{{"block_size", grid.block_size},
                                {"num_blocks", grid.blocks.size()},
                                {"owners", std::move(owners)},
                                {"runs", std::move(runs)}});
}

HttpResponse kv_explore(const HttpRequest& request, const PrepareContext& context) {
  ApiResult<json::object> body = parse_body(request, context.options.limits);
  if (!body.ok()) return error_response(body.error());
  ApiResult<std::string> warning =
      check_names(body.value(), kExploreNames, context.options.strict_fields);
  if (!warning.ok()) return error_response(warning.error());
  std::array<std::vector<TokenId>, 2> ids;
  std::array<int32_t, 2> cached{};
  constexpr std::array<std::string_view, 2> kNames = {"a", "b"};
  for (size_t i = 0; i < 2; ++i) {
    ApiResult<std::vector<TokenId>> encoded = ids_to_explore(body.value(), kNames[i], context);
    if (!encoded.ok()) return error_response(encoded.error());
    ids[i] = std::move(encoded).value();
    cached[i] = context.model.engine->probe_prefix(ids[i], {}).num_cached_blocks;
  }
  const size_t shorter = std::min(ids[0].size(), ids[1].size());
  size_t shared = 0;
  while (shared < shorter && ids[0][shared] == ids[1][shared]) ++shared;
  const auto block_size =
      static_cast<size_t>(std::max(1, context.model.engine->stats().block_size));
  return with_warning(
      json_page(json::object{
          {"block_size", block_size},
          {"a", json::object{{"tokens", printable_tokens(*context.model.codec, ids[0])}}},
          {"b", json::object{{"tokens", printable_tokens(*context.model.codec, ids[1])}}},
          {"shared_tokens", shared},
          {"shared_blocks", shared / block_size},
          {"cached_blocks_a", cached[0]},
          {"cached_blocks_b", cached[1]}}),
      warning.value());
}

constexpr Door kStats = page_door(&quire_stats);
constexpr Door kBlocks = page_door(&kv_blocks);
constexpr Door kSteps = page_door(&steps_view);
constexpr Door kExplore = page_door(&kv_explore);

using M = RouteMode;
using K = RouteKind;
using S = RouteSwitch;

const Route kEngineViewRoutes[] = {
    {"/quire/stats", "GET", K::kGuarded, M::kInline, kStats, "Counters and recent latencies.",
     S::kWebPage},
    {"/quire/kv/blocks", "GET", K::kGuarded, M::kWorker, kBlocks, "Every KV block's state.",
     S::kWebPage},
    {"/quire/steps", "GET", K::kGuarded, M::kWorker, kSteps,
     "The last engine steps on the roofline.", S::kWebPage},
    {"/quire/kv/explore", "POST", K::kGuarded, M::kWorker, kExplore,
     "Which prefix two prompts share.", S::kWebPage},
};

}  // namespace

std::span<const Route> engine_view_routes() { return kEngineViewRoutes; }

}  // namespace quire::server
