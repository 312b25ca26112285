#include "sim/workload/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/workload/token_content.h"

namespace quire::sim {

bool Workload::open_loop() const {
  return !closed_loop && std::all_of(requests.begin(), requests.end(),
                                     [](const SimRequest& r) { return r.previous < 0; });
}

void Workload::fill_prompt(const SimRequest& request, std::vector<TokenId>& out) const {
  out.clear();
  out.reserve(static_cast<size_t>(request.input_tokens));
  int32_t at = std::min(request.prefix_tokens, request.input_tokens);
  append_content(request.prefix, 0, at, out);
  for (int32_t i = 0; i < request.num_hash_blocks && at < request.input_tokens; ++i) {
    const int32_t n = std::min(hash_block_tokens, request.input_tokens - at);
    append_content(hash_blocks[static_cast<size_t>(request.first_hash_block + i)], 0, n, out);
    at += n;
  }
  append_content(request.content, at, request.input_tokens - at, out);
}

int32_t Workload::picture_tokens() const {
  return std::accumulate(picture_items.begin(), picture_items.end(), 0);
}

std::vector<MediaSpan> Workload::pictures_of(const SimRequest& request) const {
  std::vector<MediaSpan> spans;
  int32_t at = std::max(request.prefix_tokens, request.num_hash_blocks * hash_block_tokens);
  for (int32_t picture = 0; picture < request.num_pictures; ++picture) {
    for (size_t i = 0; i < picture_items.size(); ++i) {
      auto item = std::make_shared<MediaItem>();
      item->key = fmt::format("{:x}/{}/{}", request.content, picture, i);
      item->num_embeddings = picture_items[i];
      spans.push_back({.begin = at, .end = at + picture_items[i], .item = std::move(item)});
      at += picture_items[i];
    }
  }
  return spans;
}

namespace {

// Checks that pictures fit into the prompt and that tokens follow them.
Status check_pictures(const Workload& workload, const SimRequest& r, size_t index) {
  if (r.num_pictures == 0) return {};
  const int64_t first =
      std::max<int64_t>(r.prefix_tokens, int64_t{r.num_hash_blocks} * workload.hash_block_tokens);
  const int64_t end = first + int64_t{r.num_pictures} * workload.picture_tokens();
  if (r.num_pictures > 0 && workload.picture_tokens() > 0 && end < r.input_tokens) return {};
  return invalid_argument(
      "workload request {}: expected {} pictures of {} tokens within its {} input tokens", index,
      r.num_pictures, workload.picture_tokens(), r.input_tokens);
}

Status check_closed_loop(const ClosedLoop& loop, int64_t num_requests) {
  if (loop.concurrency < 1) {
    return invalid_argument("closed loop: expected a concurrency of at least 1, got {}",
                            loop.concurrency);
  }
  const int64_t num_rounds = (num_requests - 1) / loop.concurrency + 1;
  if (loop.think_ns >= 0 && loop.think_ns <= kMaxTimeNs / num_rounds) return {};
  return invalid_argument("closed loop: expected {} pauses of up to {} s together, got {:g} s each",
                          num_rounds, kMaxTimeNs / 1'000'000'000,
                          static_cast<double>(loop.think_ns) * 1e-9);
}

}  // namespace

Status Workload::validate() const {
  int64_t last_ns = 0;
  std::vector<int64_t> earliest_ns(requests.size());  // the earliest times, if answers took no time
  if (closed_loop && !requests.empty()) {
    QUIRE_RETURN_IF_ERROR(check_closed_loop(*closed_loop, static_cast<int64_t>(requests.size())));
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    const SimRequest& r = requests[i];
    if (r.input_tokens < 1 || r.output_tokens < 1 || r.arrival_ns < 0) {
      return invalid_argument(
          "workload request {}: expected at least 1 input and 1 output token and a time >= 0, got "
          "{}, {} and {} ns",
          i, r.input_tokens, r.output_tokens, r.arrival_ns);
    }
    if (r.delay_ns < 0 || r.delay_ns > kMaxTimeNs / static_cast<int64_t>(requests.size())) {
      return invalid_argument("workload request {}: expected a delay of 0 to {} ns, got {}", i,
                              kMaxTimeNs / static_cast<int64_t>(requests.size()), r.delay_ns);
    }
    if (int64_t{r.input_tokens} + r.output_tokens > (int64_t{1} << 28)) {
      return invalid_argument("workload request {}: {} tokens, expected at most 2^28", i,
                              int64_t{r.input_tokens} + r.output_tokens);
    }
    if (r.previous >= static_cast<int64_t>(i)) {
      return invalid_argument("workload request {}: its previous turn is request {}", i,
                              r.previous);
    }
    if (r.first_hash_block < 0 || r.num_hash_blocks < 0 ||
        r.first_hash_block + r.num_hash_blocks > static_cast<int64_t>(hash_blocks.size()) ||
        (r.num_hash_blocks > 0 && hash_block_tokens < 1)) {
      return invalid_argument("workload request {}: hash blocks out of range", i);
    }
    QUIRE_RETURN_IF_ERROR(check_pictures(*this, r, i));
    earliest_ns[i] =
        r.arrival_ns + (r.previous < 0 ? 0 : earliest_ns[static_cast<size_t>(r.previous)]);
    if (r.arrival_ns > kMaxTimeNs || earliest_ns[i] > kMaxTimeNs) {
      return invalid_argument("workload request {}: expected times up to {} s", i,
                              kMaxTimeNs / 1'000'000'000);
    }
    if (r.previous >= 0) continue;
    if (r.arrival_ns < last_ns && !closed_loop) {
      return invalid_argument("workload request {}: arrives before the one before it", i);
    }
    last_ns = r.arrival_ns;
  }
  return {};
}

void sort_by_arrival(Workload& workload) {
  std::vector<SimRequest>& requests = workload.requests;
  std::vector<int32_t> order(requests.size());
  std::iota(order.begin(), order.end(), 0);
  // arrival_ns of a turn is a delay, so its key is the sum of those of all turns up to it.
  std::vector<int64_t> key(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    const int32_t previous = requests[i].previous;
    key[i] = previous < 0 ? requests[i].arrival_ns
                          : key[static_cast<size_t>(previous)] + requests[i].arrival_ns;
  }
  std::stable_sort(order.begin(), order.end(), [&key](int32_t a, int32_t b) {
    return key[static_cast<size_t>(a)] < key[static_cast<size_t>(b)];
  });
  std::vector<int32_t> place(requests.size());
  for (size_t i = 0; i < order.size(); ++i) {
    place[static_cast<size_t>(order[i])] = static_cast<int32_t>(i);
  }
  std::vector<SimRequest> sorted(requests.size());
  for (size_t i = 0; i < order.size(); ++i) {
    sorted[i] = requests[static_cast<size_t>(order[i])];
    if (sorted[i].previous >= 0)
      sorted[i].previous = place[static_cast<size_t>(sorted[i].previous)];
  }
  requests = std::move(sorted);
}

void scale_rate(Workload& workload, double factor) {
  for (SimRequest& r : workload.requests) {
    if (r.previous < 0) {
      const double ns = static_cast<double>(r.arrival_ns) / factor;
      r.arrival_ns = std::llround(std::min(ns, static_cast<double>(kMaxTimeNs)));
    }
  }
}

}  // namespace quire::sim
