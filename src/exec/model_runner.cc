#include "exec/model_runner.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "core/kv_division.h"
#include "device/isa.h"
#include "exec/dummy_step.h"
#include "exec/free_memory.h"
#include "models/vision/vision_config.h"
#include "nn/drafting/draft_vocab.h"
#include "weights/weight_cache.h"

namespace quire {
namespace {

// Packed weights out of the cache folder, or into it.
Result<Arena> cached_weights(HostStream& stream, const ModelRunnerOptions& options,
                             const LoadPlan& plan) {
  const LoadOptions load{.on_progress = options.on_progress,
                         .release_pages = options.files->source() != "<memory>",
                         .team = &stream.team()};
  return load_cached_weights(plan, load,
                             {.dir = options.weight_cache_dir,
                              .files = options.files.get(),
                              .packing = std::string(to_string(stream.isa()))});
}

KvLoad load_of(const DecoderLimits& limits) {
  return {.max_num_seqs = limits.max_reqs, .max_step_tokens = limits.max_tokens};
}

// Of a step, that another model drafts from or that this one does.
int64_t hidden_rows_bytes(const ModelRunnerOptions& options, const ModelPlan& plan) {
  if (options.hidden_rows == nullptr || options.draft_head != nullptr)
    return HiddenInlet::memory_bytes(plan.spec, plan.limits);
  return HiddenOutlet::memory_bytes(options.hidden_rows->spec(), plan.spec, plan.limits);
}

// Those of all requests that run, and a snapshot wherever each has come by.
int64_t useful_state_bytes(const ModelPlan& plan) {
  const KvSpec& kv = plan.kv.spec;
  if (!kv.uses(KvPool::kState)) return 0;
  const int64_t num_snapshots =
      plan.limits.max_reqs * (plan.limits.max_seq_len / kv.state.block_size);
  return (num_running_states(kv, load_of(plan.limits)) + num_snapshots) * kv.state.block_bytes;
}

}  // namespace

ModelRunner::ModelRunner(ModelRunnerOptions options, ThreadTeam team, Isa isa)
    : options_(std::move(options)),
      team_(std::move(team)),
      stream_(team_, isa),
      packing_(stream_) {}

Result<ModelPlan> ModelRunner::plan_only(const ModelRunnerOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const Isa isa, parse_isa(options.isa));
  QUIRE_ASSIGN_OR_RETURN(ThreadTeam team, start_team(options));
  ModelRunner runner(options, std::move(team), isa);
  ModelLoading loading;
  QUIRE_RETURN_IF_ERROR(runner.prepare(loading));
  return runner.plan_;
}

Result<std::unique_ptr<ModelRunner>> ModelRunner::create(ModelRunnerOptions options) {
  QUIRE_ASSIGN_OR_RETURN(const Isa isa, parse_isa(options.isa));
  QUIRE_ASSIGN_OR_RETURN(ThreadTeam team, start_team(options));
  std::unique_ptr<ModelRunner> runner(new ModelRunner(std::move(options), std::move(team), isa));
  ModelLoading loading;
  QUIRE_RETURN_IF_ERROR(runner->prepare(loading));
  QUIRE_RETURN_IF_ERROR(runner->load(loading));
  return runner;
}

Result<std::unique_ptr<ModelRunner>> ModelRunner::create_beside(const ModelRunner& first,
                                                                RankGroup* group) {
  QUIRE_ASSIGN_OR_RETURN(ThreadTeam team, start_team(first.options_));
  std::unique_ptr<ModelRunner> runner(
      new ModelRunner(first.options_, std::move(team), first.stream_.isa()));
  runner->options_.group = group;
  runner->plan_ = first.plan_;
  runner->model_ = first.model_;
  runner->num_adapters_ = first.num_adapters_;
  QUIRE_RETURN_IF_ERROR(runner->make_workspace());
  return runner;
}

Status ModelRunner::prepare(ModelLoading& loading) {
  model_ = std::make_shared<LoadedModel>();
  QUIRE_RETURN_IF_ERROR(prepare_model(options_, packing_, model_->plan, model_->weights, loading));
  plan_ = model_->plan;
  QUIRE_RETURN_IF_ERROR(open_vision(loading));
  return plan_memory(loading);
}

