#include "engine/testing/fake_executor.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "base/hash/splitmix64.h"

namespace quire {
namespace {

uint64_t extend(uint64_t prefix_hash, TokenId token_id) {
  return splitmix64(prefix_hash ^ splitmix64(static_cast<uint64_t>(token_id)));
}

// Returns what a slot of this group holds after the prefix was computed into it; never 0.
uint64_t fingerprint(uint64_t prefix_hash, size_t group) {
  return splitmix64(prefix_hash + group) | 1;
}

// Returns the hash of the empty prefix, so that the KV of one adapter differs from another's.
uint64_t first_hash(const Adapter* adapter) {
  return adapter == nullptr ? 0 : splitmix64(std::hash<std::string>()(adapter->content_key) | 1);
}

bool contains(std::span<const TokenId> ids, TokenId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

void FakeExecutor::RequestRecord::append(TokenId token_id) {
  token_ids.push_back(token_id);
  prefix_hashes.push_back(
      extend(prefix_hashes.empty() ? empty_hash : prefix_hashes.back(), token_id));
}

void FakeExecutor::RequestRecord::resize(size_t num_tokens) {
  token_ids.resize(num_tokens);
  prefix_hashes.resize(num_tokens);
}

FakeExecutor::FakeExecutor(FakeExecutorOptions options) : options_(std::move(options)) {}

ExecutorInfo FakeExecutor::info() const {
  return {.vocab_size = options_.vocab_size,
          .max_model_len = options_.max_model_len,
          .generates = options_.generates,
          .pooling = options_.pooling};
}

Status FakeExecutor::initialize(const KvPlan& plan) {
  if (plan.num_blocks < 2) {
    return invalid_argument("KvPlan: expected at least 2 blocks, got {}", plan.num_blocks);
  }
  num_blocks_ = plan.num_blocks;
  const size_t slots =
      static_cast<size_t>(plan.num_blocks) * static_cast<size_t>(options_.kv_spec.block_size);
  cells_.assign(slots, 0);
  written_step_.assign(slots, 0);
  host_cells_.assign(
      static_cast<size_t>(plan.num_host_blocks) * static_cast<size_t>(options_.kv_spec.block_size),
      0);
  return {};
}

Result<std::shared_ptr<const Adapter>> FakeExecutor::load_adapter(const std::string& name,
                                                                  const std::string& path) const {
  if (!options_.takes_adapters) return Executor::load_adapter(name, path);
  if (path.empty()) return not_found("{}: there is no such folder", name);
  auto adapter = std::make_shared<Adapter>();
  adapter->name = name;
  adapter->content_key = path;
  return std::shared_ptr<const Adapter>(std::move(adapter));
}

KvHostMemory FakeExecutor::host_memory() {
  const auto size = static_cast<size_t>(options_.kv_spec.block_size);
  KvHostMemory memory;
  memory.at(KvPool::kAttention) = {
      {.data = reinterpret_cast<std::byte*>(host_cells_.data()),
       .block_bytes = static_cast<int64_t>(size * sizeof(host_cells_[0])),
       .num_blocks = static_cast<int32_t>(host_cells_.size() / size),
       .strips = {}}};
  return memory;
}

Result<StepResult> FakeExecutor::execute(const StepPlan& plan) {
  const int64_t us = options_.step_us + options_.token_us * plan.total_num_scheduled_tokens;
  if (options_.wait) {
    options_.wait(us);
  } else if (us > 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(us));
  }
  if (Status status = apply(plan); !status.ok()) return violation(std::move(status));
  if (Status failure = options_.fail_step ? options_.fail_step(plan) : Status(); !failure.ok()) {
    for (const ScheduledRequest& scheduled : plan.scheduled) {
      requests_.at(scheduled.id).failed = true;
    }
    return failure;
  }
  // All KV of a step is written before any of it is read, as in each layer of a model. Drafts are
  // tokens of their requests until it is known which of them are accepted.
  for (const ScheduledRequest& scheduled : plan.scheduled) {
    for (const TokenId id : plan.drafts(scheduled)) requests_.at(scheduled.id).append(id);
    if (Status status = write(scheduled, plan.step_id); !status.ok()) {
      return violation(std::move(status));
    }
  }
  StepResult result{.step_id = plan.step_id, .requests = {}, .execute_us = us};
  for (const ScheduledRequest& scheduled : plan.scheduled) {
    if (Status status = read(scheduled); !status.ok()) return violation(std::move(status));
    result.requests.push_back(run(scheduled, plan));
    num_tokens_run_ += scheduled.num_scheduled_tokens;
  }
  return result;
}

Status FakeExecutor::submit(const StepPlan& plan) {
  if (static_cast<int32_t>(submitted_.size()) == options_.max_steps_in_flight) {
    return violation(internal_error("submit: {} steps are under way", submitted_.size()));
  }
  submitted_.push_back(plan);
  return {};
}

Result<StepResult> FakeExecutor::collect() {
  if (submitted_.empty()) return violation(internal_error("collect: no step is under way"));
  const StepPlan plan = std::move(submitted_.front());
  submitted_.pop_front();
  return execute(plan);
}

Status FakeExecutor::copy_to_and_from_host(const StepPlan& plan) {
  const auto size = static_cast<std::ptrdiff_t>(options_.kv_spec.block_size);
  const auto num_host_blocks = static_cast<std::ptrdiff_t>(host_cells_.size()) / size;
  for (const HostBlockCopy& copy : plan.host_copies) {
    if (copy.block.value <= 0 || copy.block.value >= num_blocks_ || copy.host_block.value <= 0 ||
        copy.host_block.value >= num_host_blocks) {
      return internal_error("copy of block {} to or from host block {} of {}", copy.block,
                            copy.host_block, num_host_blocks);
    }
    const auto here = cells_.begin() + copy.block.value * size;
    const auto host = host_cells_.begin() + copy.host_block.value * size;
    if (copy.to_host) {
      std::copy_n(here, size, host);
    } else {
      std::copy_n(host, size, here);
    }
  }
  return {};
}

Status FakeExecutor::apply(const StepPlan& plan) {
  QUIRE_RETURN_IF_ERROR(copy_to_and_from_host(plan));
  for (const RequestId id : plan.dropped) requests_.erase(id);
  for (const NewRequest& added : plan.new_requests) {
    RequestRecord record;
    record.empty_hash = first_hash(added.adapter.get());
    for (const TokenId id : added.token_ids) record.append(id);
    record.num_prompt_tokens = added.num_prompt_tokens;
    record.kind = added.kind;
    record.params = added.params;
    record.pooling = added.pooling;
    record.tables.resize(options_.kv_spec.groups.size());
    if (!requests_.insert({added.id, std::move(record)}).second) {
      return internal_error("request {} is new in the plan but was not dropped", added.id);
    }
  }
  int64_t total = 0;
  for (const ScheduledRequest& scheduled : plan.scheduled) {
    QUIRE_RETURN_IF_ERROR(check(scheduled, plan));
    total += scheduled.num_scheduled_tokens;
  }
  if (total != plan.total_num_scheduled_tokens) {
    return internal_error("total_num_scheduled_tokens: expected {}, got {}", total,
                          plan.total_num_scheduled_tokens);
  }
  for (const BlockTableUpdate& update : plan.block_updates) {
    const auto index = static_cast<size_t>(update.request_index);
    if (update.request_index < 0 || index >= plan.scheduled.size() || update.group < 0 ||
        static_cast<size_t>(update.group) >= options_.kv_spec.groups.size() ||
        update.logical_index < 0 || update.block.value < 0 || update.block.value >= num_blocks_) {
      return internal_error("block update out of range: request index {}, group {}, block {}",
                            update.request_index, update.group, update.block);
    }
    auto& table = requests_.at(plan.scheduled[index].id).tables[static_cast<size_t>(update.group)];
    const auto logical = static_cast<size_t>(update.logical_index);
    if (table.size() <= logical) table.resize(logical + 1, kNullBlock);
    table[logical] = update.block;
  }
  const auto block_size = static_cast<std::ptrdiff_t>(options_.kv_spec.block_size);
  for (const BlockCopy& copy : plan.block_copies) {
    for (const BlockId block : {copy.source, copy.destination}) {
      if (block.value <= 0 || block.value >= num_blocks_) {
        return internal_error("block copy of block {} of {}", block, num_blocks_);
      }
    }
    std::copy_n(cells_.begin() + copy.source.value * block_size, block_size,
                cells_.begin() + copy.destination.value * block_size);
  }
  return {};
}

Status FakeExecutor::check(const ScheduledRequest& scheduled, const StepPlan& plan) const {
  const auto it = requests_.find(scheduled.id);
  if (it == requests_.end()) return internal_error("request {} was never sent", scheduled.id);
  if (it->second.failed) return {};
  const auto known = static_cast<int64_t>(it->second.token_ids.size());
  const int64_t begin = scheduled.num_computed_tokens;
  const int64_t end = begin + scheduled.num_scheduled_tokens - scheduled.num_drafts;
  if (begin < 0 || end <= begin || end > known) {
    return internal_error("request {}: positions [{}, {}) of {} known tokens", scheduled.id, begin,
                          end, known);
  }
  if (scheduled.num_drafts != 0 &&
      (end != known || scheduled.num_drafts < 0 || scheduled.first_draft < 0 ||
       int64_t{scheduled.first_draft} + scheduled.num_drafts > std::ssize(plan.draft_token_ids))) {
    return internal_error("request {}: {} drafts behind position {} of {} known tokens",
                          scheduled.id, scheduled.num_drafts, end, known);
  }
  if (scheduled.mask_row >= 0 &&
      scheduled.mask_row + scheduled.num_drafts >= plan.token_masks.num_rows()) {
    return internal_error("request {}: token mask {} of {}", scheduled.id,
                          scheduled.mask_row + scheduled.num_drafts, plan.token_masks.num_rows());
  }
  return {};
}

Result<size_t> FakeExecutor::slot(const RequestRecord& record, size_t group,
                                  int32_t position) const {
  const int32_t block_size = options_.kv_spec.block_size;
  const auto logical = static_cast<size_t>(position / block_size);
  const auto& table = record.tables[group];
  if (logical >= table.size() || table[logical] == kNullBlock) {
    return internal_error("group {}: position {} has no block", group, position);
  }
  return static_cast<size_t>(table[logical].value) * static_cast<size_t>(block_size) +
         static_cast<size_t>(position % block_size);
}

Status FakeExecutor::write(const ScheduledRequest& scheduled, uint64_t step_id) {
  const RequestRecord& record = requests_.at(scheduled.id);
  if (record.failed) return {};
  const int32_t end = scheduled.num_computed_tokens + scheduled.num_scheduled_tokens;
  for (size_t group = 0; group < record.tables.size(); ++group) {
    for (int32_t position = scheduled.num_computed_tokens; position < end; ++position) {
      const auto target = slot(record, group, position);
      if (!target.ok()) return target.status().with_context(fmt::format("{} writes", scheduled.id));
      if (written_step_[*target] == step_id + 1) {
        return internal_error("request {}: slot {} is written twice in step {}", scheduled.id,
                              *target, step_id);
      }
      written_step_[*target] = step_id + 1;
      cells_[*target] = fingerprint(record.prefix_hashes[static_cast<size_t>(position)], group);
    }
  }
  return {};
}

Status FakeExecutor::read(const ScheduledRequest& scheduled) const {
  if (!options_.verify_kv) return {};
  const RequestRecord& record = requests_.at(scheduled.id);
  if (record.failed) return {};
  const int32_t end = scheduled.num_computed_tokens + scheduled.num_scheduled_tokens;
  for (size_t group = 0; group < record.tables.size(); ++group) {
    const KvGroupSpec& spec = options_.kv_spec.groups[group];
    const int32_t begin = spec.kind == KvKind::kSlidingWindow
                              ? std::max(0, scheduled.num_computed_tokens + 1 - spec.sliding_window)
                              : 0;
    for (int32_t position = begin; position < end; ++position) {
      const auto source = slot(record, group, position);
      if (!source.ok()) return source.status().with_context(fmt::format("{} reads", scheduled.id));
      const uint64_t expected =
          fingerprint(record.prefix_hashes[static_cast<size_t>(position)], group);
      if (cells_[*source] == expected) continue;
      return internal_error(
          "request {}: group {} position {} reads slot {}, which holds {} (computed {}, scheduled "
          "{})",
          scheduled.id, group, position, *source,
          cells_[*source] == 0 ? "nothing" : "another prefix", scheduled.num_computed_tokens,
          scheduled.num_scheduled_tokens);
    }
  }
  return {};
}

RequestStepResult FakeExecutor::run(const ScheduledRequest& scheduled, const StepPlan& plan) {
  RequestRecord& record = requests_.at(scheduled.id);
  RequestStepResult result;
  result.id = scheduled.id;
  if (record.failed) {
    result.status = internal_error("request {}: an earlier step of it failed", scheduled.id);
    return result;
  }
  if (options_.fail_request) {
    result.status = options_.fail_request(scheduled.id, plan.step_id);
    record.failed = !result.status.ok();
    if (record.failed) return result;
  }
  const auto begin = static_cast<size_t>(scheduled.num_computed_tokens);
  const size_t end = begin + static_cast<size_t>(scheduled.num_scheduled_tokens);
  const SamplingParams& params = *record.params;
  if (params.prompt_logprobs) {  // the row at position i is for the token at i + 1
    result.prompt_logprobs_begin = static_cast<int32_t>(begin) + 1;
    for (size_t i = begin; i < end && i + 1 < static_cast<size_t>(record.num_prompt_tokens); ++i) {
      result.prompt_logprobs.push_back(
          logprobs_of(record.token_ids[i + 1], record.prefix_hashes[i], *params.prompt_logprobs));
    }
  }
  if (samples(record.kind) && end == record.token_ids.size())
    sample(scheduled, plan, record, result);
  if (record.pooling != nullptr && end == record.token_ids.size()) result.pooled = pool(record);
  return result;
}

PooledOutput FakeExecutor::pool(const RequestRecord& record) const {
  const PoolingParams& params = *record.pooling;
  const PoolingInfo& info = options_.pooling;
  PooledOutput out{.num_columns =
                       is_classification(params.task) ? info.num_labels : info.embedding_size};
  if (params.dimensions > 0) out.num_columns = std::min(out.num_columns, params.dimensions);
  const size_t num_rows = is_per_token(params.task) ? record.token_ids.size() : 1;
  for (size_t row = 0; row < num_rows; ++row) {
    uint64_t draw = record.prefix_hashes[record.prefix_hashes.size() - num_rows + row];
    for (int32_t i = 0; i < out.num_columns; ++i) {
      draw = splitmix64(draw);
      out.values.push_back(static_cast<float>(draw % 2001) / 1000.0f - 1.0f);
    }
  }
  return out;
}

void FakeExecutor::sample(const ScheduledRequest& scheduled, const StepPlan& plan,
                          RequestRecord& record, RequestStepResult& result) const {
  const std::span<const TokenId> drafts = plan.drafts(scheduled);
  const SamplingParams& params = *record.params;
  record.resize(record.token_ids.size() - drafts.size());
  for (int32_t i = 0; i <= scheduled.num_drafts; ++i) {
    const uint64_t hash = record.prefix_hashes.back();
    const auto num_output =
        static_cast<int32_t>(record.token_ids.size()) - record.num_prompt_tokens;
    const auto mask = scheduled.mask_row < 0 ? std::span<const uint32_t>()
                                             : plan.token_masks.row(scheduled.mask_row + i);
    const bool is_mask_late =
        !mask.empty() && std::all_of(mask.begin(), mask.end(), [](uint32_t w) { return w == 0; });
    if (i > 0 && is_mask_late) return;  // as if the draft were wrong
    const TokenId token_id = next_token(record.token_ids, hash, num_output, params, mask);
    if (params.logprobs) {
      result.logprobs.push_back(record.kind == RequestKind::kBeam
                                    ? candidates_of(hash, *params.logprobs)
                                    : logprobs_of(token_id, hash, *params.logprobs));
    }
    result.sampled_token_ids.push_back(token_id);
    record.append(token_id);
    if (i == scheduled.num_drafts || drafts[static_cast<size_t>(i)] != token_id) return;
  }
}

TokenId FakeExecutor::next_token(std::span<const TokenId> context, uint64_t prefix_hash,
                                 int32_t num_output_tokens, const SamplingParams& params,
                                 std::span<const uint32_t> mask) const {
  if (options_.next_token) {
    if (const auto token_id = options_.next_token(context)) return *token_id;
  }
  uint64_t draw =
      splitmix64(prefix_hash ^ (params.greedy() ? 0 : splitmix64(params.seed.value_or(0) + 1)));
  for (int attempt = 0;; ++attempt) {
    const TokenId token_id =
        params.allowed_token_ids
            ? (*params.allowed_token_ids)[draw % params.allowed_token_ids->size()]
            : static_cast<TokenId>(draw % static_cast<uint64_t>(options_.vocab_size));
    const bool ends =
        contains(params.eos_token_ids, token_id) || contains(params.stop_token_ids, token_id);
    const bool may_end = !ends || num_output_tokens >= params.min_tokens;
    if ((may_end && allows(mask, token_id)) || attempt > 100'000) return token_id;
    draw = splitmix64(draw);
  }
}

TokenLogprobs FakeExecutor::logprobs_of(TokenId token_id, uint64_t prefix_hash,
                                        int32_t num_top) const {
  TokenLogprobs entry;
  entry.token_id = token_id;
  entry.rank = 1;
  entry.logprob = -0.1f - static_cast<float>(extend(prefix_hash, token_id) % 1000) / 1000;
  const int32_t n = num_top < 0 ? options_.vocab_size : std::min(num_top, options_.vocab_size);
  for (int32_t i = 0; i < n; ++i) {
    entry.top.emplace_back((token_id + i) % options_.vocab_size,
                           entry.logprob - static_cast<float>(i));
  }
  return entry;
}

// Returns log-probabilities in steps of 1/64, so that some are equal and sums of them are exact.
TokenLogprobs FakeExecutor::candidates_of(uint64_t prefix_hash, int32_t num_top) const {
  TokenLogprobs entry;
  for (TokenId id = 0; id < options_.vocab_size; ++id)
    entry.top.emplace_back(id, -static_cast<float>(extend(prefix_hash, id) % 512) / 64);
  std::stable_sort(entry.top.begin(), entry.top.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  if (num_top >= 0) entry.top.resize(static_cast<size_t>(std::min(num_top, options_.vocab_size)));
  entry.token_id = entry.top.front().first;
  entry.logprob = entry.top.front().second;
  entry.rank = 1;
  return entry;
}

TokenLogprobs FakeExecutor::beam_candidates(std::span<const TokenId> context,
                                            int32_t num_top) const {
  uint64_t hash = 0;
  for (const TokenId id : context) hash = extend(hash, id);
  return candidates_of(hash, num_top);
}

std::vector<TokenId> FakeExecutor::expected_output(std::span<const TokenId> prompt,
                                                   const SamplingParams& params,
                                                   const MaskOf& mask_of,
                                                   const Adapter* adapter) const {
  std::vector<TokenId> context(prompt.begin(), prompt.end());
  uint64_t hash = first_hash(adapter);
  for (const TokenId id : prompt) hash = extend(hash, id);
  std::vector<TokenId> output;
  while (static_cast<int32_t>(output.size()) < params.max_tokens) {
    const auto num_output = static_cast<int32_t>(output.size());
    const std::vector<uint32_t> mask = mask_of ? mask_of(output) : std::vector<uint32_t>();
    const TokenId token_id = next_token(context, hash, num_output, params, mask);
    output.push_back(token_id);
    context.push_back(token_id);
    hash = extend(hash, token_id);
    if (num_output + 1 < params.min_tokens) continue;
    if (!params.ignore_eos && contains(params.eos_token_ids, token_id)) break;
    if (contains(params.stop_token_ids, token_id)) break;
  }
  return output;
}

std::vector<std::string> FakeExecutor::violations() const {
  const std::lock_guard lock(mutex_);
  return violations_;
}

Status FakeExecutor::violation(Status status) {
  const std::lock_guard lock(mutex_);
  if (violations_.size() < 100) violations_.push_back(status.message());
  return status;
}

}  // namespace quire
