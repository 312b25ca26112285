#include "exec/model_runner.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/threads/thread_cpus.h"
#include "device/isa.h"
#include "exec/dummy_step.h"
#include "exec/kv/block_copies.h"
#include "exec/memory/free_memory.h"
#include "exec/runner_memory.h"
#include "exec/sources/canvas_encoder.h"
#include "exec/sources/speech_encoder.h"
#include "exec/sources/text_encoder.h"
#include "models/speech/speech_config.h"
#include "models/text_encoder.h"
#include "models/vision/vision_config.h"
#include "nn/drafting/draft_vocab.h"
#include "weights/weight_cache.h"

namespace quire {
namespace {

// Reads the packed weights from the cache folder, or packs them and writes them there.
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

// Returns how many sources are kept: one per running request, as far as a quarter of the memory
// that may be used suffices.
int32_t num_source_places(const ModelRunnerOptions& options, const ModelPlan& plan) {
  const int64_t free =
      options.free_memory_bytes > 0 ? options.free_memory_bytes : free_memory_bytes();
  const int64_t place = SourceStage::place_bytes(plan.spec, plan.kv_dtype);
  const auto quarter =
      static_cast<int64_t>(static_cast<double>(free) * options.memory_utilization / 4);
  return static_cast<int32_t>(std::clamp<int64_t>(quarter / place, 1, plan.limits.max_reqs));
}

Result<std::unique_ptr<SourceEncoder>> open_encoder(const ModelRunnerOptions& options,
                                                    const ModelPlan& plan,
                                                    const TensorSource& tensors,
                                                    WeightPacking& packing, HostStream& stream) {
  const WeightOptions weights{
      .dtype = plan.dtype, .compute = plan.compute, .quant_compute = plan.quant_compute};
  if (plan.config.family->text_encoder != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(const ModelConfig config,
                           read_text_encoder(*options.files, plan.config));
    QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<SourceEncoder> encoder,
                           TextEncoder::open(config, plan.spec.cross.max_source_len, weights,
                                             plan.config.quantization, tensors, packing, stream));
    return encoder;
  }
  if (plan.vision && plan.vision->canvas.any()) {
    QUIRE_ASSIGN_OR_RETURN(TowerTensors of_tower,
                           tower_tensors(*plan.vision, *options.files, tensors));
    QUIRE_ASSIGN_OR_RETURN(
        std::unique_ptr<SourceEncoder> encoder,
        CanvasEncoder::open(*plan.vision, weights, std::move(of_tower), packing, stream));
    return encoder;
  }
  QUIRE_ASSIGN_OR_RETURN(const std::optional<SpeechSpec> speech, read_speech(*options.files));
  if (!speech) return internal_error("config.json: a decoder that hears without its encoder");
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<SourceEncoder> encoder,
                         SpeechEncoder::open(*speech, weights, tensors, packing, stream));
  return encoder;
}

Result<std::unique_ptr<SourceStage>> make_source(const ModelRunnerOptions& options,
                                                 const DecoderWeights& weights,
                                                 const TensorSource& tensors,
                                                 WeightPacking& packing, HostStream& stream,
                                                 ModelPlan& plan) {
  if (options.num_replicas > 1) {
    return unimplemented("--data-parallel-size: expected 1 for a model with an encoder, got {}",
                         options.num_replicas);
  }
  if (options.max_adapters > 0)
    return unimplemented("--enable-lora: expected a model without an encoder");
  if (plan.spec.cross.gated) {
    QUIRE_ASSIGN_OR_RETURN(plan.vision, read_vision(*options.files, plan.spec.hidden_size));
    if (!plan.vision)
      return invalid_argument(
          "config.json: vision_config: expected the image encoder that the model's cross-attention "
          "reads, got nothing");
  }
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<SourceEncoder> encoder,
                         open_encoder(options, plan, tensors, packing, stream));
  plan.encoder = encoder->layers();
  if (!plan.spec.cross.gated && plan.config.family->text_encoder == nullptr)
    QUIRE_RETURN_IF_ERROR(read_alignment(*options.files, plan.spec));
  SourceStage::Shape shape{.kv_dtype = plan.kv_dtype,
                           .num_places = num_source_places(options, plan)};
  if (plan.config.family->text_encoder != nullptr)
    shape.text = {.max_tokens = plan.spec.cross.max_source_len, .start = plan.config.decoder_start};
  return std::make_unique<SourceStage>(std::move(encoder), plan.spec, weights, plan.limits, shape,
                                       stream);
}