// A rank of several reads no images.
Status ModelRunner::open_vision(const ModelLoading& loading) {
  if (!loading.source || !options_.share.is_whole() || options_.draft_head != nullptr) return {};
  if (!has_tower(*loading.source)) return {};
  QUIRE_ASSIGN_OR_RETURN(plan_.vision, read_vision(*options_.files, plan_.spec.hidden_size));

  if (!plan_.vision) return {};
  if (options_.num_replicas > 1) {
    return unimplemented("--data-parallel-size: expected 1 for a model that reads images, got {}",
                         options_.num_replicas);
  }
  if (plan_.vision->has_grid_positions && plan_.spec.ropes.front().pair_axes.empty()) {
    return invalid_argument(
        "{}: config.json: rope_parameters: mrope_section: expected that of a model that reads "
        "images",
        options_.files->source());
  }
  QUIRE_RETURN_IF_ERROR(limit_image_tokens(options_.max_image_tokens, *plan_.vision));
  // A picture that fills a prompt is as much as anybody can ask about.
  plan_.vision->max_cells =
      std::min(plan_.vision->max_cells, static_cast<int32_t>(plan_.limits.max_seq_len));
  Result<std::unique_ptr<VisionTower>> tower =
      VisionTower::open(*plan_.vision, {.dtype = plan_.dtype, .compute = plan_.compute},
                        *loading.source, packing_, stream_);
  if (!tower.ok()) return tower.status().with_context(options_.files->source());
  // As many as a step has tokens, as vLLM does it.
  const int64_t cached = std::max<int64_t>(plan_.limits.max_tokens, plan_.vision->max_embeddings());
  media_ = std::make_unique<MediaStage>(std::move(*tower), static_cast<int32_t>(cached));
  plan_.memory.vision =
      media_->tower().weight_bytes() + media_->tower().workspace_bytes() + media_->cache_bytes();
  return {};
}

Status ModelRunner::plan_memory(const ModelLoading& loading) {
  // Stacks, code, allocator, request state: measured at 30 to 50 MiB, rounded up.
  constexpr int64_t kProcessBytes = int64_t{96} << 20;
  MemoryPlan& memory = plan_.memory;
  memory.weights = loading.weight_bytes(*model_->weights, packing_);
  memory.matrices = model_->weights->matrix_bytes(packing_);
  plan_.matrix_compute = model_->weights->matrix_compute();
  if (options_.max_adapters > 0) {
    plan_.limits.lora = {options_.max_lora_rank * LoraWeights::most_parts(model_->weights->slots()),
                         plan_.dtype};
    memory.adapters =
        options_.max_adapters *
        LoraWeights::most_bytes(model_->weights->slots(), options_.max_lora_rank, plan_.dtype);
  }
  memory.mapped_tables = loading.checkpoint.borrowed_bytes();
  const DecoderMemory decoder = decoder_memory(plan_.spec, *model_->weights, plan_.limits, stream_);
  memory.activations = decoder.activations;
  memory.linear_workspace = decoder.linear_workspace;
  memory.attention_workspace = decoder.attention_workspace;
  memory.hidden_rows = hidden_rows_bytes(options_, plan_);
  if (options_.share.is_whole()) {
    memory.logits = Arena::padded(plan_.limits.max_logit_rows * plan_.spec.vocab_size * 4) +
                    Arena::padded(plan_.limits.max_logit_rows * plan_.spec.head_size * 4);
  } else {
    memory.activations += plan_.shared_bytes / options_.share.num_ranks;
  }
  const KvSpec& kv = plan_.kv.spec;
  memory.batch = InputBatch::arena_bytes(plan_.limits, kv);
  memory.block_bytes = kv.block_bytes;
  memory.kv_spec = kv;
  memory.kv_bytes_per_token = plan_.kv.bytes_per_token();
  memory.free_memory =
      options_.free_memory_bytes > 0 ? options_.free_memory_bytes : free_memory_bytes();
  memory.host_kv = options_.host_kv_bytes;
  memory.num_replicas = options_.num_replicas;
  if (options_.kv_cache_memory_bytes) {
    memory.kv_cache = *options_.kv_cache_memory_bytes / memory.num_replicas;
  } else {
    memory.budget =
        static_cast<int64_t>(static_cast<double>(memory.free_memory) * options_.memory_utilization);
    // More blocks than all requests can fill at once would only be written over and over, one after
    // the other.
    const int64_t most_tokens = plan_.spec.is_bidirectional()
                                    ? plan_.limits.max_tokens
                                    : plan_.limits.max_reqs * plan_.limits.max_seq_len;
    const int64_t useful =
        static_cast<int64_t>(
            static_cast<double>(most_tokens + plan_.limits.max_reqs * kv.block_size) *
            memory.kv_bytes_per_token) +
        2 * kv.block_bytes + useful_state_bytes(plan_);
    const int64_t shared =
        kProcessBytes + memory.weights + memory.adapters + memory.vision + memory.host_kv;
    memory.kv_cache =
        std::min(useful, (memory.budget - shared) / memory.num_replicas - memory.workspace());
  }
  memory.kv_plan = divide_kv_memory(kv, memory.kv_cache, load_of(plan_.limits));
  return check_memory(memory);
}

