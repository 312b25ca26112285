// These helpers make small adapters in memory, for tests.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "weights/adapters/lora_files.h"

namespace quire::test {

struct AdapterTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values = {};  // as many as the shape says; empty: zeros
};

inline std::string safetensors_of(const std::vector<AdapterTensor>& tensors) {
  std::string header = "{", data;
  for (const AdapterTensor& tensor : tensors) {
    int64_t count = 1;
    std::string shape;
    for (const int64_t extent : tensor.shape) {
      count *= extent;
      shape += (shape.empty() ? "" : ",") + std::to_string(extent);
    }
    std::vector<float> values = tensor.values;
    values.resize(static_cast<size_t>(count));
    const size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    header += (header.size() > 1 ? "," : "") + ("\"" + tensor.name) +
              "\":{\"dtype\":\"F32\",\"shape\":[" + shape + "],\"data_offsets\":[" +
              std::to_string(begin) + "," + std::to_string(data.size()) + "]}";
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const uint64_t size = header.size();
  std::string file(sizeof(size), '\0');
  std::memcpy(file.data(), &size, sizeof(size));
  return file + header + data;
}

// The strings must outlive what is read.
inline Result<LoraFiles> read_adapter(const std::string& config, const std::string& tensors) {
  return LoraFiles::read(
      ModelFiles::from_memory({{"adapter_config.json", std::as_bytes(std::span(config))},
                               {"adapter_model.safetensors", std::as_bytes(std::span(tensors))}}));
}

}  // namespace quire::test