// Opens the encoder of the decoder's sources and plans its memory. Null: the model has none, or
// this is one of several ranks or a draft head.
Result<std::unique_ptr<SourceStage>> open_source(const ModelRunnerOptions& options,
                                                 const ModelLoading& loading,
                                                 const DecoderWeights& weights,
                                                 WeightPacking& packing, HostStream& stream,
                                                 ModelPlan& plan) {
  const bool is_alone = options.share.is_whole() && options.draft_head == nullptr;
  if (!plan.spec.cross.any() || !loading.source || !is_alone) return std::unique_ptr<SourceStage>();
  auto source = make_source(options, weights, *loading.source, packing, stream, plan);
  if (!source.ok()) return source.status().with_context(options.files->source());
  plan.memory.vision = (*source)->memory_bytes();
  return source;
}

// Opens what reads images and plans its memory; null: the model reads none. Each rank has the whole
// tower and computes the embeddings of every image itself, with the same bits.
Result<std::unique_ptr<MediaStage>> open_vision(const ModelRunnerOptions& options,
                                                const ModelLoading& loading, WeightPacking& packing,
                                                HostStream& stream, ModelPlan& plan) {
  std::unique_ptr<MediaStage> media;
  if (!loading.source || options.draft_head != nullptr) return media;
  if (plan.spec.cross.any()) return media;  // open_source() handles it
  if (!has_tower(*options.files, *loading.source)) return media;
  QUIRE_ASSIGN_OR_RETURN(plan.vision, read_vision(*options.files, plan.spec.hidden_size));
  if (!plan.vision) return media;
  if (options.num_replicas > 1) {
    return unimplemented("--data-parallel-size: expected 1 for a model that reads images, got {}",
                         options.num_replicas);
  }
  if (plan.vision->has_grid_positions && plan.spec.ropes.front().pair_axes.empty()) {
    return invalid_argument(
        "{}: rope_parameters: mrope_section (rope.dimension_sections in GGUF): expected that of a "
        "model that reads images",
        options.files->source());
  }
  QUIRE_RETURN_IF_ERROR(limit_image_tokens(options.max_image_tokens, *plan.vision));
  // A request cannot have more of a picture than fills its prompt.
  plan.vision->max_cells =
      std::min(plan.vision->max_cells, static_cast<int32_t>(plan.limits.max_seq_len));
  QUIRE_ASSIGN_OR_RETURN(TowerTensors tensors,
                         tower_tensors(*plan.vision, *options.files, *loading.source));
  Result<std::unique_ptr<VisionTower>> tower =
      VisionTower::open(*plan.vision, {.dtype = plan.dtype, .compute = plan.compute},
                        std::move(tensors), packing, stream);
  if (!tower.ok()) {
    return tower.status().with_context(
        options.files->mmproj_name().value_or(options.files->source()));
  }
  // Keeps as many embeddings as a step has tokens, as vLLM does.
  const int64_t cached = std::max<int64_t>(plan.limits.max_tokens, plan.vision->max_embeddings());
  media = std::make_unique<MediaStage>(std::move(*tower), static_cast<int32_t>(cached));
  plan.memory.vision =
      media->tower().weight_bytes() + media->tower().workspace_bytes() + media->cache_bytes();
  return media;
}

// Makes the reader of single experts from the opened checkpoint, which nothing else reads any more.
Result<std::unique_ptr<ExpertReader>> make_reader(const ModelRunnerOptions& options,
                                                  const ModelPlan& plan, Isa isa,
                                                  ModelLoading loading) {
  return ExpertReader::create({.spec = plan.staged,
                               .options = weight_options(options, plan),
                               .names = checkpoint_names(plan.config),
                               .quantization = plan.config.quantization,
                               .tensors = std::move(*loading.source),
                               .memory = std::move(loading.memory),
                               .is_mapped = options.files->source() != "<memory>"},
                              isa);
}

// Fills `pooled` of those requests whose last token the step has computed.
void align_tokens(const InputBatch& batch, const SourceStage& source, TokenAlignment& alignment,
                  std::vector<RequestStepResult>& results) {
  const ForwardInputs inputs = batch.inputs();
  for (size_t i = 0; i < results.size(); ++i) {
    RequestState& state = batch.request(i);
    if (state.pooling == nullptr || inputs.seq_lens[i] != state.num_prompt_tokens) continue;
    if (state.status.ok()) {
      results[i].pooled =
          alignment.align(state.pooled, *state.pooling, source, state.media.front().item->key);
    }
    state.pooled = {};
  }
}

}  // namespace

