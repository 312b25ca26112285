#include "weights/latent_heads.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "kernels/quant_rows.h"
#include "weights/names/name_prefix.h"
#include "weights/quant/quant_matrix.h"
#include "weights/tensors/element.h"

namespace quire {
namespace {

constexpr std::string_view kKeyEnd = ".{e}.k";
constexpr std::string_view kWeight = ".weight";
constexpr int64_t kRowsAtOnce = 128;

// Returns the patterns of modules that hold all heads: "layers.{}.self_attn.kv_b_proj".
std::vector<std::string_view> patterns_of(const NameMap& names) {
  std::vector<std::string_view> patterns;
  for (const NameMapEntry& entry : names.entries) {
    if (entry.role != TensorRole::kLatentKeyUp || !entry.pattern.ends_with(kKeyEnd)) continue;
    patterns.push_back(entry.pattern.substr(0, entry.pattern.size() - kKeyEnd.size()));
  }
  if (!patterns.empty() || names.base == nullptr) return patterns;
  return patterns_of(*names.base);
}

// Returns whether the name of `module` matches the pattern in any layer.
bool matches(std::string_view module, std::string_view pattern, std::string_view trunk) {
  const size_t hole = pattern.find("{}");
  if (!module.starts_with(trunk)) return false;
  module.remove_prefix(trunk.size());
  if (!module.starts_with(pattern.substr(0, hole))) return false;
  module.remove_prefix(hole);
  module.remove_prefix(std::min(module.find_first_not_of("0123456789"), module.size()));
  return module == pattern.substr(hole + 2);
}

class Splitter {
 public:
  Splitter(const TensorSource& source, const QuantConfig& quantization, const LatentHeads& heads)
      : source_(source),
        quantization_(quantization),
        heads_(heads),
        rows_(heads.num_heads * (heads.key_rows + heads.value_rows)) {}

  Status split(const std::string& module) {
    if (is_quantized_module(source_, module)) return split_quantized(module);
    const RawTensor* tensor = source_.find(module + std::string(kWeight));
    if (tensor == nullptr) return {};
    if (tensor->shape != std::vector<int64_t>{rows_, heads_.rank}) {
      return invalid_argument("tensor '{}': expected shape [{}, {}], got [{}]", tensor->name, rows_,
                              heads_.rank, fmt::join(tensor->shape, ", "));
    }
    replaced_.insert(tensor->name);
    add(module, *tensor);
    return {};
  }

  SplitSource take() {
    std::vector<RawTensor> tensors = std::move(parts_);
    for (const RawTensor& tensor : source_.tensors()) {
      if (!replaced_.contains(tensor.name)) tensors.push_back(tensor);
    }
    return {TensorSource(std::move(tensors)), std::move(memory_)};
  }

 private:
  Status split_quantized(const std::string& module) {
    QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<QuantMatrix> matrix,
                           open_quant_matrix(source_, quantization_, module, {rows_, heads_.rank}));
    if (matrix->spec().has_column_order) {
      return unimplemented("module '{}': quantized columns in an order of their own cannot be read",
                           module);
    }
    const auto bytes = static_cast<size_t>(rows_ * heads_.rank * size_bytes(DType::kBF16));
    memory_.push_back(std::make_unique<std::byte[]>(bytes));
    std::byte* to = memory_.back().get();
    const WeightSpec spec{.n = rows_, .k = heads_.rank, .quant = matrix->spec()};
    QuantRowBuffer rows(matrix->spec(), heads_.rank, kRowsAtOnce);
    std::vector<float> values(static_cast<size_t>(kRowsAtOnce * heads_.rank));
    for (int64_t row = 0; row < rows_; row += kRowsAtOnce) {
      const int64_t count = std::min(kRowsAtOnce, rows_ - row);
      QUIRE_RETURN_IF_ERROR(matrix->read_rows(row, count, rows.at(0)));
      dequantize_rows(spec, rows.view(0, count), values.data());
      for (int64_t i = 0; i < count * heads_.rank; ++i) {
        write_element(to, DType::kBF16, row * heads_.rank + i, values[static_cast<size_t>(i)]);
      }
    }
    for (const RawTensor* tensor : matrix->tensors()) replaced_.insert(tensor->name);
    add(module, {.name = {},
                 .type_name = "BF16",
                 .dtype = DType::kBF16,
                 .shape = {rows_, heads_.rank},
                 .data = {to, bytes}});
    return {};
  }

  void add(const std::string& module, const RawTensor& whole) {
    const size_t row_bytes = whole.data.size() / static_cast<size_t>(rows_);
    size_t at = 0;
    for (int64_t head = 0; head < heads_.num_heads; ++head) {
      for (const char side : {'k', 'v'}) {
        const int64_t count = side == 'k' ? heads_.key_rows : heads_.value_rows;
        RawTensor one = whole;
        one.name = fmt::format("{}.{}.{}{}", module, head, side, kWeight);
        one.shape = {count, heads_.rank};
        one.data = whole.data.subspan(at, static_cast<size_t>(count) * row_bytes);
        at += one.data.size();
        parts_.push_back(std::move(one));
      }
    }
  }

  const TensorSource& source_;
  const QuantConfig& quantization_;
  const LatentHeads& heads_;
  const int64_t rows_;
  std::vector<RawTensor> parts_;
  std::set<std::string> replaced_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
};

}  // namespace

Result<SplitSource> split_latent_heads(TensorSource source, const NameMap& names,
                                       const QuantConfig& quantization, const LatentHeads& heads) {
  const std::string_view trunk = find_prefix(names, source).trunk;
  const std::vector<std::string_view> patterns = patterns_of(names);
  std::set<std::string> modules;
  for (const RawTensor& tensor : source.tensors()) {
    const std::string module = tensor.name.substr(0, tensor.name.rfind('.'));
    for (const std::string_view pattern : patterns) {
      if (matches(module, pattern, trunk)) modules.insert(module);
    }
  }
  Splitter splitter(source, quantization, heads);
  for (const std::string& module : modules) QUIRE_RETURN_IF_ERROR(splitter.split(module));
  return splitter.take();
}

}  // namespace quire
