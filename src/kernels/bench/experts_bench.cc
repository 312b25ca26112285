// Measures the experts of a layer, chosen evenly.
#include <fmt/format.h>

#include <memory>
#include <random>
#include <span>

#include "kernels/api/experts.h"
#include "kernels/bench/cases.h"
#include "kernels/bench/model_bench.h"
#include "kernels/testing/quant_cases.h"

namespace quire::bench {
namespace {

using kernel_cases::NamedExperts;

// One layer's experts. One layer is enough, since it is larger than the caches.
class ExpertLayer {
 public:
  ExpertLayer(HostStream& stream, const NamedExperts& shape, const WeightSpec& kind)
      : up_(spec_of(kind, shape.inside, shape.hidden)),
        down_(spec_of(kind, shape.hidden, shape.inside)),
        up_bytes_(cpu::round_up(packed_weight_bytes(up_), 4096)),
        down_bytes_(cpu::round_up(packed_weight_bytes(down_), 4096)),
        memory_(shape.num_experts * (2 * up_bytes_ + down_bytes_)),
        weights_(3 * static_cast<size_t>(shape.num_experts)) {
    fill(stream, memory_.data(), shape.num_experts * (2 * up_bytes_ + down_bytes_));
    uint8_t* at = memory_.data();
    const auto take = [&](PackedWeight& weight, const WeightSpec& spec, int64_t bytes) {
      weight = {spec, at};
      at += bytes;
      return &weight;
    };
    for (size_t i = 0; i < weights_.size(); i += 3) {
      experts_.push_back({.gate = take(weights_[i], up_, up_bytes_),
                          .up = take(weights_[i + 1], up_, up_bytes_),
                          .down = take(weights_[i + 2], down_, down_bytes_)});
    }
  }

  std::span<const ExpertWeights> experts() const { return experts_; }
  int64_t expert_bytes() const { return 2 * packed_weight_bytes(up_) + packed_weight_bytes(down_); }

 private:
  static WeightSpec spec_of(const WeightSpec& kind, int64_t n, int64_t k) {
    WeightSpec spec = kind;
    spec.n = n;
    spec.k = k;
    return spec;
  }

  WeightSpec up_, down_;
  int64_t up_bytes_, down_bytes_;
  Mapping memory_;
  std::vector<PackedWeight> weights_;
  std::vector<ExpertWeights> experts_;
};

// Sets of experts that tokens choose at random and evenly; calls rotate over several sets.
class Choices {
 public:
  static constexpr int64_t kCount = 16;

  Choices(const NamedExperts& shape, int64_t num_tokens)
      : size_(num_tokens * shape.per_token), ids_(static_cast<size_t>(kCount * size_)) {
    std::mt19937 random(1);
    std::vector<int32_t> all(static_cast<size_t>(shape.num_experts));
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
    for (auto at = ids_.begin(); at != ids_.end(); at += shape.per_token) {
      std::shuffle(all.begin(), all.end(), random);
      std::copy_n(all.begin(), shape.per_token, at);
    }
    for (int64_t i = 0; i < kCount; ++i) {
      std::vector<bool> chosen(all.size());
      for (int64_t j = 0; j < size_; ++j) chosen[static_cast<size_t>(of(i)[j])] = true;
      num_chosen_ += static_cast<double>(std::count(chosen.begin(), chosen.end(), true)) / kCount;
    }
  }

  const int32_t* of(int64_t call) const { return ids_.data() + call % kCount * size_; }
  double mean_experts() const { return num_chosen_; }

 private:
  int64_t size_;
  std::vector<int32_t> ids_;
  double num_chosen_ = 0;
};

void bench_layer(BenchRows& rows, const NamedExperts& shape, const std::string& type,
                 const WeightSpec& kind) {
  static const std::vector<int64_t> kTokens = {1, 16, 128, 512};
  const std::string prefix = fmt::format("experts {} {}", shape.name, type);
  if (!rows.may_be_wanted(prefix)) return;
  HostStream& stream = rows.stream();
  const ExpertLayer layer(stream, shape, kind);
  for (const int64_t tokens : rows.row_counts(kTokens)) {
    const Choices choices(shape, tokens);
    std::vector<float> x(static_cast<size_t>(tokens * shape.hidden), 0.01f), out(x.size()),
        shares(static_cast<size_t>(tokens * shape.per_token), 0.1f);
    const Mapping workspace(
        experts_workspace_bytes(stream, tokens, layer.experts(), shape.per_token));
    const BenchWork work{
        fmt::format("{} m={}", prefix, tokens),
        choices.mean_experts() * static_cast<double>(layer.expert_bytes()),
        6.0 * static_cast<double>(tokens * shape.per_token * shape.hidden * shape.inside),
        rows.peak_of(kind.compute)};
    rows.measure(work, [&](int i) {
      run_experts(stream, {.x = x.data(),
                           .experts = layer.experts(),
                           .expert_ids = choices.of(i),
                           .expert_weights = shares.data(),
                           .experts_per_token = shape.per_token,
                           .out = out.data(),
                           .num_tokens = tokens,
                           .workspace = workspace.data()});
    });
  }
}

}  // namespace

void bench_experts(BenchRows& rows) {
  for (const NamedExperts& shape : kernel_cases::model_experts()) {
    bench_layer(rows, shape, kernel_cases::name_of(DType::kBF16, ComputeType::kBF16),
                {.dtype = DType::kBF16, .compute = ComputeType::kBF16});
    for (const auto& format : kernel_cases::quant_formats()) {
      if (!format.in_benchmark) continue;
      bench_layer(rows, shape, format.name, {.compute = ComputeType::kBF16, .quant = format.spec});
    }
  }
}

}  // namespace quire::bench