ModelRunner::ModelRunner(ModelRunnerOptions options, ThreadTeam team, Isa isa)
    : options_(std::move(options)),
      team_(std::move(team)),
      stream_(team_, isa),
      packing_(stream_),
      kv_(stream_) {}

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
  if (std::ssize(options.cpus) < options.threads) options.cpus.clear();
  const ThreadCpus cpus(options.cpus);
  QUIRE_ASSIGN_OR_RETURN(ThreadTeam team, start_team(options));
  std::unique_ptr<ModelRunner> runner(new ModelRunner(std::move(options), std::move(team), isa));
  ModelLoading loading;
  QUIRE_RETURN_IF_ERROR(runner->prepare(loading));
  QUIRE_RETURN_IF_ERROR(runner->load(std::move(loading)));
  return runner;
}

Result<std::unique_ptr<ModelRunner>> ModelRunner::create_beside(const ModelRunner& first,
                                                                const std::vector<int>& cpus,
                                                                RankGroup* group) {
  ModelRunnerOptions options = first.options_;
  options.cpus = std::ssize(cpus) < options.threads ? std::vector<int>() : cpus;
  options.group = group;
  const ThreadCpus kept(options.cpus);
  QUIRE_ASSIGN_OR_RETURN(ThreadTeam team, start_team(options));
  std::unique_ptr<ModelRunner> runner(
      new ModelRunner(std::move(options), std::move(team), first.stream_.isa()));
  runner->plan_ = first.plan_;
  runner->model_ = first.model_;
  runner->adapters_in_use_ = first.adapters_in_use_;
  QUIRE_RETURN_IF_ERROR(runner->make_workspace());
  return runner;
}

Status ModelRunner::prepare(ModelLoading& loading) {
  model_ = std::make_shared<LoadedModel>();
  QUIRE_RETURN_IF_ERROR(prepare_model(options_, packing_, model_->plan, model_->weights, loading));
  plan_ = model_->plan;
  QUIRE_ASSIGN_OR_RETURN(
      source_, open_source(options_, loading, *model_->weights, packing_, stream_, plan_));
  QUIRE_ASSIGN_OR_RETURN(media_, open_vision(options_, loading, packing_, stream_, plan_));
  return plan_memory(options_, loading, *model_->weights, packing_, stream_, plan_);
}

Status ModelRunner::load(ModelLoading loading) {
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
  if (source_ != nullptr) {
    QUIRE_RETURN_IF_ERROR(
        source_->load({.release_pages = options_.files->source() != "<memory>", .team = &team_}));
  }
  QUIRE_RETURN_IF_ERROR(make_workspace());
  const bool spreads = options_.share.spreads_experts() && decoder_->experts() != nullptr;
  if (!options_.expert_balance.is_enabled || !spreads) return {};
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<ExpertReader> reader,
                         make_reader(options_, model_->plan, stream_.isa(), std::move(loading)));
  balancer_ = std::make_unique<ExpertBalancer>(
      options_.expert_balance, ExpertBalancer::Parts{.spec = plan_.spec,
                                                     .weights = *model_->weights,
                                                     .arena = model_->arena,
                                                     .experts = *decoder_->experts(),
                                                     .ranks = *ranks_,
                                                     .reader = std::move(reader)});
  return {};
}

Status ModelRunner::make_workspace() {
  const MemoryPlan& memory = plan_.memory;
  QUIRE_ASSIGN_OR_RETURN(workspace_arena_, Arena::create(memory.workspace()));
  if (!options_.share.is_whole()) {
    if (options_.group == nullptr) return internal_error("a rank without its group");
    ranks_.emplace(plan_.whole, options_.share, plan_.limits, *options_.group, stream_);
  }
  decoder_ = std::make_unique<Decoder>(plan_.spec, *model_->weights, plan_.limits, stream_,
                                       workspace_arena_, ranks_ ? &*ranks_ : nullptr);
  if (plan_.spec.pooling.any())
    pooling_ = std::make_unique<PoolingStage>(
        plan_.spec, plan_.limits, *decoder_, PoolingStage::Place{stream_, team_, workspace_arena_});
  if (source_ != nullptr && !plan_.spec.cross.alignment_heads.empty())
    alignment_.emplace(plan_.spec, team_);
  make_logits_stage();
  hidden_.emplace(options_.hidden_rows, options_.draft_head != nullptr, *decoder_, plan_.spec,
                  plan_.limits, static_cast<float>(plan_.config.residual_multiplier),
                  workspace_arena_);
  const KvSpec& kv = plan_.kv.spec;
  batch_ = std::make_unique<InputBatch>(plan_.limits, kv, workspace_arena_);
  if (plan_.vision && plan_.vision->has_grid_positions)
    batch_->set_picture_cell_size(plan_.vision->cell_size());
  if (plan_.vision && plan_.vision->is_bidirectional) batch_->set_sees_whole_pictures();
  requests_ = std::make_unique<RequestTable>(plan_.spec.vocab_size, plan_.limits.max_seq_len,
                                             static_cast<int32_t>(kv.groups.size()));
  return {};
}

