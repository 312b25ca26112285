// A WriteScheme is what `quire quantize --to` writes: the tensors of one linear layer and the entry
// of config.json.
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
  bool packed = false;            // pack-quantized, else one byte per weight
  int64_t group_size = -1;        // inputs per scale; -1: a scale per output
  bool int8_activations = false;  // products of int8 with int8
  bool fp8_activations = false;   // said in the file for engines that have them
};

// kInvalidArgument lists the known names.
Result<WriteScheme> parse_write_scheme(std::string_view name);
std::string known_write_schemes();

// A WriteTensor is one tensor to be written.
struct WriteTensor {
  std::string name;
  std::string_view type_name;  // of safetensors; static storage
  std::vector<int64_t> shape;
  int64_t bytes() const;
};

// Returns whether a matrix of so many inputs can be written in the scheme: groups must fill rows.
bool fits(const WriteScheme& scheme, int64_t columns);

// Returns the tensors of a module, in the order in which quantize_module() gives them. `dtype` is
// that of the float weights, which group scales take.
std::vector<WriteTensor> module_tensors(const WriteScheme& scheme, std::string_view module,
                                        int64_t rows, int64_t columns, DType dtype);

// `weights` are [rows, columns] in float32. Returns the bytes of each of module_tensors(). It works
// on all threads.
std::vector<std::vector<std::byte>> quantize_module(const WriteScheme& scheme, ThreadTeam& team,
                                                    std::span<const float> weights, int64_t rows,
                                                    int64_t columns, DType dtype);

// Returns what a row of weights is after quantizing and reading it back.
void round_trip(const WriteScheme& scheme, DType dtype, std::span<const float> row,
                std::span<float> rounded);

// Returns config.json's quantization_config. `ignored` names modules that stay float.
boost::json::object quantization_config(const WriteScheme& scheme,
                                        const std::vector<std::string>& ignored);

}  // namespace quire
