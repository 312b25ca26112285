// Embedders, rerankers and classifiers that are decoders, on a GPU: values against transformers
// (tools/make_pooling_goldens.py), and law L4 for pooled outputs.
#include "exec/testing/gpu_runner_test_support.h"
#include "exec/testing/pooling_support.h"

namespace quire {
namespace {

using test::PoolingCase;

class GpuPooling : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const auto device = gpu_test::open_test_device();
    if (!device.ok()) GTEST_SKIP() << "SKIPPED: " << device.status().message();
  }
};

Result<std::unique_ptr<GpuRunner>> load(const std::string& name) {
  QUIRE_ASSIGN_OR_RETURN(ModelFiles files, ModelFiles::open(test::pooling_dir(name).string()));
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, gpu_test::open_test_device());
  QUIRE_ASSIGN_OR_RETURN(
      std::unique_ptr<GpuRunner> runner,
      GpuRunner::create({.files = std::make_shared<const ModelFiles>(std::move(files)),
                         .threads = 1,
                         .max_num_batched_tokens = 256,
                         .max_num_seqs = 24,
                         .kv_cache_memory_bytes = int64_t{4} << 20},
                        {}, std::move(device)));
  QUIRE_RETURN_IF_ERROR(runner->initialize({.num_blocks = 256}));
  QUIRE_RETURN_IF_ERROR(runner->warm_up());
  return runner;
}

// Rows stay within the cosine that bf16 reaches on a CPU. They have equal bits alone, in a crowd,
// in chunks, and in steps whose graphs are captured.
TEST_P(GpuPooling, IsTheOraclesInAnyCompany) {
  auto runner = load(GetParam());
  ASSERT_TRUE(runner.ok()) << runner.status().message();
  const ExecutorInfo info = (*runner)->info();
  EXPECT_FALSE(info.generates);
  EXPECT_GT(info.pooling.embedding_size + info.pooling.num_labels, 0);
  EXPECT_EQ((*runner)->max_steps_in_flight(), 1);
  const auto cases = test::read_cases(GetParam(), (*runner)->model().plan().spec.pooling);
  const auto first = test::run_pooling(**runner, cases, {});
  EXPECT_GE(test::distance(cases, first).cosine, 0.995);
  for (const test::PoolingRun& how :
       {test::PoolingRun{.together = true}, test::PoolingRun{.chunk = 5}}) {
    const auto outputs = test::run_pooling(**runner, cases, how);
    for (size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_EQ(outputs[i].values, first[i].values)
          << "together " << how.together << ", chunk " << how.chunk << ", case " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Decoders, GpuPooling,
                         ::testing::Values("llama_reranker", "llama_tagger", "mistral_mean",
                                           "qwen2_classifier", "qwen2_reward", "qwen2_step_rewards",
                                           "qwen3_last", "qwen3_reranker"),
                         [](const auto& info) { return info.param; });

TEST(GpuPoolingSupport, RefusesWhatSeesBothWays) {
  const auto device = gpu_test::open_test_device();
  if (!device.ok()) GTEST_SKIP() << "SKIPPED: " << device.status().message();
  for (const char* name : {"bert_mean", "embedding_gemma"}) {
    const auto runner = load(name);
    ASSERT_FALSE(runner.ok());
    EXPECT_EQ(runner.status().code(), StatusCode::kUnimplemented) << runner.status().message();
  }
}

}  // namespace
}  // namespace quire