Status ModelRunner::load(const ModelLoading& loading) {
  const MemoryPlan& memory = plan_.memory;
  if (loading.source && !options_.weight_cache_dir.empty()) {
    QUIRE_ASSIGN_OR_RETURN(model_->arena, cached_weights(stream_, options_, loading.checkpoint));
  } else {
    QUIRE_ASSIGN_OR_RETURN(model_->arena, Arena::create(memory.weights));
    QUIRE_RETURN_IF_ERROR(
        load_weights(packing_, &team_, options_, loading, *model_->weights, model_->arena));
  }
  if (media_ != nullptr) {
    QUIRE_RETURN_IF_ERROR(media_->tower().load(
        {.release_pages = options_.files->source() != "<memory>", .team = &team_}));
  }
  return make_workspace();
}

Status ModelRunner::make_workspace() {
  const MemoryPlan& memory = plan_.memory;
  QUIRE_ASSIGN_OR_RETURN(workspace_arena_, Arena::create(memory.workspace()));
  if (!options_.share.is_whole()) {
    if (options_.group == nullptr) return internal_error("a rank without its group");
    ranks_.emplace(plan_.whole, options_.share, plan_.limits, *options_.group, team_);
  }
  decoder_ = std::make_unique<Decoder>(plan_.spec, *model_->weights, plan_.limits, stream_,
                                       workspace_arena_, ranks_ ? &*ranks_ : nullptr);
  if (plan_.spec.pooling.any())
    pooling_ = std::make_unique<PoolingStage>(plan_.spec, *decoder_, team_);
  make_logits_stage();
  make_hidden_stages();
  const KvSpec& kv = plan_.kv.spec;
  batch_ = std::make_unique<InputBatch>(plan_.limits, kv, workspace_arena_);
  if (plan_.vision && plan_.vision->has_grid_positions)
    batch_->set_picture_cell_size(plan_.vision->cell_size());
  if (plan_.vision && plan_.vision->is_bidirectional) batch_->set_sees_whole_pictures();
  requests_ = std::make_unique<RequestTable>(plan_.spec.vocab_size, plan_.limits.max_seq_len,
                                             static_cast<int32_t>(kv.groups.size()));
  return {};
}

void ModelRunner::make_hidden_stages() {
  if (options_.hidden_rows == nullptr) return;
  if (options_.draft_head != nullptr) {
    hidden_inlet_ = std::make_unique<HiddenInlet>(options_.hidden_rows, *decoder_, plan_.spec,
                                                  plan_.limits, workspace_arena_);
    return;
  }
  hidden_outlet_ = std::make_unique<HiddenOutlet>(
      options_.hidden_rows, *decoder_, plan_.spec, plan_.limits,
      static_cast<float>(plan_.config.residual_multiplier), workspace_arena_);
}

