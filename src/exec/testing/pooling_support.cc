#include "exec/testing/pooling_support.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/test_data.h"

namespace quire::test {
namespace {

namespace fs = std::filesystem;

PoolingTask own_task(const PoolingSpec& pooling) {
  if (!pooling.classifies) return PoolingTask::kEmbed;
  return pooling.per_token ? PoolingTask::kTokenClassify : PoolingTask::kClassify;
}

// Adds the next `num_tokens` tokens of the case to the plan, in blocks of its own.
void schedule(const Executor& runner, const PoolingCase& one, size_t index, int32_t computed,
              int32_t num_tokens, StepPlan& plan) {
  const RequestId id(index + 1);
  const auto length = static_cast<int32_t>(one.ids.size());
  if (computed == 0) {
    plan.new_requests.push_back({.id = id,
                                 .token_ids = one.ids,
                                 .num_prompt_tokens = length,
                                 .params = std::make_shared<SamplingParams>(),
                                 .kind = RequestKind::kPool,
                                 .adapter = one.adapter,
                                 .pooling = std::make_shared<PoolingParams>(one.params)});
    const auto num_groups = static_cast<int32_t>(runner.kv_spec().groups.size());
    for (int32_t group = 0; group < num_groups; ++group) {
      for (int32_t block = 0; block < (length + 15) / 16; ++block) {
        plan.block_updates.push_back(
            {.request_index = static_cast<int32_t>(plan.scheduled.size()),
             .group = group,
             .logical_index = block,
             .block = BlockId(1 + static_cast<int32_t>(index) * 8 + group * 4 + block)});
      }
    }
  }
  plan.scheduled.push_back(
      {.id = id, .num_computed_tokens = computed, .num_scheduled_tokens = num_tokens});
  plan.total_num_scheduled_tokens += num_tokens;
}

}  // namespace

fs::path pooling_dir(const std::string& name) {
  return source_dir() / "tests" / "goldens" / "pooling" /
         (name.starts_with(kGguf) ? name.substr(kGguf.size()) : name);
}

boost::json::value read_pooling_golden(const std::string& name) {
  return boost::json::parse(read_file(pooling_dir(name) / "golden.json"));
}

std::vector<PoolingCase> parse_cases(const boost::json::value& list, const PoolingSpec& pooling) {
  std::vector<PoolingCase> cases;
  for (const boost::json::value& one : list.as_array()) {
    PoolingCase& added = cases.emplace_back();
    added.ids = boost::json::value_to<std::vector<TokenId>>(one.at("ids"));
    added.params.task = own_task(pooling);
    added.params.first_type_1_token = static_cast<int32_t>(one.at("first_type_1_token").as_int64());
    for (const boost::json::value& row : one.at("rows").as_array())
      added.rows.push_back(boost::json::value_to<std::vector<float>>(row));
  }
  return cases;
}

std::vector<PoolingCase> read_cases(const std::string& name, const PoolingSpec& pooling) {
  return parse_cases(read_pooling_golden(name).at("cases"), pooling);
}

std::vector<PooledOutput> run_pooling(Executor& runner, std::vector<PoolingCase> cases,
                                      const PoolingRun& options) {
  std::vector<PooledOutput> outputs(cases.size());
  for (PoolingCase& one : cases) {
    one.params.use_activation = options.use_activation;
    one.params.dimensions = options.dimensions;
  }
  const auto execute = [&](const StepPlan& plan) {
    auto result = runner.execute(plan);
    ASSERT_TRUE(result.ok()) << result.status().message();
    for (RequestStepResult& request : result->requests) {
      ASSERT_TRUE(request.status.ok()) << request.status.message();
      outputs[request.id.value - 1] = std::move(request.pooled);
    }
  };
  StepPlan plan;
  if (options.together) {
    for (size_t i = cases.size(); i-- > 0;)
      schedule(runner, cases[i], i, 0, static_cast<int32_t>(cases[i].ids.size()), plan);
    execute(plan);
    return outputs;
  }
  const bool whole = runner.info().pooling.is_bidirectional;
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto length = static_cast<int32_t>(cases[i].ids.size());
    for (int32_t done = 0; done < length;) {
      const int32_t count = whole ? length : std::min(options.chunk, length - done);
      plan.clear();
      schedule(runner, cases[i], i, done, count, plan);
      execute(plan);
      done += count;
    }
  }
  return outputs;
}

double cosine(std::span<const float> a, std::span<const float> b) {
  double ab = 0.0, aa = 0.0, bb = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += double{a[i]} * b[i];
    aa += double{a[i]} * a[i];
    bb += double{b[i]} * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

Distance distance(const std::vector<PoolingCase>& cases, const std::vector<PooledOutput>& outputs) {
  Distance worst;
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(outputs[i].num_rows(), std::ssize(cases[i].rows)) << "case " << i;
    const auto columns = static_cast<size_t>(outputs[i].num_columns);
    for (size_t row = 0; row < cases[i].rows.size(); ++row) {
      const std::vector<float>& want = cases[i].rows[row];
      EXPECT_EQ(want.size(), columns);
      if (want.size() != columns || outputs[i].values.size() < (row + 1) * columns) return {1, 0};
      const std::span<const float> got(outputs[i].values.data() + row * columns, columns);
      for (size_t k = 0; k < columns; ++k)
        worst.difference = std::max(worst.difference, double{std::fabs(got[k] - want[k])});
      worst.cosine = std::min(worst.cosine, cosine(got, want));
    }
  }
  return worst;
}

}  // namespace quire::test
