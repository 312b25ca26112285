#include "facade/parallel/gpu_ordinals.h"

#include <fmt/format.h>

#include <charconv>
#include <numeric>
#include <string>

namespace quire {
namespace {

Result<int32_t> parse_ordinal(std::string_view text, int32_t num_gpus) {
  int32_t ordinal = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ordinal);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  if (is_number && ordinal >= 0 && ordinal < num_gpus) return ordinal;
  return invalid_argument("--devices: expected numbers of GPUs in [0, {}), got {}", num_gpus, text);
}

// Returns "4 ranks", or "2 engines x 2 stages x 4 ranks".
std::string text_of(const GpuShape& shape) {
  std::string text;
  if (shape.num_engines > 1) text += fmt::format("{} engines x ", shape.num_engines);
  if (shape.num_stages > 1) text += fmt::format("{} stages x ", shape.num_stages);
  return text + fmt::format("{} rank{}", shape.num_ranks, shape.num_ranks == 1 ? "" : "s");
}

}  // namespace

Result<std::vector<int32_t>> gpu_ordinals(std::string_view devices, const GpuShape& shape,
                                          int32_t num_there) {
  if (devices.empty()) {
    if (shape.num_gpus() > num_there) {
      return unavailable(
          "GPUs: expected one for each of {}, got {} (--devices may name a GPU several times)",
          text_of(shape), num_there);
    }
    std::vector<int32_t> first(static_cast<size_t>(shape.num_gpus()));
    std::iota(first.begin(), first.end(), 0);
    return first;
  }
  std::vector<int32_t> ordinals;
  for (std::string_view rest = devices;;) {
    const size_t comma = rest.find(',');
    QUIRE_ASSIGN_OR_RETURN(const int32_t ordinal, parse_ordinal(rest.substr(0, comma), num_there));
    ordinals.push_back(ordinal);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (std::ssize(ordinals) == shape.num_gpus()) return ordinals;
  return invalid_argument("--devices: expected a GPU for each of {}, got {}: {}", text_of(shape),
                          ordinals.size(), devices);
}

}  // namespace quire
