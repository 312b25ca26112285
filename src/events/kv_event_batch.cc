#include "events/kv_event_batch.h"

#include <utility>
#include <variant>
#include <vector>

#include "events/msgpack.h"

namespace quire {

// Events that become one on the wire.
struct KvEventBatches::Run {
  enum class Kind : uint8_t { kNone, kStored, kRemoved, kCleared };
  Kind kind = Kind::kNone;
  BlockHash parent;
  std::vector<BlockHash> hashes;
  std::vector<TokenId> tokens;
};

namespace {

constexpr std::string_view kMedium = "GPU";  // costs nothing to use; others routers mark down

}  // namespace

KvEventBatches::KvEventBatches(int32_t block_size, uint64_t hash_seed)
    : block_size_(block_size), root_(BlockHasher(hash_seed).root({})) {}

bool KvEventBatches::is_told(const KvEvent& event) {
  if (const auto* stored = std::get_if<BlockStored>(&event)) {
    if (stored->group != 0 || (stored->parent != root_ && !told_.contains(stored->parent)))
      return false;
    return told_.insert(stored->hash).second;
  }
  if (const auto* removed = std::get_if<BlockRemoved>(&event))
    return removed->group == 0 && told_.erase(removed->hash) > 0;
  told_.clear();
  return true;
}

// False: the event does not go on where the run ends.
bool KvEventBatches::add(const KvEvent& event, Run& run) const {
  using Kind = Run::Kind;
  if (const auto* stored = std::get_if<BlockStored>(&event)) {
    const bool goes_on = run.kind == Kind::kStored && run.hashes.back() == stored->parent;
    if (!goes_on && run.kind != Kind::kNone) return false;
    if (!goes_on) run.parent = stored->parent;
    run.kind = Kind::kStored;
    run.hashes.push_back(stored->hash);
    run.tokens.insert(run.tokens.end(), stored->token_ids.begin(), stored->token_ids.end());
    return true;
  }
  const auto* removed = std::get_if<BlockRemoved>(&event);
  const Kind kind = removed != nullptr ? Kind::kRemoved : Kind::kCleared;
  if (run.kind != Kind::kNone && (run.kind != kind || kind == Kind::kCleared)) return false;
  run.kind = kind;
  if (removed != nullptr) run.hashes.push_back(removed->hash);
  return true;
}

std::string KvEventBatches::encode(std::span<const KvEvent> events, double unix_time_s) {
  std::vector<Run> runs;
  for (const KvEvent& event : events) {
    if (!is_told(event)) continue;
    if (runs.empty() || !add(event, runs.back())) add(event, runs.emplace_back());
  }
  std::string out;
  if (runs.empty()) return out;
  const auto put_hashes = [&out](const std::vector<BlockHash>& hashes) {
    msgpack::array(out, hashes.size());
    for (const BlockHash& hash : hashes) msgpack::number(out, hash.low);
  };
  msgpack::array(out, 3);
  msgpack::real(out, unix_time_s);
  msgpack::array(out, runs.size());
  for (const Run& run : runs) {
    if (run.kind == Run::Kind::kCleared) {
      msgpack::array(out, 1);
      msgpack::text(out, "AllBlocksCleared");
    } else if (run.kind == Run::Kind::kRemoved) {
      msgpack::array(out, 3);
      msgpack::text(out, "BlockRemoved");
      put_hashes(run.hashes);
      msgpack::text(out, kMedium);
    } else {
      msgpack::array(out, 8);
      msgpack::text(out, "BlockStored");
      put_hashes(run.hashes);
      run.parent == root_ ? msgpack::nil(out) : msgpack::number(out, run.parent.low);
      msgpack::array(out, run.tokens.size());
      for (const TokenId token : run.tokens) msgpack::number(out, static_cast<uint64_t>(token));
      msgpack::number(out, static_cast<uint64_t>(block_size_));
      msgpack::nil(out);
      msgpack::text(out, kMedium);
      msgpack::nil(out);
    }
  }
  msgpack::nil(out);
  return out;
}

}  // namespace quire
