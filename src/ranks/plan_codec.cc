#include "ranks/plan_codec.h"

#include <cstring>
#include <memory>
#include <string_view>
#include <type_traits>

namespace quire {
namespace {

// Overwrites the content of `out`, whose size is doubled when needed, since most values are a few
// bytes. The destructor cuts `out` to what was written.
class Writer {
 public:
  explicit Writer(std::vector<std::byte>& out) : out_(out) {}
  ~Writer() { out_.resize(end_); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  template <typename T>
  void value(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    append(&value, sizeof(T));
  }
  // Writes the count, then each element with `write`.
  template <typename List, typename Write>
  void list(const List& list, const Write& write) {
    value(static_cast<uint32_t>(list.size()));
    for (const auto& element : list) write(element);
  }
  void tokens(const std::vector<TokenId>& ids) { elements(ids); }
  void text(std::string_view text) { elements(text); }
  void bytes(const std::vector<uint8_t>& bytes) { elements(bytes); }

 private:
  template <typename List>
  void elements(const List& list) {
    value(static_cast<uint32_t>(list.size()));
    append(list.data(), list.size() * sizeof(list[0]));
  }
  void append(const void* bytes, size_t num_bytes) {
    if (num_bytes > out_.size() - end_) out_.resize(2 * (end_ + num_bytes));
    if (num_bytes > 0) std::memcpy(out_.data() + end_, bytes, num_bytes);
    end_ += num_bytes;
  }

  std::vector<std::byte>& out_;
  size_t end_ = 0;
};

// After an error or the end of the bytes, every value is read as zero.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : left_(bytes) {}

  template <typename T>
  void value(T& out) {
    static_assert(std::is_trivially_copyable_v<T>);
    out = T{};
    if (!take(sizeof(T))) return;
    std::memcpy(&out, taken_.data(), sizeof(T));
  }
  // Reads one of the first `count` values of an enum.
  template <typename Enum>
  void kind(Enum& out, uint8_t count) {
    uint8_t number = 0;
    value(number);
    if (number >= count) fail();
    out = static_cast<Enum>(number < count ? number : 0);
  }
  void flag(bool& out) { kind(out, 2); }
  // Every element takes at least a byte, so the count is checked before memory is allocated.
  template <typename T, typename Read>
  void list(std::vector<T>& out, const Read& read) {
    const uint32_t count = this->count(1);
    out.clear();
    for (uint32_t i = 0; i < count && ok_; ++i) read(out.emplace_back());
  }
  void tokens(std::vector<TokenId>& out) { elements(out); }
  void text(std::string& out) { elements(out); }
  void bytes(std::vector<uint8_t>& out) { elements(out); }
  void fail() { ok_ = false; }
  Status end() const {
    if (ok_ && left_.empty()) return {};
    return data_loss("a plan for ranks: {}",
                     ok_ ? "bytes are left at its end" : "it is cut or not one");
  }

 private:
  template <typename List>
  void elements(List& out) {
    const uint32_t count = this->count(sizeof(typename List::value_type));
    out.resize(count);
    if (count > 0 && take(count * sizeof(typename List::value_type)))
      std::memcpy(out.data(), taken_.data(), taken_.size());
  }
  uint32_t count(size_t element_bytes) {
    uint32_t count = 0;
    value(count);
    if (count <= left_.size() / element_bytes) return count;
    fail();
    return 0;
  }
  bool take(size_t num_bytes) {
    if (!ok_ || num_bytes > left_.size()) {
      fail();
      return false;
    }
    taken_ = left_.first(num_bytes);
    left_ = left_.subspan(num_bytes);
    return true;
  }

