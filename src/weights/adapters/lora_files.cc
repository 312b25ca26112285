#include "weights/adapters/lora_files.h"

#include <fmt/ranges.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <utility>

#include "weights/adapters/task_adapters.h"
#include "weights/files/safetensors.h"
#include "weights/tensors/file_text.h"

namespace quire {
namespace {

constexpr std::string_view kConfigName = "adapter_config.json";
constexpr std::string_view kTensorsName = "adapter_model.safetensors";
constexpr std::string_view kPrefix = "base_model.model.";

// An Ending is a suffix of tensor names, and the member that such a tensor is stored in.
struct Ending {
  std::string_view text;
  const RawTensor* LoraModule::*tensor;
};
constexpr std::array<Ending, 7> kEndings = {
    {{".lora_A.weight", &LoraModule::a},
     {".lora_B.weight", &LoraModule::b},
     {".lora_embedding_A", &LoraModule::a},
     {".lora_embedding_B", &LoraModule::b},
     {".lora_B.bias", &LoraModule::bias},
     {".lora_magnitude_vector", &LoraModule::magnitude},
     {".lora_magnitude_vector.weight", &LoraModule::magnitude}}};

constexpr std::string_view kEmbeddingPart = ".lora_embedding_";
constexpr std::string_view kBaseLayer = ".base_layer";
constexpr std::string_view kWeightEnd = ".weight";
constexpr std::string_view kBiasEnd = ".bias";

// Removes `suffix` from the end of `text` and returns true, if it is there.
bool take_suffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

std::string sha256(const std::vector<std::span<const std::byte>>& pieces) {
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   EVP_MD_CTX_free);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  bool ok = context != nullptr && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  for (const std::span<const std::byte> piece : pieces) {
    // The length, so that no byte can move from one piece to the next.
    const uint64_t num_bytes = piece.size();
    ok = ok && EVP_DigestUpdate(context.get(), &num_bytes, sizeof(num_bytes)) == 1 &&
         EVP_DigestUpdate(context.get(), piece.data(), piece.size()) == 1;
  }
  ok = ok && EVP_DigestFinal_ex(context.get(), digest.data(), &size) == 1;
  QUIRE_CHECK(ok, "SHA-256 failed");
  return fmt::format("{:02x}", fmt::join(digest.begin(), digest.begin() + size, ""));
}

bool is_float(const RawTensor& tensor) {
  return tensor.dtype == DType::kF32 || tensor.dtype == DType::kF16 || tensor.dtype == DType::kBF16;
}

Status check_tensor(const RawTensor& tensor, const std::vector<int64_t>& shape) {
  if (!is_float(tensor)) {
    return invalid_argument("tensor '{}': expected element type F32, F16 or BF16, got {}",
                            tensor.name, tensor.type_name);
  }
  if (tensor.shape == shape) return {};
  return invalid_argument("tensor '{}': expected shape [{}], got [{}]", tensor.name,
                          fmt::join(shape, ", "), fmt::join(tensor.shape, ", "));
}

Status unknown_tensor(const RawTensor& tensor) {
  return invalid_argument(
      "tensor '{}': expected base_model.model.MODULE and one of .lora_A.weight, .lora_B.weight, "
      ".lora_B.bias, .lora_embedding_A, .lora_embedding_B, .weight or .bias",
      tensor.name);
}

Status no_weights(const ModelFiles& files) {
  if (files.contains("adapter_model.bin") || files.contains("adapter_model.pt")) {
    return unimplemented(
        "{}: its weights are a pickle, which can run code: save the adapter as {} instead",
        files.source(), kTensorsName);
  }
  return not_found("{}: no {}", files.source(), kTensorsName);
}

}  // namespace

Result<LoraFiles> LoraFiles::open(const std::string& path) {
  if (const auto task = split_task_path(path)) return open_task_adapter(task->first, task->second);
  QUIRE_ASSIGN_OR_RETURN(ModelFiles files, ModelFiles::open_folder(path));
  return read(std::move(files));
}

