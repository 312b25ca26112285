// These helpers make checkpoints for tests: tensors of any type in a safetensors file in memory.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/check.h"
#include "weights/files/tensor_source.h"

namespace quire::test {

class CheckpointBuilder {
 public:
  struct Tensor {
    std::string name, type;
    std::vector<int64_t> shape;
    std::string bytes;
  };

  CheckpointBuilder& add(Tensor tensor) {
    tensors_.push_back(std::move(tensor));
    return *this;
  }
  CheckpointBuilder& add_all(const TensorSource& source) {
    for (const RawTensor& raw : source.tensors()) {
      add({raw.name,
           std::string(raw.type_name),
           raw.shape,
           {reinterpret_cast<const char*>(raw.data.data()), raw.data.size()}});
    }
    return *this;
  }
  Tensor& at(std::string_view name) {
    for (Tensor& tensor : tensors_) {
      if (tensor.name == name) return tensor;
    }
    QUIRE_CHECK(false, "no tensor {}", name);
  }
  void remove(std::string_view name) {
    std::erase_if(tensors_, [&](const Tensor& tensor) { return tensor.name == name; });
  }

  // Returns files that are valid as long as the builder and until the next call.
  ModelFiles open() {
    std::string header, data;
    for (const Tensor& tensor : tensors_) {
      header +=
          fmt::format(R"({}"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                      header.empty() ? "" : ",", tensor.name, tensor.type,
                      fmt::join(tensor.shape, ","), data.size(), data.size() + tensor.bytes.size());
      data += tensor.bytes;
    }
    header = "{" + header + "}";
    const uint64_t size = header.size();
    bytes_.assign(reinterpret_cast<const char*>(&size), 8);
    bytes_ += header + data;
    return ModelFiles::from_memory({{"model.safetensors", std::as_bytes(std::span(bytes_))},
                                    {"config.json", std::as_bytes(std::span(bytes_))}});
  }

 private:
  std::vector<Tensor> tensors_;
  std::string bytes_;
};

}  // namespace quire::test