void ModelRunner::make_logits_stage() {
  const int64_t num_logits = plan_.limits.max_logit_rows * plan_.spec.vocab_size;
  float* const buffer = ranks_ ? ranks_->logits() : workspace_arena_.allocate<float>(num_logits);
  const std::span<float> logits(buffer, static_cast<size_t>(num_logits));
  LogitsStage::ComputeLogits compute = [this, out = logits.data()](std::span<const int32_t> rows) {
    decoder_->head().logits(rows, out);
    return Status();
  };
  const bool knows_all = plan_.spec.head_size == 0;
  if (!knows_all) {
    float* const few =
        workspace_arena_.allocate<float>(plan_.limits.max_logit_rows * plan_.spec.head_size);
    compute = [this, few, out = logits](std::span<const int32_t> rows) {
      decoder_->head().logits(rows, few);
      const auto size = static_cast<size_t>(plan_.spec.vocab_size);
      expand_logits(options_.draft_head->token_map, few, out.first(rows.size() * size), size);
      return Status();
    };
  }
  LogitsStage::FindGreatest find_greatest;
  if (decoder_->head().finds_greatest() && knows_all) {
    find_greatest = [this, scratch = logits.data()](std::span<const int32_t> rows,
                                                    const uint32_t* const* allowed,
                                                    std::span<RowGreatest> found) {
      return decoder_->head().greatest_logits(rows, scratch, found.data(), allowed);
    };
  }
  logits_ = std::make_unique<LogitsStage>(compute, find_greatest, team_, logits,
                                          plan_.spec.vocab_size, plan_.limits.max_logit_rows);
}

ExecutorInfo ModelRunner::info() const {
  PoolingInfo pooling = pooling_ == nullptr ? PoolingInfo{} : pooling_->info();
  pooling.aligns = alignment_.has_value();
  return {.vocab_size = static_cast<int32_t>(plan_.spec.vocab_size),
          .max_model_len = static_cast<int32_t>(plan_.limits.max_seq_len),
          .generates = plan_.spec.has_head,
          .pooling = pooling,
          .media = source_ != nullptr  ? source_->info()
                   : media_ != nullptr ? media_->info()
                                       : MediaInfo{}};
}

Status ModelRunner::initialize(const KvPlan& plan) {
  QUIRE_RETURN_IF_ERROR(kv_.allocate(plan_.kv.spec, plan,
                                     {.free_memory_bytes = plan_.memory.free_memory,
                                      .shares_host_blocks = options_.shares_host_blocks}));
  decoder_->bind_cache(plan_.kv.layer_caches(kv_.pool(KvPool::kAttention)),
                       plan_.kv.state_views(kv_.pool(KvPool::kState)));
  return {};
}

KvHostMemory ModelRunner::host_memory() {
  KvHostMemory memory;
  for (const KvPool pool : {KvPool::kAttention, KvPool::kState}) {
    HostBlocks blocks = kv_.host_blocks(pool);
    if (blocks.data == nullptr) continue;
    blocks.strips = plan_.kv.strips(pool);
    memory.at(pool).push_back(std::move(blocks));
  }
  return memory;
}

Status ModelRunner::warm_up() {
  // The dummy step fills caches, starts threads and maps the first pages.
  return execute_dummy(*this, plan_.limits, kv_.plan());
}

// A request whose image or source cannot be encoded fails by itself.
void ModelRunner::encode_media(const StepPlan& plan, ForwardInputs& inputs, StepResult& result) {
  if (media_ != nullptr) {
    media_->apply(plan, result.media_encode_us);
    media_->clear_rows();
  } else if (source_ != nullptr) {
    source_->apply(plan, result.media_encode_us);
    source_->clear_segments();
  } else {
    return;
  }
  if (alignment_) alignment_->clear();
  int64_t first_row = 0;
  for (size_t i = 0; i < plan.scheduled.size(); ++i) {
    const ScheduledRequest& scheduled = plan.scheduled[i];
    RequestState& state = batch_->request(i);
    Status status = media_ != nullptr ? media_->add_rows(scheduled, first_row, state.media)
                                      : source_->add_segments(scheduled, state.media);
    if (!status.ok()) state.status = std::move(status);
    if (alignment_ && state.pooling != nullptr)
      alignment_->add(scheduled, *state.pooling, first_row, state.pooled);
    first_row += scheduled.num_scheduled_tokens;
  }
  if (media_ != nullptr) {
    inputs.given_rows = media_->rows();
  } else {
    inputs.cross = source_->block();
    inputs.cross_segments = source_->segments();
    if (alignment_) inputs.cross_segments.query_copies = alignment_->wanted_queries();
  }
}