Result<LoraFiles> LoraFiles::read(ModelFiles files) {
  const std::string source = files.source();
  if (!files.contains(kConfigName)) {
    return not_found("{}: no {} here, so this is not a PEFT adapter", source, kConfigName);
  }
  if (!files.contains(kTensorsName)) return no_weights(files);
  QUIRE_ASSIGN_OR_RETURN(const std::string_view text, files.text(kConfigName));
  QUIRE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, files.bytes(kTensorsName));
  Result<AdapterConfig> config = AdapterConfig::parse(text);
  if (!config.ok()) return config.status().with_context(source + "/" + std::string(kConfigName));
  LoraFiles adapter(std::move(files), std::move(*config));
  const std::string where = source + "/" + std::string(kTensorsName);
  QUIRE_ASSIGN_OR_RETURN(adapter.tensors_, parse_safetensors(where, bytes));
  const Status status = adapter.find_modules();
  if (!status.ok()) return one_line(status).with_context(where);
  adapter.digest_ = sha256({std::as_bytes(std::span(text)), bytes});
  return adapter;
}

Result<LoraFiles> LoraFiles::make(ModelFiles files, LoraParts parts) {
  QUIRE_ASSIGN_OR_RETURN(AdapterConfig config, AdapterConfig::parse(parts.config_text));
  LoraFiles adapter(std::move(files), std::move(config));
  adapter.floats_ = std::move(parts.floats);
  adapter.tensors_ = std::move(parts.tensors);
  QUIRE_RETURN_IF_ERROR(adapter.find_modules().with_context(adapter.source()));
  std::vector<std::span<const std::byte>> pieces = {std::as_bytes(std::span(parts.config_text))};
  for (const RawTensor& tensor : adapter.tensors_) {
    pieces.push_back(std::as_bytes(std::span(tensor.name)));
    pieces.push_back(tensor.data);
  }
  adapter.digest_ = sha256(pieces);
  return adapter;
}

Status LoraFiles::find_modules() {
  std::map<std::string, LoraModule, std::less<>> modules;
  std::map<std::string, WholeModule, std::less<>> whole;
  std::vector<std::pair<const RawTensor*, std::string_view>> bases;
  for (const RawTensor& tensor : tensors_) {
    std::string_view name = tensor.name;
    if (!name.starts_with(kPrefix)) return unknown_tensor(tensor);
    name.remove_prefix(kPrefix.size());
    const auto* const ending =
        std::find_if(kEndings.begin(), kEndings.end(),
                     [&](const Ending& one) { return name.ends_with(one.text); });
    if (ending != kEndings.end()) {
      name.remove_suffix(ending->text.size());
      LoraModule& module = modules[std::string(name)];
      const bool is_embedding = ending->text.starts_with(kEmbeddingPart);
      const bool is_mixed = is_embedding != module.is_embedding;
      if (is_mixed && (module.a != nullptr || module.b != nullptr)) {
        return invalid_argument(
            "module '{}': expected an update of a linear or of embeddings, got "
            "tensors of both",
            name);
      }
      module.name = name;
      module.*(ending->tensor) = &tensor;
      module.is_embedding = is_embedding;
      continue;
    }
    const bool is_weight = take_suffix(name, kWeightEnd);
    const bool is_known = is_weight || take_suffix(name, kBiasEnd);
    if (!is_known || name.find("lora_") != name.npos) return unknown_tensor(tensor);
    if (is_weight && take_suffix(name, kBaseLayer)) {
      bases.emplace_back(&tensor, name);
      continue;
    }
    WholeModule& module = whole[std::string(name)];
    module.name = name;
    (is_weight ? module.weight : module.bias) = &tensor;
  }
  for (auto& [name, module] : modules) {
    QUIRE_RETURN_IF_ERROR(check(module));
    modules_.push_back(std::move(module));
  }
  for (const auto& [weight, module] : bases) QUIRE_RETURN_IF_ERROR(check_base(*weight, module));
  for (auto& [name, module] : whole) {
    if (config_.ties_weights()) {
      return unimplemented("module '{}': a whole module is not supported with ensure_weight_tying",
                           name);
    }
    whole_modules_.push_back(std::move(module));
  }
  return tensors_.empty() ? invalid_argument("expected tensors, got none") : Status();
}

Status LoraFiles::check_base(const RawTensor& weight, std::string_view module) const {
  const auto found = std::find_if(modules_.begin(), modules_.end(),
                                  [&](const LoraModule& one) { return one.name == module; });
  if (found == modules_.end()) return unknown_tensor(weight);
  if (found->is_embedding) return check_tensor(weight, {found->num_inputs(), found->num_outputs()});
  return check_tensor(weight, {found->num_outputs(), found->num_inputs()});
}

