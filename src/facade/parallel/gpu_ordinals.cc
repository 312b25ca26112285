#include "facade/parallel/gpu_ordinals.h"

#include <charconv>
#include <numeric>

namespace quire {
namespace {

Result<int32_t> parse_ordinal(std::string_view text, int32_t num_gpus) {
  int32_t ordinal = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ordinal);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  if (is_number && ordinal >= 0 && ordinal < num_gpus) return ordinal;
  return invalid_argument("--devices: expected numbers of GPUs in [0, {}), got {}", num_gpus, text);
}

}  // namespace

Result<std::vector<int32_t>> gpu_ordinals(std::string_view devices, int32_t num_ranks,
                                          int32_t num_gpus) {
  if (devices.empty()) {
    if (num_ranks > num_gpus) {
      return unavailable(
          "--tensor-parallel-size: expected at most as many ranks as there are GPUs, {}, got {} "
          "(--devices may name a GPU several times)",
          num_gpus, num_ranks);
    }
    std::vector<int32_t> first(static_cast<size_t>(num_ranks));
    std::iota(first.begin(), first.end(), 0);
    return first;
  }
  std::vector<int32_t> ordinals;
  for (std::string_view rest = devices;;) {
    const size_t comma = rest.find(',');
    QUIRE_ASSIGN_OR_RETURN(const int32_t ordinal, parse_ordinal(rest.substr(0, comma), num_gpus));
    ordinals.push_back(ordinal);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (std::ssize(ordinals) == num_ranks) return ordinals;
  return invalid_argument("--devices: expected a GPU for each of {} ranks, got {}: {}", num_ranks,
                          ordinals.size(), devices);
}

}  // namespace quire