  std::span<const std::byte> left_;
  std::span<const std::byte> taken_;
  bool ok_ = true;
};

// Media items. Their sources are read only where one rank runs the model, so plans for several
// ranks have none.
void write(Writer& to, const MediaItem& item) {
  to.text(item.key);
  to.value(item.num_embeddings);
  to.value(item.height);
  to.value(item.width);
  to.list(item.order, [&](int32_t embedding) { to.value(embedding); });
}

std::shared_ptr<MediaItem> read_item(Reader& from) {
  auto item = std::make_shared<MediaItem>();
  from.text(item->key);
  from.value(item->num_embeddings);
  from.value(item->height);
  from.value(item->width);
  from.list(item->order, [&](int32_t& embedding) { from.value(embedding); });
  return item;
}

// Writes everything of its item but the pixels, which come with the step that encodes them.
void write(Writer& to, const MediaSpan& span) {
  to.value(span.begin);
  to.value(span.end);
  to.value(span.first);
  write(to, *span.item);
}

// Returns whether an image has as many pixels as its sides say.
bool is_whole(const MediaItem& item) {
  constexpr int32_t kMaxSide = 1 << 20;
  return item.height > 0 && item.width > 0 && item.height <= kMaxSide && item.width <= kMaxSide &&
         std::ssize(item.rgb) == int64_t{3} * item.height * item.width;
}

// The span must lie within the prompt, else the executor would write past its rows.
void read(Reader& from, const NewRequest& request, MediaSpan& span) {
  from.value(span.begin);
  from.value(span.end);
  from.value(span.first);
  auto item = read_item(from);
  const int64_t last = int64_t{span.first} + span.end - span.begin;
  const bool fits = span.begin >= 0 && span.end > span.begin &&
                    span.end <= std::ssize(request.token_ids) && span.first >= 0 &&
                    last <= item->num_embeddings;
  if (!fits) from.fail();
  span.item = std::move(item);
}

void write(Writer& to, const NewRequest& request, uint64_t adapter) {
  to.value(request.id);
  to.value(adapter);
  to.tokens(request.token_ids);
  to.value(request.num_prompt_tokens);
  to.value(static_cast<uint8_t>(request.kind));
  to.value(request.params->max_tokens);
  to.value(static_cast<uint8_t>(request.params->prompt_logprobs.has_value()));
  to.list(request.media, [&](const MediaSpan& span) { write(to, span); });
  to.value(static_cast<uint8_t>(request.pooling != nullptr));
  if (request.pooling == nullptr) return;
  to.value(static_cast<uint8_t>(request.pooling->task));
  to.value(static_cast<uint8_t>(request.pooling->use_activation));
  to.value(request.pooling->dimensions);
  to.value(request.pooling->first_type_1_token);
  to.value(static_cast<uint8_t>(request.pooling->reads_all_tokens));
}

void read(Reader& from, NewRequest& request, uint64_t& adapter) {
  auto params = std::make_shared<SamplingParams>();
  bool prompt_logprobs = false, pools = false;
  from.value(request.id);
  from.value(adapter);
  from.tokens(request.token_ids);
  from.value(request.num_prompt_tokens);
  from.kind(request.kind, kNumRequestKinds);
  from.value(params->max_tokens);
  from.flag(prompt_logprobs);
  if (prompt_logprobs) params->prompt_logprobs = 0;
  request.params = std::move(params);
  from.list(request.media, [&](MediaSpan& span) { read(from, request, span); });
  from.flag(pools);
  if (!pools) return;
  auto pooling = std::make_shared<PoolingParams>();
  from.kind(pooling->task, 4);
  from.flag(pooling->use_activation);
  from.value(pooling->dimensions);
  from.value(pooling->first_type_1_token);
  from.flag(pooling->reads_all_tokens);
  request.pooling = std::move(pooling);
}

void write(Writer& to, const ScheduledRequest& request) {
  to.value(request.id);
  to.value(request.num_computed_tokens);
  to.value(request.num_scheduled_tokens);
  to.value(request.num_drafts);
  to.value(request.first_draft);
}

void read(Reader& from, ScheduledRequest& request) {
  from.value(request.id);
  from.value(request.num_computed_tokens);
  from.value(request.num_scheduled_tokens);
  from.value(request.num_drafts);
  from.value(request.first_draft);
}

void write(Writer& to, const BlockTableUpdate& update) {
  to.value(update.request_index);
  to.value(update.group);
  to.value(update.logical_index);
  to.value(update.block);
}

void read(Reader& from, BlockTableUpdate& update) {
  from.value(update.request_index);
  from.value(update.group);
  from.value(update.logical_index);
  from.value(update.block);
}

void write(Writer& to, const BlockCopy& copy) {
  to.value(copy.source);
  to.value(copy.destination);
  to.value(static_cast<uint8_t>(copy.pool));
}

void read(Reader& from, BlockCopy& copy) {
  from.value(copy.source);
  from.value(copy.destination);
  from.kind(copy.pool, kNumKvPools);
}

void write(Writer& to, const HostBlockCopy& copy) {
  to.value(copy.block);
  to.value(copy.host_block);
  to.value(static_cast<uint8_t>(copy.to_host));
  to.value(static_cast<uint8_t>(copy.pool));
}

void read(Reader& from, HostBlockCopy& copy) {
  from.value(copy.block);
  from.value(copy.host_block);
  from.flag(copy.to_host);
  from.kind(copy.pool, kNumKvPools);
}

// Drafts must lie within the plan's draft tokens, else the executor would read past them.
void check_drafts(Reader& from, const StepPlan& plan) {
  const auto num_drafts = static_cast<int64_t>(plan.draft_token_ids.size());
  for (const ScheduledRequest& request : plan.scheduled) {
    const int64_t end = int64_t{request.first_draft} + request.num_drafts;
    const bool fits = request.first_draft >= 0 && request.num_drafts >= 0 && end <= num_drafts;
    if (!fits) from.fail();
  }
}

}  // namespace

void encode_step(std::span<const RequestStepResult> before, const StepPlan& plan,
                 std::span<const uint64_t> adapters, std::vector<std::byte>& out) {
  Writer to(out);
  to.list(before, [&](const RequestStepResult& result) {
    to.value(result.id);
    to.value(static_cast<uint8_t>(result.status.ok()));
    to.tokens(result.sampled_token_ids);
  });
  to.value(plan.step_id);
  to.list(plan.dropped, [&](RequestId id) { to.value(id); });
  size_t index = 0;
  to.list(plan.new_requests, [&](const NewRequest& request) {
    write(to, request, adapters.empty() ? 0 : adapters[index]);
    ++index;
  });
  to.list(plan.scheduled, [&](const ScheduledRequest& request) { write(to, request); });
  to.list(plan.block_updates, [&](const BlockTableUpdate& update) { write(to, update); });
  to.list(plan.block_copies, [&](const BlockCopy& copy) { write(to, copy); });
  to.list(plan.host_copies, [&](const HostBlockCopy& copy) { write(to, copy); });
  to.value(plan.total_num_scheduled_tokens);
  to.tokens(plan.draft_token_ids);
  to.list(plan.freed_media, [&](const std::string& key) { to.text(key); });
  to.list(plan.media_inputs, [&](const std::shared_ptr<const MediaItem>& item) {
    write(to, *item);
    to.bytes(item->rgb);
  });
}

Status decode_step(std::span<const std::byte> bytes, DecodedStep& out) {
  Reader from(bytes);
  StepPlan& plan = out.plan;
  plan.clear();
  from.list(out.before.requests, [&](RequestStepResult& result) {
    bool is_ok = true;
    from.value(result.id);
    from.flag(is_ok);
    if (!is_ok) result.status = internal_error("the first rank could not sample");
    from.tokens(result.sampled_token_ids);
  });
  from.value(plan.step_id);
  from.list(plan.dropped, [&](RequestId& id) { from.value(id); });
  out.adapters.clear();
  from.list(plan.new_requests,
            [&](NewRequest& request) { read(from, request, out.adapters.emplace_back()); });
  from.list(plan.scheduled, [&](ScheduledRequest& request) { read(from, request); });
  from.list(plan.block_updates, [&](BlockTableUpdate& update) { read(from, update); });
  from.list(plan.block_copies, [&](BlockCopy& copy) { read(from, copy); });
  from.list(plan.host_copies, [&](HostBlockCopy& copy) { read(from, copy); });
  from.value(plan.total_num_scheduled_tokens);
  from.tokens(plan.draft_token_ids);
  from.list(plan.freed_media, [&](std::string& key) { from.text(key); });
  from.list(plan.media_inputs, [&](std::shared_ptr<const MediaItem>& picture) {
    std::shared_ptr<MediaItem> item = read_item(from);
    from.bytes(item->rgb);
    if (!is_whole(*item)) from.fail();
    picture = std::move(item);
  });
  check_drafts(from, plan);
  return from.end();
}

void encode_adapter_order(const AdapterOrder& order, std::vector<std::byte>& out) {
  Writer to(out);
  to.value(order.number);
  to.list(order.kept, [&](uint64_t number) { to.value(number); });
  to.text(order.path);
}

Result<AdapterOrder> decode_adapter_order(std::span<const std::byte> bytes) {
  Reader from(bytes);
  AdapterOrder order;
  from.value(order.number);
  from.list(order.kept, [&](uint64_t& number) { from.value(number); });
  from.text(order.path);
  QUIRE_RETURN_IF_ERROR(from.end());
  return order;
}

void encode_adapter_reply(const AdapterReply& reply, std::vector<std::byte>& out) {
  Writer to(out);
  to.value(static_cast<uint8_t>(reply.code));
  to.text(reply.text);
}

Result<AdapterReply> decode_adapter_reply(std::span<const std::byte> bytes) {
  Reader from(bytes);
  AdapterReply reply;
  from.kind(reply.code, static_cast<uint8_t>(StatusCode::kInternal) + 1);
  from.text(reply.text);
  QUIRE_RETURN_IF_ERROR(from.end());
  return reply;
}

void encode_kv_plan(const KvPlan& plan, std::vector<std::byte>& out) {
  Writer to(out);
  to.value(plan.num_blocks);
  to.value(plan.num_state_blocks);
  to.value(plan.num_host_blocks);
  to.value(plan.num_host_state_blocks);
}

Result<KvPlan> decode_kv_plan(std::span<const std::byte> bytes) {
  Reader from(bytes);
  KvPlan plan;
  from.value(plan.num_blocks);
  from.value(plan.num_state_blocks);
  from.value(plan.num_host_blocks);
  from.value(plan.num_host_state_blocks);
  QUIRE_RETURN_IF_ERROR(from.end());
  return plan;
}

}  // namespace quire
