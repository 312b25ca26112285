#include "weights/files/tensor_source.h"

#include <algorithm>
#include <map>

#include "weights/files/safetensors.h"
#include "weights/gguf/gguf.h"

namespace quire {
namespace {

constexpr std::string_view kSingle = "model.safetensors";
constexpr std::string_view kIndex = "model.safetensors.index.json";

bool by_name(const RawTensor& a, const RawTensor& b) { return a.name < b.name; }

const RawTensor* find_sorted(const std::vector<RawTensor>& tensors, std::string_view name) {
  const auto it = std::lower_bound(
      tensors.begin(), tensors.end(), name,
      [](const RawTensor& tensor, std::string_view wanted) { return tensor.name < wanted; });
  return it == tensors.end() || it->name != name ? nullptr : &*it;
}

Result<std::vector<RawTensor>> read_file(const ModelFiles& files, std::string_view name) {
  QUIRE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, files.bytes(name));
  return parse_safetensors(name, bytes);
}

// Takes each tensor from the shard that the index names for it. Other tensors in the shards are
// ignored.
Result<std::vector<RawTensor>> read_shards(const ModelFiles& files) {
  QUIRE_ASSIGN_OR_RETURN(const std::string_view text, files.text(kIndex));
  QUIRE_ASSIGN_OR_RETURN(const SafetensorsIndex index, parse_safetensors_index(text));
  std::map<std::string, std::vector<RawTensor>> shards;
  std::vector<RawTensor> tensors;
  for (const auto& [name, shard] : index.shard_of) {
    auto it = shards.find(shard);
    if (it == shards.end()) {
      if (!files.contains(shard)) {
        return not_found("{}: {} names shard {}, which is missing", files.source(), kIndex, shard);
      }
      QUIRE_ASSIGN_OR_RETURN(std::vector<RawTensor> read, read_file(files, shard));
      it = shards.emplace(shard, std::move(read)).first;
    }
    const RawTensor* tensor = find_sorted(it->second, name);
    if (tensor == nullptr) {
      return data_loss("{}: {} says that {} holds tensor '{}', but it does not", files.source(),
                       kIndex, shard, name);
    }
    tensors.push_back(*tensor);
  }
  return tensors;
}

Result<std::vector<RawTensor>> read_gguf(const ModelFiles& files, const std::string& name) {
  QUIRE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, files.bytes(name));
  QUIRE_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::parse(name, bytes));
  return file.tensors();
}

Status no_weights(const ModelFiles& files) {
  for (const std::string& name : files.names()) {
    if (name.ends_with(".bin") || name.ends_with(".pt") || name.ends_with(".pth")) {
      return not_found(
          "{}: expected {}, found only {}: pickle files can run code and are not read; "
          "convert the checkpoint to safetensors",
          files.source(), kSingle, name);
    }
  }
  return not_found("{}: expected {} or {}", files.source(), kSingle, kIndex);
}

}  // namespace

TensorSource::TensorSource(std::vector<RawTensor> tensors) : tensors_(std::move(tensors)) {
  std::sort(tensors_.begin(), tensors_.end(), by_name);
}

Result<TensorSource> TensorSource::open(const ModelFiles& files) {
  std::vector<RawTensor> tensors;
  if (const auto gguf = files.gguf_name()) {
    QUIRE_ASSIGN_OR_RETURN(tensors, read_gguf(files, *gguf));
  } else if (files.contains(kSingle)) {
    QUIRE_ASSIGN_OR_RETURN(tensors, read_file(files, kSingle));
  } else if (files.contains(kIndex)) {
    QUIRE_ASSIGN_OR_RETURN(tensors, read_shards(files));
  } else {
    return no_weights(files);
  }
  // The suffix that torch gives to a matrix with parametrizations
  // (weights/adapters/task_adapters.h).
  constexpr std::string_view kOriginal = ".parametrizations.weight.original";
  for (RawTensor& tensor : tensors) {
    if (tensor.name.ends_with(kOriginal))
      tensor.name.replace(tensor.name.size() - kOriginal.size(), kOriginal.size(), ".weight");
  }
  return TensorSource(std::move(tensors));
}

const RawTensor* TensorSource::find(std::string_view name) const {
  return find_sorted(tensors_, name);
}

Result<const RawTensor*> TensorSource::require(std::string_view name) const {
  if (const RawTensor* tensor = find(name)) return tensor;
  return not_found("the checkpoint has no tensor '{}'", name);
}

std::vector<std::string> TensorSource::names() const {
  std::vector<std::string> names;
  names.reserve(tensors_.size());
  for (const RawTensor& tensor : tensors_) names.push_back(tensor.name);
  return names;
}

int64_t TensorSource::total_bytes() const {
  int64_t total = 0;
  for (const RawTensor& tensor : tensors_) total += static_cast<int64_t>(tensor.data.size());
  return total;
}

}  // namespace quire
