#include "weights/adapters/lora_files.h"

#include <fmt/ranges.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <utility>

#include "weights/files/safetensors.h"
#include "weights/tensors/file_text.h"

namespace quire {
namespace {

constexpr std::string_view kConfigName = "adapter_config.json";
constexpr std::string_view kTensorsName = "adapter_model.safetensors";
constexpr std::string_view kPrefix = "base_model.model.";

// What a tensor's name ends with, and where it goes.
struct Ending {
  std::string_view text;
  const RawTensor* LoraModule::*tensor;
};
constexpr std::array<Ending, 5> kEndings = {
    {{".lora_A.weight", &LoraModule::a},
     {".lora_B.weight", &LoraModule::b},
     {".lora_B.bias", &LoraModule::bias},
     {".lora_magnitude_vector", &LoraModule::magnitude},
     {".lora_magnitude_vector.weight", &LoraModule::magnitude}}};

// Other updates that PEFT writes, for a message that says more than a name.
struct Refused {
  std::string_view part;
  std::string_view what;
};
constexpr std::array<Refused, 2> kRefused = {
    {{"lora_embedding_", "LoRA of embeddings"}, {"modules_to_save", "whole modules"}}};

std::string sha256(std::initializer_list<std::span<const std::byte>> pieces) {
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   EVP_MD_CTX_free);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  bool ok = context != nullptr && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  for (const std::span<const std::byte> piece : pieces) {
    const uint64_t num_bytes = piece.size();  // so that no byte may move from one to the next
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
  for (const Refused& refused : kRefused) {
    if (tensor.name.find(refused.part) != std::string::npos) {
      return unimplemented("tensor '{}': adapters with {} are not supported", tensor.name,
                           refused.what);
    }
  }
  return unimplemented(
      "tensor '{}': expected base_model.model.MODULE.lora_A.weight, .lora_B.weight or .lora_B.bias",
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

Status LoraFiles::find_modules() {
  std::map<std::string, LoraModule, std::less<>> modules;
  for (const RawTensor& tensor : tensors_) {
    std::string_view name = tensor.name;
    const auto* const ending =
        std::find_if(kEndings.begin(), kEndings.end(),
                     [&](const Ending& one) { return name.ends_with(one.text); });
    if (!name.starts_with(kPrefix) || ending == kEndings.end()) return unknown_tensor(tensor);
    name.remove_prefix(kPrefix.size());
    name.remove_suffix(std::min(name.size(), ending->text.size()));
    LoraModule& module = modules[std::string(name)];
    module.name = name;
    module.*(ending->tensor) = &tensor;
  }
  for (auto& [name, module] : modules) {
    QUIRE_RETURN_IF_ERROR(check(module));
    modules_.push_back(std::move(module));
  }
  return modules_.empty() ? invalid_argument("expected tensors, got none") : Status();
}

Status LoraFiles::check(LoraModule& module) const {
  if (module.a == nullptr || module.b == nullptr) {
    return invalid_argument("module '{}': no lora_{}.weight", module.name,
                            module.a == nullptr ? "A" : "B");
  }
  module.rank = config_.rank_of(module.name);
  module.scale = config_.scale_of(module.name);
  const int64_t inputs = module.a->shape.size() == 2 ? module.a->shape[1] : 0;
  const int64_t outputs = module.b->shape.empty() ? 0 : module.b->shape[0];
  QUIRE_RETURN_IF_ERROR(check_tensor(*module.a, {module.rank, inputs}));
  QUIRE_RETURN_IF_ERROR(check_tensor(*module.b, {outputs, module.rank}));
  if ((module.bias != nullptr) != config_.has_bias()) {
    return invalid_argument("module '{}': lora_bias is {}, but the file has {} bias", module.name,
                            config_.has_bias(), module.bias == nullptr ? "no" : "a");
  }
  if ((module.magnitude != nullptr) != config_.has_magnitudes()) {
    return invalid_argument("module '{}': use_dora is {}, but the file has {} magnitudes",
                            module.name, config_.has_magnitudes(),
                            module.magnitude == nullptr ? "no" : "its");
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

int64_t LoraFiles::num_parameters() const {
  int64_t sum = 0;
  for (const RawTensor& tensor : tensors_) sum += tensor.num_elements();
  return sum;
}

}  // namespace quire