void ModelRunner::tell_texts(const StepPlan& plan) {
  texts_.clear();
  for (size_t i = 0; i < plan.scheduled.size(); ++i) {
    const RequestState& state = batch_->request(i);
    texts_.push_back({.id = state.id,
                      .token_ids = state.token_ids,
                      .num_prompt_tokens = state.num_prompt_tokens,
                      .params = state.params,
                      .may_draft = state.kind == RequestKind::kGenerate &&
                                   state.adapter == nullptr &&
                                   state.params->num_speculative_tokens != 0});
  }
  options_.hidden_rows->end_step(texts_);
}

void ModelRunner::make_logits_stage() {
  const int64_t num_logits = plan_.limits.max_logit_rows * plan_.spec.vocab_size;
  float* const buffer = ranks_ ? ranks_->logits() : workspace_arena_.allocate<float>(num_logits);
  const std::span<float> logits(buffer, static_cast<size_t>(num_logits));
  LogitsStage::ComputeLogits compute = [this, out = logits.data()](std::span<const int32_t> rows) {
    decoder_->logits(rows, out);
    return Status();
  };
  const bool knows_all = plan_.spec.head_size == 0;
  if (!knows_all) {
    float* const few =
        workspace_arena_.allocate<float>(plan_.limits.max_logit_rows * plan_.spec.head_size);
    compute = [this, few, out = logits](std::span<const int32_t> rows) {
      decoder_->logits(rows, few);
      const auto size = static_cast<size_t>(plan_.spec.vocab_size);
      expand_logits(options_.draft_head->token_map, few, out.first(rows.size() * size), size);
      return Status();
    };
  }
  LogitsStage::FindGreatest find_greatest;
  if (decoder_->finds_greatest() && knows_all) {
    find_greatest = [this, scratch = logits.data()](std::span<const int32_t> rows,
                                                    std::span<RowGreatest> found) {
      decoder_->greatest_logits(rows, scratch, found.data());
    };
  }
  logits_ = std::make_unique<LogitsStage>(compute, find_greatest, team_, logits,
                                          plan_.spec.vocab_size, plan_.limits.max_logit_rows);
}

ExecutorInfo ModelRunner::info() const {
  return {.vocab_size = static_cast<int32_t>(plan_.spec.vocab_size),
          .max_model_len = static_cast<int32_t>(plan_.limits.max_seq_len),
          .generates = plan_.spec.has_head,
          .pooling = pooling_ == nullptr ? PoolingInfo{} : pooling_->info(),
          .media = media_ == nullptr ? MediaInfo{} : media_->info()};
}

Result<void*> ModelRunner::make_pool(int64_t bytes, Arena& arena) {
  // Mapping more than there is would succeed, and end the process when the pages are used.
  if (plan_.memory.free_memory > 0 && bytes > plan_.memory.free_memory) {
    constexpr int64_t kMiB = int64_t{1} << 20;
    return resource_exhausted(
        "KV cache: its blocks take {} MiB, but only {} MiB of memory are free", bytes / kMiB,
        plan_.memory.free_memory / kMiB);
  }
  QUIRE_ASSIGN_OR_RETURN(arena, Arena::create(bytes));
  return arena.allocate_bytes(bytes);
}

Status ModelRunner::initialize(const KvPlan& plan) {
  if (is_initialized_) return internal_error("KV cache: initialized twice");
  const KvSpec& spec = plan_.kv.spec;
  for (const KvPool pool : {KvPool::kAttention, KvPool::kState}) {
    if (!spec.uses(pool)) continue;
    if (plan.count(pool) < 2) {
      return invalid_argument("KV cache: expected at least 2 {} blocks, got {}", to_string(pool),
                              plan.count(pool));
    }
    const auto index = static_cast<size_t>(pool);
    QUIRE_ASSIGN_OR_RETURN(pools_[index], make_pool(plan.count(pool) * spec.pool(pool).block_bytes,
                                                    pool_arenas_[index]));
  }
  kv_plan_ = plan;
  QUIRE_RETURN_IF_ERROR(make_host_blocks());
  for (const KvGroupSpec& group : spec.groups) group_blocks_.push_back(plan.count(group.pool()));
  decoder_->bind_cache(plan_.kv.layer_caches(pools_[static_cast<size_t>(KvPool::kAttention)]),
                       plan_.kv.state_views(pools_[static_cast<size_t>(KvPool::kState)]));
  is_initialized_ = true;
  return {};
}

