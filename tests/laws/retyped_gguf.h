// A RetypedGguf is a GGUF file with the tensors of another file in other types, as in the files
// that people download.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>

#include "weights/gguf/gguf.h"
#include "weights/tensors/element.h"

namespace quire::test {

enum class StoredAs : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ8_0 = 8,
  kBF16 = 30
};  // in the numbering of ggml

struct RetypedGguf {
  std::string stored;   // in the new types
  std::string decoded;  // the same values in F32
};

namespace retyping {

template <typename T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

inline void put_string(std::string& out, std::string_view text) {
  put<uint64_t>(out, text.size());
  out += text;
}

// Vectors keep their type. Rows that blocks of 32 do not fill, and Gemma's projector, become F16.
inline StoredAs type_of(const RawTensor& tensor, StoredAs wanted) {
  if (tensor.shape.size() < 2) return StoredAs::kF32;
  const bool is_projector = tensor.name.find("input_projection") != std::string::npos;
  const bool has_blocks = tensor.shape.back() % 32 == 0 && !is_projector;
  return wanted == StoredAs::kQ8_0 && !has_blocks ? StoredAs::kF16 : wanted;
}

inline void put_blocks(std::span<const float> values, std::string& stored, std::string& decoded) {
  for (size_t first = 0; first < values.size(); first += 32) {
    const std::span<const float> block = values.subspan(first, 32);
    float most = 0.0f;
    for (const float value : block) most = std::max(most, std::fabs(value));
    const float16 half = to_float16(most / 127.0f);
    const float scale = to_float(half);
    put(stored, half);
    for (const float value : block) {
      const auto level = static_cast<int8_t>(
          scale == 0.0f ? 0.0f : std::clamp(std::round(value / scale), -128.0f, 127.0f));
      put(stored, level);
      put(decoded, static_cast<float>(level) * scale);
    }
  }
}

inline void put_values(std::span<const float> values, StoredAs type, std::string& stored,
                       std::string& decoded) {
  if (type == StoredAs::kQ8_0) return put_blocks(values, stored, decoded);
  for (const float value : values) {
    if (type == StoredAs::kF32) {
      put(stored, value);
      put(decoded, value);
    } else if (type == StoredAs::kF16) {
      put(stored, to_float16(value));
      put(decoded, to_float(to_float16(value)));
    } else {
      put(stored, to_bfloat16(value));
      put(decoded, to_float(to_bfloat16(value)));
    }
  }
}

inline void put_info(const RawTensor& tensor, StoredAs type, uint64_t offset, std::string& out) {
  put_string(out, tensor.name);
  put<uint32_t>(out, static_cast<uint32_t>(tensor.shape.size()));
  for (size_t i = tensor.shape.size(); i-- > 0;)
    put<uint64_t>(out, static_cast<uint64_t>(tensor.shape[i]));
  put<uint32_t>(out, static_cast<uint32_t>(type));
  put<uint64_t>(out, offset);
}

inline void pad(std::string& out) { out.resize((out.size() + 31) / 32 * 32, '\0'); }

}  // namespace retyping

// `file` has all tensors in F32, with data aligned to 32 bytes.
inline RetypedGguf retyped_gguf(const std::string& file, StoredAs wanted) {
  const auto read = GgufFile::parse("file", std::as_bytes(std::span(file)));
  QUIRE_CHECK(read.ok(), "{}", read.status().message());
  // The descriptions of tensors follow the metadata, each with its name.
  size_t metadata_end = file.size();
  for (const RawTensor& tensor : read->tensors()) {
    std::string name;
    retyping::put_string(name, tensor.name);
    metadata_end = std::min(metadata_end, file.find(name));
  }
  RetypedGguf out{.stored = file.substr(0, metadata_end), .decoded = file.substr(0, metadata_end)};
  std::string stored, decoded;
  for (const RawTensor& tensor : read->tensors()) {
    std::vector<float> values(tensor.data.size() / sizeof(float));
    std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
    const StoredAs type = retyping::type_of(tensor, wanted);
    retyping::put_info(tensor, type, stored.size(), out.stored);
    retyping::put_info(tensor, StoredAs::kF32, decoded.size(), out.decoded);
    retyping::put_values(values, type, stored, decoded);
    retyping::pad(stored);
    retyping::pad(decoded);
  }
  retyping::pad(out.stored);
  retyping::pad(out.decoded);
  out.stored += stored;
  out.decoded += decoded;
  return out;
}

}  // namespace quire::test
