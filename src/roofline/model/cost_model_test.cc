#include "roofline/model/cost_model.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>

#include "roofline/model/kernel_time.h"
#include "roofline/shape/pipeline_layers.h"
#include "roofline/testing/test_models.h"

namespace quire {
namespace {

using test::model_of;

CostModel make(const char* config, const Hardware& hardware, Parallelism parallelism = {},
               CostOptions options = {.max_memoised_tokens = 64}) {
  return CostModel::create(model_of(config), hardware, parallelism, options).value();
}

Hardware h100() { return find_hardware("h100-sxm").value(); }

StepShape decodes(int32_t count, int32_t context, const std::vector<int32_t>& windows = {}) {
  StepShape step;
  for (int32_t i = 0; i < count; ++i) step.add(context - 1, 1, true, windows);
  return step;
}

StepShape prefill(int32_t tokens, int32_t context = 0, bool sampled = true) {
  StepShape step;
  step.add(context, tokens, sampled, {});
  return step;
}

const KernelCost& at(const std::array<KernelCost, kNumKernels>& costs, Kernel kernel) {
  return costs[static_cast<size_t>(kernel)];
}

TEST(CostModel, LlamaDecodeByHand) {
  const CostModel cost = make(test::kLlama31_8B, h100());
  const auto kernels = cost.explain(decodes(1, 1024));
  // 2 x parameters of the products; 4 x 32 heads x 128 x 1024 keys x 32 layers.
  EXPECT_DOUBLE_EQ(at(kernels, Kernel::kMlp).flops, 2.0 * 32 * 3 * 4096 * 14336);
  EXPECT_DOUBLE_EQ(at(kernels, Kernel::kQkvProjection).flops, 2.0 * 32 * 4096 * 6144);
  EXPECT_DOUBLE_EQ(at(kernels, Kernel::kOutputProjection).flops, 2.0 * 32 * 4096 * 4096);
  EXPECT_DOUBLE_EQ(at(kernels, Kernel::kHead).flops, 2.0 * 128256 * 4096);
  EXPECT_DOUBLE_EQ(at(kernels, Kernel::kDecodeAttention).flops, 536'870'912.0);
  EXPECT_EQ(at(kernels, Kernel::kPrefillAttention).flops, 0);
  // KV of 1024 keys at 131072 bytes, and the input queries.
  EXPECT_DOUBLE_EQ(at(kernels, Kernel::kDecodeAttention).read_bytes, 1024 * 131072.0 + 32 * 8192.0);
  EXPECT_NEAR(at(kernels, Kernel::kMlp).read_bytes, 2.0 * 32 * 3 * 4096 * 14336, 5e6);
  EXPECT_EQ(at(kernels, Kernel::kMlp).bound_by, Term::kWeights);
  const StepCost step = cost.predict(decodes(1, 1024));
  EXPECT_EQ(step.binding, Term::kWeights);
  // All weights but the embedding, and the KV, at 3.35 TB/s; activations add little.
  const double bytes = (8'029'995'008.0 - 128256.0 * 4096) * 2 + 1024 * 131072.0;
  EXPECT_NEAR(step.bound_us, bytes / 3.35e6, 0.01 * step.bound_us);
}

// Four layers of Mamba-2 (I 4096, H 64, P 64, N 128, G 8, a convolution of 4), one of attention,
// and one with only an MLP.
ModelShape hybrid_model() {
  ModelShape model{.name = "hybrid",
                   .hidden_size = 2048,
                   .vocab_size = 1000,
                   .max_model_len = 4096,
                   .groups = {},
                   .weights = {16, MathType::kBf16},
                   .expert_weights = {},
                   .head_weights = {16, MathType::kBf16}};
  const StateShape state{.in_rows = 2 * 4096 + 2 * 8 * 128 + 64,
                         .inner_size = 4096,
                         .num_floats = 3 * 6144 + 4096 * 128,
                         .token_flops = 2 * 6144 * 4 + 6 * 4096 * 128};
  model.groups = {
      {.num_layers = 4, .attention = {}, .ffn = {}, .state = state},
      {.num_layers = 1,
       .attention = {.num_heads = 16, .num_kv_heads = 4, .head_dim = 128},
       .ffn = {},
       .state = {}},
      {.num_layers = 1, .attention = {}, .ffn = {.intermediate_size = 8192}, .state = {}}};
  return model;
}

TEST(CostModel, StatesByHand) {
  const ModelShape model = hybrid_model();
  EXPECT_EQ(model.kv_bytes_per_token(), 2 * 2 * 4 * 128);
  EXPECT_EQ(model.state_bytes_per_sequence(), 4 * 4 * (3 * 6144 + 4096.0 * 128));
  EXPECT_EQ(model.num_parameters(),
            4 * 2048 * (10304 + 4096) + 2048 * 128 * 40 + 3 * 2048 * 8192 + 2 * 1000 * 2048);
  const CostModel cost = CostModel::create(model, h100(), {}, {.max_memoised_tokens = 64}).value();
  // Each of three tokens reads and writes the state of its sequence, however long that is.
  for (const int32_t context : {1, 4000}) {
    const auto kernels = cost.explain(decodes(3, context));
    const KernelCost& scan = at(kernels, Kernel::kStateScan);
    EXPECT_DOUBLE_EQ(scan.write_bytes, 3 * model.state_bytes_per_sequence());
    EXPECT_DOUBLE_EQ(scan.read_bytes, scan.write_bytes);
    EXPECT_DOUBLE_EQ(scan.flops, 3.0 * 4 * (2 * 6144 * 4 + 6 * 4096 * 128));
    EXPECT_EQ(scan.bound_by, Term::kKv);
  }
  // A prompt reads and writes the states once.
  const auto prompt = cost.explain(prefill(512));
  EXPECT_DOUBLE_EQ(at(prompt, Kernel::kStateScan).write_bytes, model.state_bytes_per_sequence());
  EXPECT_DOUBLE_EQ(at(prompt, Kernel::kStateScan).flops,
                   512.0 * 4 * (2 * 6144 * 4 + 6 * 4096 * 128));
  // Attention is in one layer, the MLP in another.
  EXPECT_DOUBLE_EQ(at(prompt, Kernel::kMlp).flops, 512 * 2.0 * 3 * 2048 * 8192);
  const auto decode = cost.explain(decodes(1, 1024));
  EXPECT_DOUBLE_EQ(at(decode, Kernel::kDecodeAttention).flops, 4.0 * 16 * 128 * 1024);
}

TEST(CostModel, PartsOfAModelWithStatesSumUp) {
  const CostModel cost =
      CostModel::create(hybrid_model(), h100(), {.tp = 2}, {.max_memoised_tokens = 64}).value();
  StepShape mixed = decodes(5, 700);
  mixed.add(256, 300, true, {});
  for (const StepShape& step : {decodes(1, 1), decodes(64, 900), prefill(33), mixed}) {
    const auto kernels = cost.explain(step);
    double us = 0, bound_us = 0;
    for (const KernelCost& kernel : kernels) {
      us += kernel.predicted_us;
      bound_us += kernel.bound_us;
    }
    const StepCost whole = cost.predict(step);
    EXPECT_NEAR(whole.total_us, us, 1e-9 * us);
    EXPECT_NEAR(whole.bound_us, bound_us, 1e-9 * us);
    EXPECT_NEAR(cost.bound_us(step), bound_us, 1e-9 * us);
    EXPECT_LT(whole.bound_us, whole.total_us);
    EXPECT_NEAR(std::accumulate(whole.terms.begin(), whole.terms.end(), 0.0), us, 1e-9 * us);
  }
}

TEST(CostModel, LlamaPrefillByHand) {
  const CostModel cost = make(test::kLlama31_8B, h100());
  const auto kernels = cost.explain(prefill(4096, 1000));
  // Σ over queries of keys: 4096 x (1001 + 5096) / 2.
  const double pairs = 4096 * (1001.0 + 5096.0) / 2;
  EXPECT_DOUBLE_EQ(at(kernels, Kernel::kPrefillAttention).flops, 4.0 * 32 * 128 * pairs * 32);
  EXPECT_DOUBLE_EQ(at(kernels, Kernel::kMlp).flops, 2.0 * 4096 * 32 * 3 * 4096 * 14336);
  EXPECT_DOUBLE_EQ(at(kernels, Kernel::kHead).flops, 2.0 * 128256 * 4096);  // one row
  EXPECT_EQ(cost.predict(prefill(4096)).binding, Term::kCompute);
  EXPECT_EQ(at(cost.explain(prefill(64, 0, false)), Kernel::kHead).flops, 0);
}

TEST(CostModel, SlidingWindowCapsTheContext) {
  const CostModel cost = make(test::kGemma2_9B, h100());
  ASSERT_EQ(cost.windows(), std::vector<int32_t>{4096});
  const auto kernels = cost.explain(decodes(1, 8000, cost.windows()));
  EXPECT_DOUBLE_EQ(at(kernels, Kernel::kDecodeAttention).flops,
                   4.0 * 16 * 256 * 21 * (4096.0 + 8000.0));
  const auto prompt = cost.explain(prefill(6000));
  const double windowed = 4096.0 * 4097 / 2 + (6000.0 - 4096) * 4096;
  const double full = 6000.0 * 6001 / 2;
  EXPECT_DOUBLE_EQ(at(prompt, Kernel::kPrefillAttention).flops,
                   4.0 * 16 * 256 * 21 * (windowed + full));
}

TEST(CostModel, QwenExpertsByHand) {
  const CostModel cost = make(test::kQwen3_30B_A3B, h100());
  // One token reads its 8 experts; for any number of tokens, FLOPs are those of the active experts.
  const auto one = cost.explain(decodes(1, 10));
  EXPECT_NEAR(at(one, Kernel::kExperts).read_bytes, 48 * 8 * 3 * 2048 * 768 * 2.0, 1e7);
  const auto many = cost.explain(decodes(32, 10));
  EXPECT_NEAR(at(many, Kernel::kExperts).flops, 48 * 32 * 8 * 2.0 * 3 * 2048 * 768, 1e3);
  const double distinct = 128 * (1 - std::pow(1 - 8.0 / 128, 32));
  EXPECT_NEAR(at(many, Kernel::kExperts).read_bytes, 48 * distinct * 3 * 2048 * 768 * 2.0, 7e7);
  EXPECT_DOUBLE_EQ(at(one, Kernel::kRouter).flops, 48 * 2.0 * 2048 * 128);
}

TEST(CostModel, LatentAttentionByHand) {
  const CostModel cost = make(test::kDeepSeekV2Lite, h100());
  const auto kernels = cost.explain(decodes(1, 2000));
  // Scores over 576 latent dimensions, values over 512, 16 heads, 27 layers.
  EXPECT_DOUBLE_EQ(at(kernels, Kernel::kDecodeAttention).flops, 2.0 * 16 * (576 + 512) * 2000 * 27);
  EXPECT_NEAR(at(kernels, Kernel::kDecodeAttention).read_bytes, 2000 * 31104.0, 1e6);
  const auto prompt = cost.explain(prefill(100));
  EXPECT_DOUBLE_EQ(at(prompt, Kernel::kPrefillAttention).flops, 2.0 * 16 * (192 + 128) * 5050 * 27);
}

// DeepSeek-V3 decodes in the latent space: 128 heads over 576 and 512 dimensions, one row of the
// cache.
TEST(CostModel, DeepSeekV3ByHand) {
  const CostModel cost = make(test::kDeepSeekV3, h100());
  const auto kernels = cost.explain(decodes(4, 1000));
  EXPECT_DOUBLE_EQ(at(kernels, Kernel::kDecodeAttention).flops,
                   2.0 * 128 * (576 + 512) * 4000 * 61);
  EXPECT_NEAR(at(kernels, Kernel::kDecodeAttention).read_bytes, 4000 * 70272.0, 6e7);
  EXPECT_NEAR(at(kernels, Kernel::kExperts).flops, 58 * 4 * 8 * 2.0 * 3 * 7168 * 2048, 1e4);
  const auto prompt = cost.explain(prefill(100));
  EXPECT_DOUBLE_EQ(at(prompt, Kernel::kPrefillAttention).flops,
                   2.0 * 128 * (192 + 128) * 5050 * 61);
}

// DeepSeek-V3 with an indexer of 64 heads of 128 that scores all tokens, of which 2048 are read.
TEST(CostModel, IndexersByHand) {
  ModelShape model = test::model_of(test::kDeepSeekV3);
  for (LayerGroup& group : model.groups)
    group.attention.index = {.top_k = 2048, .num_heads = 64, .head_dim = 128};
  EXPECT_EQ(model.windows(), std::vector<int32_t>{2048});
  EXPECT_DOUBLE_EQ(model.kv_bytes_per_token(), 61 * (576 + 128) * 2.0);
  const auto read = parse_model_description(to_json(model), "shape");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->groups[0].attention, model.groups[0].attention);
  const CostModel cost = CostModel::create(model, h100(), {}, {}).value();
  const auto kernels = cost.explain(decodes(2, 10000, cost.windows()));
  EXPECT_DOUBLE_EQ(at(kernels, Kernel::kDecodeAttention).flops,
                   61 * (2.0 * 128 * (576 + 512) * 4096 + 2.0 * 64 * 128 * 20000));
  EXPECT_NEAR(at(kernels, Kernel::kDecodeAttention).read_bytes,
              61 * 2.0 * (4096 * 576 + 20000 * 128), 6e7);
}

TEST(CostModel, MixtralAndGptOssExpertsByHand) {
  const auto mixtral = make(test::kMixtral8x7B, h100()).explain(decodes(3, 10));
  EXPECT_NEAR(at(mixtral, Kernel::kExperts).flops, 32 * 3 * 2 * 2.0 * 3 * 4096 * 14336, 1e3);
  const CostModel oss = make(test::kGptOss120B, h100());
  const auto kernels = oss.explain(decodes(1, 5000, oss.windows()));
  EXPECT_NEAR(at(kernels, Kernel::kExperts).flops, 36 * 4 * 2.0 * 3 * 2880 * 2880, 1e3);
  // Half of the layers see 128 keys.
  EXPECT_DOUBLE_EQ(at(kernels, Kernel::kDecodeAttention).flops, 4.0 * 64 * 64 * 18 * (5000 + 128));
}

TEST(CostModel, TensorParallelHalvesAndCommunicates) {
  const CostModel one = make(test::kLlama31_8B, h100());
  const CostModel two = make(test::kLlama31_8B, h100(), {.tp = 2});
  const StepShape step = decodes(8, 1000);
  EXPECT_EQ(at(one.explain(step), Kernel::kAllReduce).predicted_us, 0);
  EXPECT_GT(at(two.explain(step), Kernel::kAllReduce).predicted_us, 2 * 32 * 4);
  EXPECT_DOUBLE_EQ(at(two.explain(step), Kernel::kMlp).flops,
                   at(one.explain(step), Kernel::kMlp).flops / 2);
  EXPECT_DOUBLE_EQ(at(two.explain(step), Kernel::kDecodeAttention).flops,
                   at(one.explain(step), Kernel::kDecodeAttention).flops / 2);
  EXPECT_LT(two.predict_us(step), one.predict_us(step));
  EXPECT_LT(two.bound_us(step), one.bound_us(step));
}

TEST(CostModel, KvHeadsPerRankNeverBelowOne) {
  const CostModel cost = make(test::kQwen3_30B_A3B, h100(), {.tp = 8});  // 4 KV heads
  EXPECT_NEAR(at(cost.explain(decodes(1, 1000)), Kernel::kDecodeAttention).read_bytes,
              1000 * 48 * 2 * 128 * 2.0, 1e5);
}

TEST(CostModel, AllExpertsActiveIsDense) {
  ModelShape sparse = model_of(test::kQwen3_30B_A3B);
  FfnShape& ffn = sparse.groups[0].ffn;
  ffn.num_experts = ffn.experts_per_token = 8;
  ModelShape dense = sparse;
  dense.groups[0].ffn = {.intermediate_size = 8 * 768};
  const CostModel a = CostModel::create(sparse, h100(), {}, {.max_memoised_tokens = 8}).value();
  const CostModel b = CostModel::create(dense, h100(), {}, {.max_memoised_tokens = 8}).value();
  const auto experts = at(a.explain(prefill(512)), Kernel::kExperts);
  const auto mlp = at(b.explain(prefill(512)), Kernel::kMlp);
  EXPECT_NEAR(experts.flops, mlp.flops, 1e-9 * mlp.flops);
  const double weights = 48 * 3.0 * 2048 * 6144 * 2;
  EXPECT_GE(experts.read_bytes, weights);
  EXPECT_GE(mlp.read_bytes, weights);
}

TEST(CostModel, TermsSumToTheTotal) {
  for (const CombinationRule rule : {CombinationRule::kSum, CombinationRule::kMax,
                                     CombinationRule::kMaxPlusMin, CombinationRule::kMarginal}) {
    Hardware hardware = h100();
    hardware.rule = rule;
    hardware.lambda = 0.5;
    const CostModel cost = make(test::kLlama31_8B, hardware, {.tp = 2});
    StepShape step = decodes(16, 2000);
    step.add(500, 700, false, {});
    const StepCost total = cost.predict(step);
    EXPECT_NEAR(std::accumulate(total.terms.begin(), total.terms.end(), 0.0), total.total_us,
                1e-6 * total.total_us);
    EXPECT_NEAR(cost.predict_us(step), total.total_us, 1e-9 * total.total_us);
    EXPECT_NEAR(cost.bound_us(step), total.bound_us, 1e-9 * total.bound_us);
    EXPECT_LE(total.bound_us, total.total_us);
  }
}

TEST(CostModel, RulesAreOrdered) {
  StepShape step = decodes(64, 3000);
  step.add(1000, 512, false, {});
  const auto with = [&](CombinationRule rule, double lambda) {
    Hardware hardware = h100();
    hardware.rule = rule;
    hardware.lambda = lambda;
    return make(test::kLlama31_8B, hardware).predict_us(step);
  };
  const double overlapped = with(CombinationRule::kMax, 0);
  const double phases = with(CombinationRule::kMaxPlusMin, 1);
  EXPECT_DOUBLE_EQ(with(CombinationRule::kMaxPlusMin, 0), overlapped);
  EXPECT_LT(overlapped, with(CombinationRule::kSum, 0));
  EXPECT_LT(with(CombinationRule::kSum, 0), phases);  // phases read the weights twice
  EXPECT_LT(with(CombinationRule::kMarginal, 0), with(CombinationRule::kSum, 0));
}

TEST(CostModel, BoundIsNeverAbovePrediction) {
  for (const std::string& name : known_hardware()) {
    for (const char* config :
         {test::kLlama31_8B, test::kQwen3_30B_A3B, test::kDeepSeekV2Lite, test::kGemma2_9B}) {
      const Hardware hardware = find_hardware(name).value();
      const CostModel cost = make(config, hardware);
      for (const int32_t count : {1, 7, 64, 300}) {
        for (const int32_t context : {1, 100, 5000}) {
          StepShape step = decodes(count, context, cost.windows());
          EXPECT_LE(cost.bound_us(step), cost.predict_us(step)) << name;
          step.add(context, 333, true, cost.windows());
          EXPECT_LE(cost.bound_us(step), cost.predict_us(step)) << name;
        }
      }
    }
  }
}

TEST(CostModel, BoundFidelityIsTheBound) {
  const CostModel bound = make(test::kLlama31_8B, h100(), {},
                               {.fidelity = Fidelity::kBound, .max_memoised_tokens = 64});
  const StepShape step = decodes(5, 700);
  EXPECT_DOUBLE_EQ(bound.predict_us(step), bound.bound_us(step));
  EXPECT_DOUBLE_EQ(bound.bound_us(step), make(test::kLlama31_8B, h100()).bound_us(step));
}

TEST(CostModel, DecodesThatFollowEachOtherHaveTheBitsOfSingleSteps) {
  std::vector<ModelShape> models = {model_of(test::kGemma2_9B), model_of(test::kDeepSeekV3),
                                    hybrid_model()};
  for (LayerGroup& group : models[1].groups)
    group.attention.index = {.top_k = 2048, .num_heads = 64, .head_dim = 128};
  for (const ModelShape& model : models) {
    for (const Fidelity fidelity : {Fidelity::kAnalytic, Fidelity::kBound}) {
      const CostModel cost =
          CostModel::create(model, h100(), {}, {.fidelity = fidelity, .max_memoised_tokens = 8})
              .value();
      const std::vector<int32_t>& windows = cost.windows();
      // The context of one request crosses tiles of keys, that of the other stays within the
      // window.
      StepShape step;
      step.add(60, 1, true, windows);
      step.add(9000, 1, true, windows);
      StepShape alone = step;
      const std::vector<int32_t> num_inside(windows.size(), 1);
      std::array<double, 9> us;
      for (int part = 0; part < 2; ++part) {
        cost.predict_decodes_us(step, num_inside, us);
        for (const double each : us) {
          EXPECT_EQ(each, cost.predict_us(alone));
          alone.decode.context += 2;
          for (size_t w = 0; w < windows.size(); ++w) ++alone.decode.windowed[w];
        }
      }
      EXPECT_EQ(step.decode.context, alone.decode.context);
    }
  }
}

TEST(CostModel, MoreWorkIsNeverCheaperInTheBound) {
  const CostModel cost = make(test::kLlama31_8B, h100());
  for (const int32_t n : {1, 2, 4, 8, 16, 32, 64, 128}) {
    EXPECT_LE(cost.bound_us(decodes(n, 500)), cost.bound_us(decodes(n + 1, 500)));
    EXPECT_LE(cost.bound_us(decodes(n, 500)), cost.bound_us(decodes(n, 501)));
    EXPECT_LE(cost.bound_us(prefill(16 * n)), cost.bound_us(prefill(16 * n + 1)));
    EXPECT_LE(cost.predict_us(decodes(n, 500)), cost.predict_us(decodes(n, 1000)));
    EXPECT_LE(cost.predict_us(decodes(n, 500)), cost.predict_us(decodes(2 * n, 500)));
  }
}

TEST(CostModel, HalvingBandwidthNeverSpeedsUp) {
  Hardware slow = h100();
  slow.memory_bytes_per_s /= 2;
  const CostModel fast_cost = make(test::kLlama31_8B, h100());
  const CostModel slow_cost = make(test::kLlama31_8B, slow);
  for (const StepShape& step : {decodes(1, 10), decodes(100, 4000), prefill(2048), prefill(16)}) {
    EXPECT_GE(slow_cost.predict_us(step), fast_cost.predict_us(step));
    EXPECT_GE(slow_cost.bound_us(step), fast_cost.bound_us(step));
  }
}

TEST(CostModel, GraphPaddingIsAStaircase) {
  Hardware hardware = h100();
  hardware.host.graph_sizes = {8, 16};
  const CostModel cost = make(test::kLlama31_8B, hardware);
  const auto linear_us = [&](int32_t n) {
    return at(cost.explain(decodes(n, 100)), Kernel::kMlp).predicted_us;
  };
  EXPECT_EQ(linear_us(9), linear_us(16));
  EXPECT_EQ(cost.bound_us(decodes(9, 100)),
            make(test::kLlama31_8B, h100()).bound_us(decodes(9, 100)));
}

TEST(CostModel, PipelineStagesShareTheLayers) {
  const CostModel cost = make(test::kLlama31_8B, h100(), {.pp = 4});
  const StepCost step = cost.predict(decodes(8, 1000));
  EXPECT_LT(step.stage_us, 0.5 * step.total_us);
  EXPECT_GT(step.total_us, make(test::kLlama31_8B, h100()).predict_us(decodes(8, 1000)));
}

// On a CPU, time fitted as the host's is work of the layers, so stages divide it; a GPU's host does
// all of it for each stage.
TEST(CostModel, StagesOfACpuDivideTheHostTime) {
  Hardware hardware = h100();
  hardware.host = {.step_us = 50'000};
  const StepCost of_gpu = make(test::kLlama31_8B, hardware, {.pp = 2}).predict(decodes(8, 1000));
  EXPECT_GT(of_gpu.stage_us, 50'000);
  hardware.cpu = true;
  const StepCost of_cpu = make(test::kLlama31_8B, hardware, {.pp = 2}).predict(decodes(8, 1000));
  EXPECT_NEAR(of_cpu.stage_us, 0.5 * of_cpu.total_us, 0.08 * of_cpu.total_us);
}

// The head of Llama 3.1 8B has as many parameters as 2.4 of its layers.
TEST(CostModel, TheHeadCountsAsLayersOfTheLastStage) {
  const ModelShape model = model_of(test::kLlama31_8B);
  EXPECT_EQ(deal_layers(model, 1).last, 32);
  EXPECT_EQ(deal_layers(model, 4).before_last, 9);
  EXPECT_EQ(deal_layers(model, 4).last, 6);
  EXPECT_EQ(deal_layers(model, 32).most(), 1);
}

TEST(CostModel, WhatIfsPayOffWhereTheyShould) {
  const Hardware hardware = h100();
  const ModelShape base = model_of(test::kLlama31_8B);
  const auto us = [&](const ModelShape& model, const StepShape& step) {
    return CostModel::create(model, hardware, {}, {.max_memoised_tokens = 4})
        .value()
        .predict_us(step);
  };
  const ModelShape int4 = with_weights(base, *parse_number_format("int4"));
  const ModelShape fp8_kv = with_kv(base, *parse_number_format("fp8"));
  EXPECT_LT(us(int4, decodes(1, 100)), 0.6 * us(base, decodes(1, 100)));
  EXPECT_LT(us(fp8_kv, decodes(64, 16000)), 0.8 * us(base, decodes(64, 16000)));
}

TEST(CostModel, SmallModelsLiveInTheCache) {
  Hardware cpu = find_hardware("cpu-avx512").value();
  const char* config =
      R"({"model_type": "llama", "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
      "vocab_size": 1000, "intermediate_size": 256})";
  const double cached = make(config, cpu).bound_us(decodes(1, 10));
  cpu.cache_bytes = 0;
  EXPECT_LT(cached, 0.5 * make(config, cpu).bound_us(decodes(1, 10)));
}

TEST(CostModel, RefusesWhatCannotBe) {
  const ModelShape model = model_of(test::kLlama31_8B);
  EXPECT_FALSE(CostModel::create(model, h100(), {.tp = 3}).ok());
  EXPECT_FALSE(CostModel::create(model, h100(), {.pp = 33}).ok());
  EXPECT_FALSE(CostModel::create(model, Hardware()).ok());
  EXPECT_FALSE(CostModel::create(model, find_hardware("cpu-avx2").value(), {.tp = 2}).ok());
  EXPECT_FALSE(CostModel::create(model, h100(), {}, {.fidelity = Fidelity::kTable}).ok());
}

TEST(StepShape, SumsContextsUnderAWindow) {
  const std::vector<int32_t> windows = {100};
  StepShape step = decodes(3, 150, windows);
  step.add(49, 1, true, windows);
  EXPECT_EQ(step.decode.windowed[0], 350);
  EXPECT_EQ(step.decode.context, 500);
  EXPECT_EQ(step.num_requests, 4);
  EXPECT_EQ(step.num_sampled, 4);
}

TEST(StepShape, FromAPlan) {
  StepPlan plan;
  plan.scheduled = {{RequestId(1), 100, 1}, {RequestId(2), 0, 64}, {RequestId(3), 64, 32}};
  StepShape step;
  const std::vector<int32_t> known = {101, 200, 96};
  assign(step, plan, {}, known);
  EXPECT_EQ(step.num_tokens, 97);
  EXPECT_EQ(step.num_sampled, 2);
  EXPECT_EQ(step.decode.context, 101);
  ASSERT_EQ(step.chunks.size(), 2u);
  EXPECT_EQ(step.chunks[1].context, 64);
}

// Decodes in a launch with a chunk are chunks of one token: tiles of 64 rows over 1024 keys, for 32
// heads of 128 requests, at the rate of prompt attention. Measured (RTX PRO 6000, one layer of
// Llama-3.1-8B, LLMServingSim's profile): 672 us for 16 prompt tokens and these decodes together,
// 413 us for separate launches.
TEST(KernelTime, DecodesInALaunchWithAChunkArePaddedTiles) {
  const Hardware hardware = find_hardware("rtx-pro-6000").value();
  const AttentionWork work{.num_heads = 32,
                           .num_kv_heads = 8,
                           .qk_dim = 128,
                           .v_dim = 128,
                           .kv_bytes_per_token = 2 * 8 * 128 * 2,
                           .kv = {16, MathType::kBf16}};
  const std::vector<PromptChunk> chunks = {{16, 0}};
  const double keys = 128 * 1024;
  const KernelTime alone = decode_attention_time(work, 128, keys, hardware);
  const KernelTime joined = joined_decode_time(work, chunks, 128, keys, hardware);
  EXPECT_EQ(joined.flops, alone.flops);
  EXPECT_EQ(joined.bound_us, alone.bound_us);
  EXPECT_GT(joined.predicted_us, 1.2 * alone.predicted_us);
  EXPECT_NEAR(joined.predicted_us + prefill_attention_time(work, chunks, hardware).predicted_us,
              672, 0.1 * 672);
  EXPECT_EQ(joined_decode_time(work, {}, 128, keys, hardware).predicted_us, alone.predicted_us);
}

TEST(CostModel, MixedStepsOfOneLaunchCostMoreThanTheirParts) {
  Hardware hardware = find_hardware("rtx-4090").value();
  const AttentionWork bf16{.kv = {16, MathType::kBf16}};
  ASSERT_TRUE(shares_attention_launch(hardware, bf16));
  EXPECT_FALSE(shares_attention_launch(h100(), bf16));
  const ModelShape model = test::model_of(test::kLlama31_8B);
  StepShape chunk, mixed = decodes(64, 1500), crowd = decodes(64, 1500);
  chunk.add(0, 300, true, {});
  mixed.add(0, 300, true, {});
  const CostModel cost = CostModel::create(model, hardware).value();
  EXPECT_NEAR(cost.predict(mixed).total_us, cost.predict_us(mixed), 1e-6);
  const auto attention_us = [&](const StepShape& step) {
    const auto costs = cost.explain(step);
    return costs[static_cast<size_t>(Kernel::kPrefillAttention)].predicted_us +
           costs[static_cast<size_t>(Kernel::kDecodeAttention)].predicted_us;
  };
  EXPECT_GT(attention_us(mixed), 1.2 * (attention_us(chunk) + attention_us(crowd)));
}

}  // namespace
}  // namespace quire
