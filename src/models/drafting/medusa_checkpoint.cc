#include "models/drafting/medusa_checkpoint.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <optional>

#include "models/config_fields.h"
#include "models/config_reader.h"
#include "models/drafting/token_map.h"
#include "weights/files/safetensors.h"

namespace quire {
namespace {

constexpr NameMapEntry kMedusaCheckpointEntries[] = {
    {TensorRole::kMedusaBlock, "blocks.{}.layers.{e}"},
    {TensorRole::kMedusaHead, "lm_heads.{}"},
};
constexpr NameMap kNames{.entries = kMedusaCheckpointEntries};
constexpr int64_t kMostHeads = 64;
constexpr int64_t kMostBlocks = 16;

// Removes a number and a dot from the front of `name`, and returns the number.
std::optional<int64_t> take_number(std::string_view& name) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const auto length = static_cast<size_t>(end - name.data());
  if (error != std::errc() || number < 0 || length >= name.size() || name[length] != '.')
    return std::nullopt;
  name.remove_prefix(length + 1);
  return number;
}

// FasterDecoding numbers the modules of a head: first its blocks, then its matrix to logits.
std::string canonical_name(std::string_view name) {
  for (const std::string_view prefix : {"medusa_heads.", "medusa_head."}) {
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  }
  std::string_view rest = name;
  const std::optional<int64_t> head = take_number(rest);
  const std::optional<int64_t> module = head ? take_number(rest) : std::nullopt;
  if (!module) return std::string(name == "lm_head.weight" ? "lm_heads.0.weight" : name);
  constexpr std::string_view kLinear = "linear.";
  if (!rest.starts_with(kLinear)) return fmt::format("lm_heads.{}.{}", *head, rest);
  rest.remove_prefix(kLinear.size());
  return fmt::format("blocks.{}.layers.{}.{}", *head, *module, rest);
}

// Refuses the pickle that older tools write, because a pickle is a program.
Result<std::vector<RawTensor>> read_tensors(const ModelFiles& files) {
  constexpr std::string_view kOwnName = "medusa_lm_head.safetensors";
  if (files.contains(kOwnName)) {
    QUIRE_ASSIGN_OR_RETURN(const auto bytes, files.bytes(kOwnName));
    return parse_safetensors(kOwnName, bytes);
  }
  const Result<TensorSource> source = TensorSource::open(files);
  if (source.ok()) return source->tensors();
  if (files.contains("medusa_lm_head.pt")) {
    return unimplemented(
        "medusa_lm_head.pt: expected safetensors, got a pickle, which would have to be run");
  }
  return source.status();
}

Status check_counts(const ModelFiles& files, const MedusaSpec& spec) {
  if (!files.contains("config.json")) return {};
  QUIRE_ASSIGN_OR_RETURN(const std::string_view text, files.text("config.json"));
  QUIRE_ASSIGN_OR_RETURN(const boost::json::object object,
                         parse_config_object(text, "config.json"));
  Status status;
  const ConfigReader reader(object, "config.json", {}, status);
  const auto check = [&](std::initializer_list<std::string_view> keys, int64_t found) {
    for (const std::string_view key : keys) {
      const int64_t said = reader.integer(key, {0, kMostHeads}, found);
      if (said != found)
        reader.fail(fmt::format("{}: expected {}, as there are tensors, got {}", key, found, said));
    }
  };
  check({"num_heads", "medusa_num_heads"}, spec.num_heads);
  check({"medusa_num_layers"}, spec.num_blocks);
  return status;
}

// Returns how many tensors exist, counted from 0 without a gap.
template <typename Name>
int64_t count(const TensorSource& source, int64_t most, Name name) {
  int64_t n = 0;
  while (n < most && source.find(name(n)) != nullptr) ++n;
  return n;
}

}  // namespace

const NameMap& medusa_names() { return kNames; }

Result<MedusaCheckpoint> read_medusa(const ModelFiles& files, int64_t hidden_size,
                                     int64_t vocab_size) {
  QUIRE_ASSIGN_OR_RETURN(std::vector<RawTensor> tensors, read_tensors(files));
  MedusaCheckpoint out;
  std::optional<RawTensor> map;
  std::vector<RawTensor> kept;
  for (RawTensor& tensor : tensors) {
    tensor.name = canonical_name(tensor.name);
    (tensor.name == "token_map" ? map.emplace() : kept.emplace_back()) = std::move(tensor);
  }
  std::ranges::sort(kept, {}, &RawTensor::name);
  if (const auto twin = std::ranges::adjacent_find(kept, {}, &RawTensor::name); twin != kept.end())
    return invalid_argument("tensor '{}': expected once, got twice", twin->name);
  out.source = TensorSource(std::move(kept));
  MedusaSpec& spec = out.spec;
  spec.hidden_size = hidden_size;
  spec.num_heads = count(out.source, kMostHeads,
                         [](int64_t k) { return fmt::format("blocks.{}.layers.0.weight", k); });
  spec.num_blocks = count(out.source, kMostBlocks,
                          [](int64_t i) { return fmt::format("blocks.0.layers.{}.weight", i); });
  if (spec.num_heads == 0) {
    return not_found(
        "expected Medusa heads, as blocks.0.layers.0.weight or 0.0.linear.weight, got none");
  }
  spec.has_bias = out.source.find("blocks.0.layers.0.bias") != nullptr;
  spec.shares_head = spec.num_heads > 1 && out.source.find("lm_heads.1.weight") == nullptr;
  QUIRE_ASSIGN_OR_RETURN(const RawTensor* head, out.source.require("lm_heads.0.weight"));
  spec.num_logits = head->shape.empty() ? 0 : head->shape.front();
  if (map) {
    QUIRE_ASSIGN_OR_RETURN(out.token_map, read_token_map(*map, spec.num_logits, vocab_size, false));
  } else if (spec.num_logits != vocab_size) {
    return invalid_argument("tensor '{}': expected rows for the served model's {} tokens, got [{}]",
                            head->name, vocab_size, fmt::join(head->shape, ", "));
  }
  QUIRE_RETURN_IF_ERROR(check_counts(files, spec));
  return out;
}

}  // namespace quire