Status ModelRunner::make_host_blocks() {
  if (kv_plan_.num_host_blocks < 2) return {};
  const int64_t bytes = kv_plan_.num_host_blocks * plan_.kv.spec.block_bytes;
  QUIRE_ASSIGN_OR_RETURN(host_arena_, Arena::create(bytes));
  host_blocks_ = static_cast<std::byte*>(host_arena_.allocate_bytes(bytes));
  return {};
}

HostBlocks ModelRunner::host_blocks() {
  return {.data = host_blocks_,
          .block_bytes = plan_.kv.spec.block_bytes,
          .num_blocks = kv_plan_.num_host_blocks};
}

Status ModelRunner::warm_up() {
  // It fills caches, starts threads, maps first pages.
  return execute_dummy(*this, plan_.limits, kv_plan_);
}

Status ModelRunner::copy_to_and_from_host(const std::vector<HostBlockCopy>& copies) {
  const auto bytes = static_cast<size_t>(plan_.kv.spec.block_bytes);
  auto* const pool = static_cast<std::byte*>(pools_[static_cast<size_t>(KvPool::kAttention)]);
  for (const HostBlockCopy& copy : copies) {
    if (copy.block.value <= 0 || copy.block.value >= kv_plan_.num_blocks ||
        copy.host_block.value <= 0 || copy.host_block.value >= kv_plan_.num_host_blocks) {
      return internal_error("step plan: copy of block {} to or from host block {}: out of range",
                            copy.block, copy.host_block);
    }
    std::byte* const here = pool + static_cast<size_t>(copy.block.value) * bytes;
    std::byte* const there = host_blocks_ + static_cast<size_t>(copy.host_block.value) * bytes;
    std::memcpy(copy.to_host ? there : here, copy.to_host ? here : there, bytes);
  }
  return {};
}

void ModelRunner::copy_blocks(const std::vector<BlockCopy>& copies, KvPool pool) {
  copy_source_.clear();
  copy_destination_.clear();
  for (const BlockCopy& copy : copies) {
    if (copy.pool != pool) continue;
    copy_source_.push_back(copy.source.value);
    copy_destination_.push_back(copy.destination.value);
  }
  if (copy_source_.empty()) return;
  kv_block_copy(stream_, {.pool = pools_[static_cast<size_t>(pool)],
                          .block_bytes = plan_.kv.spec.pool(pool).block_bytes,
                          .source = copy_source_.data(),
                          .destination = copy_destination_.data(),
                          .num_copies = std::ssize(copy_source_)});
}

// A request whose image cannot be encoded fails alone.
std::span<const GivenRows> ModelRunner::encode_media(const StepPlan& plan) {
  media_->apply(plan);
  media_->clear_rows();
  int64_t first_row = 0;
  for (size_t i = 0; i < plan.scheduled.size(); ++i) {
    RequestState& state = batch_->request(i);
    Status status = media_->add_rows(plan.scheduled[i], first_row, state.media);
    if (!status.ok()) state.status = std::move(status);
    first_row += plan.scheduled[i].num_scheduled_tokens;
  }
  return media_->rows();
}