Result<StepResult> ModelRunner::execute(const StepPlan& plan) {
  const ThreadCpus kept(options_.cpus);
  const SteadyClock clock;
  const int64_t start_us = clock.now_us();
  if (!kv_.is_allocated()) return internal_error("execute() before initialize()");
  const int64_t max_blocks = InputBatch::max_blocks(plan_.limits, plan_.kv.spec.block_size);
  // Neither of the two may keep the other from having its effect (Executor::execute()).
  const Status applied = requests_->apply(plan, kv_.group_blocks(), max_blocks);
  QUIRE_RETURN_IF_ERROR(kv_.copy_to_and_from_host(plan.host_copies));
  QUIRE_RETURN_IF_ERROR(applied);
  QUIRE_RETURN_IF_ERROR(check_block_copies(plan, kv_.plan()));
  kv_.copy_blocks(plan.block_copies);
  if (plan.empty()) return StepResult{.step_id = plan.step_id};
  StepResult result = std::exchange(spare_, {});
  result.step_id = plan.step_id;
  QUIRE_RETURN_IF_ERROR(batch_->build(plan, *requests_));
  const int64_t encoder_start_us = clock.now_us();
  ForwardInputs inputs = batch_->inputs();
  encode_media(plan, inputs, result);
  result.timings.encoder_us = clock.now_us() - encoder_start_us;
  batch_->start_results(plan, result.requests);
  const int64_t batch_us = clock.now_us();
  const int64_t late_members = team_.stats().late_members;
  for (const NewRequest& request : plan.new_requests)
    requests_->find(request.id)->first_position = hidden_->first_position(request.id);
  QUIRE_RETURN_IF_ERROR(hidden_->before(plan, inputs));
  if (balancer_ != nullptr) balancer_->begin_step();
  decoder_->forward(inputs);
  QUIRE_RETURN_IF_ERROR(hidden_->after(plan));
  StepTimings& timings = result.timings;
  timings.inputs_us = batch_us - start_us;
  timings.forward_us = clock.now_us() - batch_us;
  if (!options_.stage.is_last()) {
    // Otherwise a later stage has the head.
  } else if (options_.share.rank == 0) {
    QUIRE_RETURN_IF_ERROR(logits_->run(*batch_, result.requests, options_.on_logits, timings));
  } else {
    QUIRE_RETURN_IF_ERROR(logits_->compute_only(*batch_));
  }
  if (options_.group != nullptr) QUIRE_RETURN_IF_ERROR(options_.group->status());
  if (pooling_ != nullptr) QUIRE_RETURN_IF_ERROR(pooling_->run(plan, *batch_, result.requests));
  if (alignment_) align_tokens(*batch_, *source_, *alignment_, result.requests);
  if (hidden_->is_read()) {
    list_texts(*batch_, texts_);
    hidden_->end_step(texts_);
  }
  const ThreadTeamStats team = team_.stats();
  timings.num_members = team.num_members;
  timings.late_members = team.late_members - late_members;
  result.execute_us = clock.now_us() - start_us;
  return result;
}

void ModelRunner::follow(const StepResult& first) { requests_->follow(first); }

Result<std::shared_ptr<const Adapter>> ModelRunner::load_adapter(const std::string& name,
                                                                 const std::string& path) const {
  AdapterReading reading{.options = options_,
                         .plan = plan_,
                         .weights = *model_->weights,
                         .lora = {.isa = stream_.isa()},
                         .in_use = adapters_in_use_};
  if (options_.stage.count > 1) {
    reading.lora.own_layers = layers_of(plan_.whole, options_.stage);
    reading.lora.num_layers = std::ssize(plan_.whole.layers);
  }
  QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<LoadedAdapter> adapter, read_adapter(name, path, reading));
  if (adapter->weights.changes_experts() && options_.expert_balance.is_enabled) {
    return unimplemented("{}: adapters of experts are not supported with --enable-eplb", path);
  }
  return std::shared_ptr<const Adapter>(std::move(adapter));
}

// While the set of running requests stays the same, no list of a step is allocated again.
void ModelRunner::recycle(StepResult&& result) {
  spare_ = {.requests = std::move(result.requests)};
  clear_results(spare_.requests);
}

}  // namespace quire