// The rank may be that of any of the parameter's names, so it is bounded by the greatest that fits.
Status LoraFiles::check_rank(LoraModule& module) const {
  std::string_view name = module.name;
  while (take_suffix(name, kBaseLayer)) {
  }
  module.parameters = config_.parameters_of(name);
  const int64_t rows = module.a->shape.empty() ? 0 : module.a->shape[0];
  for (const std::string& parameter : module.parameters) {
    const int64_t rank = config_.rank_of(parameter);
    if (rows == 0 || rows % rank != 0 || rank <= module.rank) continue;
    module.rank = rank;
    module.scale = config_.scale_of(parameter);
    module.num_experts = rows / rank;
  }
  if (module.rank > 0) return {};
  if (!module.parameters.empty()) {
    return invalid_argument("tensor '{}': expected a multiple of rank {} of rows, got {}",
                            module.a->name, config_.rank_of(module.parameters.front()), rows);
  }
  module.rank = config_.rank_of(module.name);
  module.scale = config_.scale_of(module.name);
  return {};
}

Status LoraFiles::check(LoraModule& module) const {
  if (module.a == nullptr || module.b == nullptr) {
    return invalid_argument("module '{}': no {}", module.name,
                            module.is_embedding   ? "pair of lora_embedding_A and lora_embedding_B"
                            : module.a == nullptr ? "lora_A.weight"
                                                  : "lora_B.weight");
  }
  QUIRE_RETURN_IF_ERROR(check_rank(module));
  const int64_t ranks = module.rank * module.num_experts;
  const int64_t inputs = module.a->shape.size() == 2 ? module.a->shape[1] : 0;
  const int64_t outputs = module.b->shape.empty() ? 0 : module.b->shape[0];
  QUIRE_RETURN_IF_ERROR(check_tensor(*module.a, {ranks, inputs}));
  QUIRE_RETURN_IF_ERROR(check_tensor(*module.b, {outputs, ranks}));
  if ((module.bias != nullptr) != config_.has_bias()) {
    return invalid_argument("module '{}': lora_bias is {}, but the file has {} bias", module.name,
                            config_.has_bias(), module.bias == nullptr ? "no" : "a");
  }
  if ((module.magnitude != nullptr) != config_.has_magnitudes()) {
    return invalid_argument("module '{}': use_dora is {}, but the file has {} magnitudes",
                            module.name, config_.has_magnitudes(),
                            module.magnitude == nullptr ? "no" : "its");
  }
  if (module.is_embedding && config_.ties_weights()) {
    return unimplemented(
        "module '{}': updates of embeddings are not supported with "
        "ensure_weight_tying",
        module.name);
  }
  if (module.magnitude != nullptr)
    QUIRE_RETURN_IF_ERROR(check_tensor(*module.magnitude, {outputs}));
  return module.bias == nullptr ? Status() : check_tensor(*module.bias, {outputs});
}

int64_t LoraFiles::max_rank() const {
  int64_t most = 0;
  for (const LoraModule& module : modules_) most = std::max(most, module.rank);
  return most;
}

// The base's own weights beside an update do not count as updated parameters.
bool LoraFiles::changes_experts() const {
  return std::any_of(modules_.begin(), modules_.end(), [](const LoraModule& module) {
    return module.num_experts > 1 || module.name.find(".experts.") != std::string::npos ||
           module.name.ends_with(".experts");
  });
}

int64_t LoraFiles::num_parameters() const {
  int64_t sum = num_whole_elements();
  for (const LoraModule& module : modules_) {
    for (const RawTensor* tensor : {module.a, module.b, module.bias, module.magnitude})
      sum += tensor == nullptr ? 0 : tensor->num_elements();
  }
  return sum;
}

int64_t LoraFiles::num_whole_elements() const {
  int64_t sum = 0;
  for (const WholeModule& module : whole_modules_) {
    for (const RawTensor* tensor : {module.weight, module.bias})
      sum += tensor == nullptr ? 0 : tensor->num_elements();
  }
  return sum;
}

}  // namespace quire