Result<StepResult> ModelRunner::execute(const StepPlan& plan) {
  const SteadyClock clock;
  const int64_t start_us = clock.now_us();
  if (!is_initialized_) return internal_error("execute() before initialize()");
  QUIRE_RETURN_IF_ERROR(copy_to_and_from_host(plan.host_copies));
  const int64_t max_blocks = InputBatch::max_blocks(plan_.limits, plan_.kv.spec.block_size);
  QUIRE_RETURN_IF_ERROR(requests_->apply(plan, group_blocks_, max_blocks));
  QUIRE_RETURN_IF_ERROR(check_block_copies(plan, kv_plan_));
  copy_blocks(plan.block_copies, KvPool::kAttention);
  copy_blocks(plan.block_copies, KvPool::kState);
  if (plan.empty()) return StepResult{.step_id = plan.step_id};
  StepResult result = std::exchange(spare_, {});
  result.step_id = plan.step_id;
  QUIRE_RETURN_IF_ERROR(batch_->build(plan, *requests_));
  std::span<const GivenRows> given_rows;
  if (media_ != nullptr) {
    const int64_t encoder_start_us = clock.now_us();
    given_rows = encode_media(plan);
    result.timings.encoder_us = clock.now_us() - encoder_start_us;
  }
  batch_->start_results(plan, result.requests);
  const int64_t batch_us = clock.now_us();
  const int64_t late_members = team_.stats().late_members;
  ForwardInputs inputs = batch_->inputs();
  inputs.given_rows = given_rows;
  if (hidden_outlet_ != nullptr) inputs.taps = hidden_outlet_->taps();
  if (hidden_inlet_ != nullptr) {
    for (const NewRequest& request : plan.new_requests) {
      requests_->find(request.id)->first_position =
          options_.hidden_rows->first_position(request.id);
    }
    QUIRE_ASSIGN_OR_RETURN(inputs.draft_rows, hidden_inlet_->rows(plan));
  }
  decoder_->forward(inputs);
  if (hidden_outlet_ != nullptr) hidden_outlet_->put(plan);
  if (hidden_inlet_ != nullptr) hidden_inlet_->keep(plan);
  StepTimings& timings = result.timings;
  timings.inputs_us = batch_us - start_us;
  timings.forward_us = clock.now_us() - batch_us;
  if (!options_.stage.is_last()) {
    // A later stage has the head.
  } else if (options_.share.rank == 0) {
    QUIRE_RETURN_IF_ERROR(logits_->run(*batch_, result.requests, options_.on_logits, timings));
  } else {
    QUIRE_RETURN_IF_ERROR(logits_->compute_only(*batch_));
  }
  if (options_.group != nullptr) QUIRE_RETURN_IF_ERROR(options_.group->status());
  if (pooling_ != nullptr) pooling_->run(*batch_, result.requests);
  if (hidden_outlet_ != nullptr) tell_texts(plan);
  const ThreadTeamStats team = team_.stats();
  timings.num_members = team.num_members;
  timings.late_members = team.late_members - late_members;
  result.execute_us = clock.now_us() - start_us;
  return result;
}

void ModelRunner::follow(const StepResult& first) {
  for (const RequestStepResult& result : first.requests) {
    RequestState* const state = requests_->find(result.id);
    if (state == nullptr) continue;
    if (!result.status.ok()) state->status = result.status;
    for (const TokenId token : result.sampled_token_ids) state->append(token);
  }
}

Result<std::shared_ptr<const Adapter>> ModelRunner::load_adapter(const std::string& name,
                                                                 const std::string& path) const {
  if (options_.max_adapters == 0)
    return unimplemented("adapters: expected --enable-lora, without which there are none");
  AdapterSlot slot = AdapterSlot::take(num_adapters_, options_.max_adapters);
  if (slot.is_empty()) {
    return resource_exhausted("adapters: {} are loaded or still in use, at most {} fit",
                              options_.max_adapters, options_.max_adapters);
  }
  QUIRE_ASSIGN_OR_RETURN(const LoraFiles files, LoraFiles::open(path));
  if (files.max_rank() > options_.max_lora_rank) {
    return invalid_argument("{}: expected ranks of at most {} (--max-lora-rank), got {}", path,
                            options_.max_lora_rank, files.max_rank());
  }
  const Family& family = *plan_.config.family;
  const bool is_gguf = plan_.config.format == CheckpointFormat::kGguf;
  QUIRE_ASSIGN_OR_RETURN(
      LoraWeights weights,
      LoraWeights::load(files, model_->weights->slots(), family.hf_names,
                        {plan_.dtype, is_gguf && family.gguf_rope_style != family.rope_style}));
  auto adapter = std::make_shared<LoadedAdapter>(std::move(slot), std::move(weights));
  adapter->name = name;
  adapter->content_key = files.digest();
  return std::shared_ptr<const Adapter>(std::move(adapter));
}

// Requests come and go, but while they stay no list of a step is allocated anew.
void ModelRunner::recycle(StepResult&& result) {
  spare_ = {.requests = std::move(result.requests)};
  clear_results(spare_.requests);
}

}  // namespace quire
