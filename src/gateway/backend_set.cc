#include "gateway/backend_set.h"

#include <algorithm>
#include <functional>

namespace quire::gateway {
namespace {

// Prompts are compared in pieces of this many bytes of the request, which is about 64 tokens.
constexpr size_t kPieceBytes = 256;
constexpr int32_t kPieceTokens = 64;
// Most pieces per backend: 65,536 pieces stand for 16 MiB of text and take 4 MiB.
constexpr size_t kMostPieces = 65'536;

// Returns the body from the place where its prompt probably begins, without parsing the JSON. A
// wrong guess only costs cached tokens.
std::string_view prompt_of(std::string_view body) {
  for (const std::string_view name : {"\"messages\"", "\"prompt\"", "\"input\""}) {
    if (const size_t at = body.find(name); at != body.npos) return body.substr(at);
  }
  return body;
}

}  // namespace

BackendSet::BackendSet(const RouterOptions& options)
    : routing_(options.routing), router_(options), index_(kMostPieces) {}

void BackendSet::set(const std::vector<BackendAddress>& addresses) {
  std::vector<std::shared_ptr<Backend>> kept;
  for (const BackendAddress& address : addresses) {
    const auto is_it = [&](const auto& backend) { return backend->address() == address; };
    if (std::any_of(kept.begin(), kept.end(), is_it)) continue;
    const auto known = std::find_if(backends_.begin(), backends_.end(), is_it);
    kept.push_back(known != backends_.end() ? *known
                                            : std::make_shared<Backend>(num_made_++, address));
  }
  for (const auto& backend : backends_) {
    if (std::find(kept.begin(), kept.end(), backend) != kept.end()) continue;
    backend->is_removed = true;
    backend->drop_idle();
    index_.forget(backend->id());
  }
  backends_ = std::move(kept);
}

size_t BackendSet::num_healthy() const {
  return static_cast<size_t>(
      std::count_if(backends_.begin(), backends_.end(),
                    [](const auto& backend) { return backend->is_healthy(); }));
}

BackendSet::Hint BackendSet::hint_of(std::string_view body, std::string_view session) const {
  Hint hint;
  if (routing_ == Routing::kPrefixAware) hint.chain = prefix_chain(0, prompt_of(body), kPieceBytes);
  constexpr size_t kMostSessions = size_t{1} << 30;
  hint.request.prompt_tokens = static_cast<int32_t>(body.size() / 4);
  if (!session.empty()) {
    hint.request.session =
        static_cast<int32_t>(std::hash<std::string_view>()(session) % kMostSessions);
  }
  return hint;
}

std::shared_ptr<Backend> BackendSet::choose(const Hint& hint, std::span<const int32_t> tried) {
  targets_.clear();
  candidates_.clear();
  for (const auto& backend : backends_) {
    const bool is_tried = std::find(tried.begin(), tried.end(), backend->id()) != tried.end();
    if (!backend->is_healthy() || is_tried) continue;
    targets_.push_back({.replica = backend->id(),
                        .name = backend->name(),
                        .load = {.num_requests = backend->num_open,
                                 .num_tokens = backend->num_open_tokens,
                                 .num_prompt_tokens = backend->num_open_tokens}});
    candidates_.push_back(backend);
  }
  if (targets_.empty()) return nullptr;
  const RouteChoice choice = router_.choose(targets_, hint.request, [&](int32_t replica) {
    return index_.match(hint.chain, replica) * kPieceTokens;
  });
  const size_t chosen = choice.target;
  if (routing_ == Routing::kPrefixAware) index_.note(hint.chain, targets_[chosen].replica);
  return candidates_[chosen];
}

}  // namespace quire::gateway
