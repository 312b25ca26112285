// Reads an mmproj file key by key. Internal to models/.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "weights/gguf/gguf.h"

namespace quire {

// Keeps the first error; the code that reads checks status() once, at the end.
class MmprojFields {
 public:
  explicit MmprojFields(const GgufFile& file) : file_(file) {}

  const Status& status() const { return status_; }
  void fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  // The key is looked up with the prefix "clip.vision.".
  const GgufValue* find(std::string_view key) const {
    return file_.find(fmt::format("clip.vision.{}", key));
  }
  std::optional<int64_t> optional_integer(std::string_view key);
  int64_t integer(std::string_view key);  // required, above 0
  std::optional<double> number(std::string_view key);
  bool flag(std::string_view whole_key) const;  // absent is false

  // Returns null if there is no such tensor.
  const RawTensor* tensor(std::string_view name) const;
  bool has_tensor(std::string_view name) const { return tensor(name) != nullptr; }
  // Returns the rows of a matrix or table, which must exist.
  int64_t rows(std::string_view name);

  // Returns whether the names of the MLPs' two matrices are swapped, as converters long wrote them;
  // their widths tell.
  bool has_swapped_mlps() const;

 private:
  const GgufFile& file_;
  Status status_;
};

// Returns "mlp", "gemma3", "qwen2.5vl_merger", …, or nothing if the file names no type.
std::string_view mmproj_type(const GgufFile& file);

}  // namespace quire
