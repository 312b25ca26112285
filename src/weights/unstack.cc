#include "weights/unstack.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "kernels/api/router.h"
#include "weights/names/name_prefix.h"

namespace quire {
namespace {

constexpr std::string_view kExpertEnd = ".{e}";

struct Suffix {
  std::string_view stacked;
  std::string_view apart;
};
constexpr Suffix kSuffixes[] = {{"", ".weight"},    {".weight", ".weight"}, {".bias", ".bias"},
                                {"_bias", ".bias"}, {"_blocks", ".blocks"}, {"_scales", ".scales"}};

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// Returns the part of `name` behind a stacked pattern, or nullopt if the name does not match the
// pattern.
std::optional<std::string_view> suffix_of(std::string_view name, std::string_view pattern,
                                          std::string_view trunk) {
  pattern.remove_suffix(kExpertEnd.size());
  const size_t hole = pattern.find("{}");
  if (!take_prefix(name, trunk) || !take_prefix(name, pattern.substr(0, hole))) return std::nullopt;
  if (hole == std::string_view::npos) return name;  // outside the layers
  const size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
  name.remove_prefix(digits);
  if (digits == 0 || !take_prefix(name, pattern.substr(hole + 2))) return std::nullopt;
  return name;
}

// Returns nullptr if the tensor does not hold experts.
const Suffix* find_stacked(const RawTensor& tensor, const NameMap& names, std::string_view trunk) {
  for (const NameMapEntry& entry : names.entries) {
    if (!entry.pattern.ends_with(kExpertEnd)) continue;
    const auto rest = suffix_of(tensor.name, entry.pattern, trunk);
    const auto* suffix = std::find_if(std::begin(kSuffixes), std::end(kSuffixes),
                                      [&](const Suffix& s) { return rest == s.stacked; });
    if (suffix != std::end(kSuffixes)) return suffix;
  }
  return names.base == nullptr ? nullptr : find_stacked(tensor, *names.base, trunk);
}

void add_experts(const RawTensor& tensor, const Suffix& suffix, std::vector<RawTensor>& out) {
  const auto count = static_cast<size_t>(tensor.shape.front());
  const size_t bytes = tensor.data.size() / count;
  const std::string_view stem =
      std::string_view(tensor.name).substr(0, tensor.name.size() - suffix.stacked.size());
  for (size_t expert = 0; expert < count; ++expert) {
    RawTensor one = tensor;
    one.name = fmt::format("{}.{}{}", stem, expert, suffix.apart);
    one.shape.erase(one.shape.begin());
    one.data = tensor.data.subspan(expert * bytes, bytes);
    out.push_back(std::move(one));
  }
}

// Returns the same tensor with a first extent for the experts, whose rows follow one another.
RawTensor with_expert_extent(const RawTensor& tensor, int64_t num_experts) {
  RawTensor out = tensor;
  const bool is_flat = num_experts > 0 && tensor.shape.size() == 2 &&
                       tensor.shape.front() > num_experts &&
                       tensor.shape.front() % num_experts == 0;
  if (is_flat) out.shape = {num_experts, tensor.shape[0] / num_experts, tensor.shape[1]};
  return out;
}

}  // namespace

TensorSource unstack_experts(const TensorSource& source, const NameMap& names,
                             int64_t num_experts) {
  const NamePrefix prefix = find_prefix(names, source);
  std::vector<RawTensor> tensors;
  for (const RawTensor& stored : source.tensors()) {
    const RawTensor tensor = with_expert_extent(stored, num_experts);
    const Suffix* suffix = find_stacked(tensor, names, prefix.trunk);
    const bool has_experts = suffix != nullptr && tensor.shape.size() >= 2 &&
                             tensor.shape.front() >= 1 && tensor.shape.front() <= kMaxExperts &&
                             tensor.data.size() % static_cast<size_t>(tensor.shape.front()) == 0;
    if (has_experts) {
      add_experts(tensor, *suffix, tensors);
    } else {
      tensors.push_back(stored);
    }
  }
  return TensorSource(std::move(tensors));
}

}  // namespace quire
