// A WriteScheme describes a target of `quire quantize --to`: the tensors of one linear layer and
// the entry in config.json.
#pragma once

#include <boost/json/object.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "base/threads/thread_team.h"

namespace quire {

struct WriteScheme {
  std::string name;  // "int4-g128"
  int bits = 8;
  bool is_float = false;          // e4m3
  bool packed = false;            // pack-quantized; false: one byte per weight
  int64_t group_size = -1;        // inputs per scale; -1: a scale per output
  bool int8_activations = false;  // products of int8 with int8
  bool fp8_activations = false;   // stated in the file, for engines that support them
};

// kInvalidArgument lists the known names.
Result<WriteScheme> parse_write_scheme(std::string_view name);
std::string known_write_schemes();

// A tensor to be written.
struct WriteTensor {
  std::string name;
  std::string_view type_name;  // as in safetensors; static storage
  std::vector<int64_t> shape;
  int64_t bytes() const;
};

// Returns whether the scheme can store a matrix with this number of inputs: whole groups must fill
// a row.
bool fits(const WriteScheme& scheme, int64_t columns);

// Returns the tensors of a module, in the order of quantize_module(). `dtype` is that of the float
// weights, which group scales use, too.
std::vector<WriteTensor> module_tensors(const WriteScheme& scheme, std::string_view module,
                                        int64_t rows, int64_t columns, DType dtype);

// `weights` are [rows, columns] in float32. Returns the bytes of each of module_tensors(). It works
// on all threads.
std::vector<std::vector<std::byte>> quantize_module(const WriteScheme& scheme, ThreadTeam& team,
                                                    std::span<const float> weights, int64_t rows,
                                                    int64_t columns, DType dtype);

// Computes the row of weights that quantizing and reading back gives.
void round_trip(const WriteScheme& scheme, DType dtype, std::span<const float> row,
                std::span<float> rounded);

// Returns the quantization_config of config.json. `ignored` names the modules that stay float.
boost::json::object quantization_config(const WriteScheme& scheme,
                                        const std::vector<std::string>& ignored);

}  // namespace quire
