#include "events/kv_event_batch.h"

#include <utility>
#include <variant>
#include <vector>

#include "events/msgpack.h"

namespace quire {

// Consecutive events that are encoded as one.
struct KvEventBatches::Run {
  enum class Kind : uint8_t { kNone, kStored, kRemoved, kCleared };
  Kind kind = Kind::kNone;
  BlockHash parent;
  std::vector<BlockHash> hashes;
  std::vector<TokenId> tokens;
};

namespace {

constexpr std::string_view kMedium = "GPU";  // ready to use; routers rank other media lower

// Writes one event, field by field in vLLM's order. Only maps have field names.
class EventWriter {
 public:
  EventWriter(std::string& out, KvEventFormat format, std::string_view type, size_t num_fields)
      : out_(out), is_map_(format == KvEventFormat::kMap) {
    is_map_ ? msgpack::map(out, num_fields + 1) : msgpack::array(out, num_fields + 1);
    name("type");
    msgpack::text(out, type);
  }
  void nil(std::string_view field) { msgpack::nil(name(field)); }
  void number(std::string_view field, uint64_t x) { msgpack::number(name(field), x); }
  void text(std::string_view field, std::string_view x) { msgpack::text(name(field), x); }
  void hashes(std::string_view field, const std::vector<BlockHash>& hashes) {
    msgpack::array(name(field), hashes.size());
    for (const BlockHash& hash : hashes) msgpack::number(out_, hash.low);
  }
  void tokens(std::string_view field, const std::vector<TokenId>& tokens) {
    msgpack::array(name(field), tokens.size());
    for (const TokenId token : tokens) msgpack::number(out_, static_cast<uint64_t>(token));
  }

 private:
  std::string& name(std::string_view field) {
    if (is_map_) msgpack::text(out_, field);
    return out_;
  }

  std::string& out_;
  const bool is_map_;
};

}  // namespace

KvEventBatches::KvEventBatches(int32_t block_size, uint64_t hash_seed, KvEventFormat format)
    : block_size_(block_size), format_(format), root_(BlockHasher(hash_seed).root({})) {}

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

// Adds the event to the run. Returns false if it does not continue the run.
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

void KvEventBatches::put(std::string& out, const Run& run) const {
  if (run.kind == Run::Kind::kCleared) {
    EventWriter(out, format_, "AllBlocksCleared", 0);
    return;
  }
  if (run.kind == Run::Kind::kRemoved) {
    EventWriter event(out, format_, "BlockRemoved", 2);
    event.hashes("block_hashes", run.hashes);
    event.text("medium", kMedium);
    return;
  }
  EventWriter event(out, format_, "BlockStored", 7);
  event.hashes("block_hashes", run.hashes);
  if (run.parent == root_) {
    event.nil("parent_block_hash");
  } else {
    event.number("parent_block_hash", run.parent.low);
  }
  event.tokens("token_ids", run.tokens);
  event.number("block_size", static_cast<uint64_t>(block_size_));
  event.nil("lora_id");
  event.text("medium", kMedium);
  event.nil("lora_name");
}

std::string KvEventBatches::encode(std::span<const KvEvent> events, double unix_time_s) {
  std::vector<Run> runs;
  for (const KvEvent& event : events) {
    if (!is_told(event)) continue;
    if (runs.empty() || !add(event, runs.back())) add(event, runs.emplace_back());
  }
  std::string out;
  if (runs.empty()) return out;
  msgpack::array(out, 3);
  msgpack::real(out, unix_time_s);
  msgpack::array(out, runs.size());
  for (const Run& run : runs) put(out, run);
  msgpack::nil(out);
  return out;
}

}  // namespace quire
