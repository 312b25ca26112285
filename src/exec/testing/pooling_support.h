// Runs tiny random models for pooling on any executor, and reads what transformers computes for
// their cases (tools/make_pooling_goldens.py).
#pragma once

#include <boost/json.hpp>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/executor.h"
#include "nn/spec/pooling_spec.h"

namespace quire::test {

struct PoolingCase {
  std::vector<TokenId> ids;
  PoolingParams params;
  std::vector<std::vector<float>> rows;
  std::shared_ptr<const Adapter> adapter = {};
};

// "gguf_bert_mean" is the GGUF file of "bert_mean".
inline constexpr std::string_view kGguf = "gguf_";
std::filesystem::path pooling_dir(const std::string& name);
boost::json::value read_pooling_golden(const std::string& name);
std::vector<PoolingCase> parse_cases(const boost::json::value& list, const PoolingSpec& pooling);
std::vector<PoolingCase> read_cases(const std::string& name, const PoolingSpec& pooling);

struct PoolingRun {
  int32_t chunk = 1 << 20;  // tokens of a request per step, for models that allow chunks
  bool together = false;    // all requests in one step, in reverse order
  bool use_activation = true;
  int32_t dimensions = 0;
};
// Returns what the model computes for each case.
std::vector<PooledOutput> run_pooling(Executor& runner, std::vector<PoolingCase> cases,
                                      const PoolingRun& options);

double cosine(std::span<const float> a, std::span<const float> b);
// The worst values over all rows.
struct Distance {
  double difference = 0.0;
  double cosine = 1.0;
};
Distance distance(const std::vector<PoolingCase>& cases, const std::vector<PooledOutput>& outputs);

}  // namespace quire::test
