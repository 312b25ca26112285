// What an mmproj file says, key by key: not a door for other folders.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "weights/gguf/gguf.h"

namespace quire {

// The first thing that does not fit is kept; whoever reads asks once, at the end.
class MmprojFields {
 public:
  explicit MmprojFields(const GgufFile& file) : file_(file) {}

  const Status& status() const { return status_; }
  void fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  // Keys are those behind "clip.vision.".
  const GgufValue* find(std::string_view key) const {
    return file_.find(fmt::format("clip.vision.{}", key));
  }
  std::optional<int64_t> optional_integer(std::string_view key);
  int64_t integer(std::string_view key);  // required, above 0
  std::optional<double> number(std::string_view key);
  bool flag(std::string_view whole_key) const;  // absent is false

  // Null: there is none.
  const RawTensor* tensor(std::string_view name) const;
  bool has_tensor(std::string_view name) const { return tensor(name) != nullptr; }
  // Rows of a matrix or a table that the file must have.
  int64_t rows(std::string_view name);

  // Whether the file has the two layers of MLPs under each other's names, as converters long wrote
  // them: told by the width of what they read.
  bool has_swapped_mlps() const;

 private:
  const GgufFile& file_;
  Status status_;
};

// "mlp", "gemma3", "qwen2.5vl_merger", …; empty: the file says none.
std::string_view mmproj_type(const GgufFile& file);

}  // namespace quire
