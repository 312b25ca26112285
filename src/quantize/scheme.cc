#include "quantize/scheme.h"

#include <fmt/format.h>

#include <array>
#include <boost/json/array.hpp>
#include <cstring>

#include "quantize/rounding.h"

namespace quire {
namespace {

const std::vector<WriteScheme>& schemes() {
  static const std::vector<WriteScheme> kSchemes = {
      {.name = "int8", .bits = 8, .int8_activations = true},
      {.name = "int8-weights", .bits = 8, .packed = true},
      {.name = "int4-g32", .bits = 4, .packed = true, .group_size = 32},
      {.name = "int4-g64", .bits = 4, .packed = true, .group_size = 64},
      {.name = "int4-g128", .bits = 4, .packed = true, .group_size = 128},
      {.name = "fp8", .bits = 8, .is_float = true, .fp8_activations = true},
  };
  return kSchemes;
}

std::string_view type_name(DType dtype) {
  return dtype == DType::kF16 ? "F16" : dtype == DType::kBF16 ? "BF16" : "F32";
}

int64_t element_bytes(std::string_view type_name) {
  if (type_name == "I64") return 8;
  if (type_name == "F32" || type_name == "I32") return 4;
  return type_name == "F16" || type_name == "BF16" ? 2 : 1;
}

int64_t num_groups(const WriteScheme& scheme, int64_t columns) {
  return scheme.group_size == -1 ? 1 : columns / scheme.group_size;
}

void write_scale(float scale, DType dtype, std::byte* out) {
  if (dtype == DType::kF32) {
    std::memcpy(out, &scale, 4);
    return;
  }
  const uint16_t half = dtype == DType::kF16 ? to_float16(scale).bits : to_bfloat16(scale).bits;
  std::memcpy(out, &half, 2);
}

float fp8_scale(std::span<const float> row) {
  const float largest = largest_magnitude(row);
  return largest > 0.0f ? largest / 448.0f : 1.0f;
}

struct RowTarget {
  std::byte* codes;
  std::byte* scales;
};

// Writes one row in the scheme's own layout. `scratch` holds the columns' codes and the row's
// scales.
class RowWriter {
 public:
  RowWriter(const WriteScheme& scheme, int64_t columns, DType dtype)
      : scheme_(scheme),
        dtype_(dtype),
        codes_(static_cast<size_t>(columns)),
        words_(static_cast<size_t>((columns * scheme.bits + 31) / 32)),
        scales_(static_cast<size_t>(num_groups(scheme, columns))) {}

  void write(std::span<const float> row, const RowTarget& out) {
    if (scheme_.packed) {
      const int64_t group =
          scheme_.group_size == -1 ? static_cast<int64_t>(row.size()) : scheme_.group_size;
      round_to_groups(row, scheme_.bits, group, dtype_, codes_, scales_);
      pack_words(codes_, scheme_.bits, words_);
      std::memcpy(out.codes, words_.data(), words_.size() * 4);
      for (size_t g = 0; g < scales_.size(); ++g) {
        write_scale(scales_[g], dtype_, out.scales + static_cast<int64_t>(g) * size_bytes(dtype_));
      }
      return;
    }
    float scale = 1.0f;
    if (scheme_.is_float) {
      scale = fp8_scale(row);
      round_to_e4m3(row, scale, codes_);
      std::memcpy(out.codes, codes_.data(), codes_.size());
    } else {
      scale = round_to_int8(row, {reinterpret_cast<int8_t*>(out.codes), row.size()});
    }
    write_scale(scale, DType::kF32, out.scales);
  }

 private:
  const WriteScheme& scheme_;
  DType dtype_;
  std::vector<uint8_t> codes_;
  std::vector<uint32_t> words_;
  std::vector<float> scales_;
};

boost::json::object activations(std::string_view type) {
  return {{"num_bits", 8},     {"type", boost::json::string_view(type.data(), type.size())},
          {"symmetric", true}, {"strategy", "token"},
          {"dynamic", true},   {"observer", nullptr}};
}

}  // namespace

Result<WriteScheme> parse_write_scheme(std::string_view name) {
  for (const WriteScheme& scheme : schemes()) {
    if (scheme.name == name) return scheme;
  }
  return invalid_argument("--to: expected one of {}; got '{}'", known_write_schemes(), name);
}

std::string known_write_schemes() {
  std::string list;
  for (const WriteScheme& scheme : schemes()) list += (list.empty() ? "" : ", ") + scheme.name;
  return list;
}

int64_t WriteTensor::bytes() const {
  int64_t count = element_bytes(type_name);
  for (const int64_t extent : shape) count *= extent;
  return count;
}

bool fits(const WriteScheme& scheme, int64_t columns) {
  return scheme.group_size == -1 || columns % scheme.group_size == 0;
}

std::vector<WriteTensor> module_tensors(const WriteScheme& scheme, std::string_view module,
                                        int64_t rows, int64_t columns, DType dtype) {
  const auto name = [&](std::string_view suffix) { return fmt::format("{}.{}", module, suffix); };
  if (scheme.packed) {
    return {{name("weight_packed"), "I32", {rows, (columns * scheme.bits + 31) / 32}},
            {name("weight_scale"), type_name(dtype), {rows, num_groups(scheme, columns)}},
            {name("weight_shape"), "I64", {2}}};
  }
  return {{name("weight"), scheme.is_float ? "F8_E4M3" : "I8", {rows, columns}},
          {name("weight_scale"), "F32", {rows, 1}}};
}

std::vector<std::vector<std::byte>> quantize_module(const WriteScheme& scheme, ThreadTeam& team,
                                                    std::span<const float> weights, int64_t rows,
                                                    int64_t columns, DType dtype) {
  std::vector<std::vector<std::byte>> bytes;
  for (const WriteTensor& tensor : module_tensors(scheme, "", rows, columns, dtype)) {
    bytes.emplace_back(static_cast<size_t>(tensor.bytes()));
  }
  if (scheme.packed) {
    const int64_t shape[2] = {rows, columns};
    std::memcpy(bytes[2].data(), shape, sizeof shape);
  }
  const int64_t code_bytes = static_cast<int64_t>(bytes[0].size()) / rows;
  const int64_t scale_bytes = static_cast<int64_t>(bytes[1].size()) / rows;
  team.run([&](int thread) {
    RowWriter writer(scheme, columns, dtype);
    const WorkRange mine = split_work(rows, 1, thread, team.size());
    for (int64_t row = mine.begin; row < mine.end; ++row) {
      writer.write(
          weights.subspan(static_cast<size_t>(row * columns), static_cast<size_t>(columns)),
          {bytes[0].data() + row * code_bytes, bytes[1].data() + row * scale_bytes});
    }
  });
  return bytes;
}

void round_trip(const WriteScheme& scheme, DType dtype, std::span<const float> row,
                std::span<float> rounded) {
  if (scheme.packed) {
    const auto group =
        scheme.group_size == -1 ? row.size() : static_cast<size_t>(scheme.group_size);
    std::vector<uint8_t> codes(row.size());
    std::vector<float> scales((row.size() + group - 1) / group);
    round_to_groups(row, scheme.bits, static_cast<int64_t>(group), dtype, codes, scales);
    const float middle = static_cast<float>(1 << (scheme.bits - 1));
    for (size_t i = 0; i < row.size(); ++i) {
      rounded[i] = (static_cast<float>(codes[i]) - middle) * scales[i / group];
    }
    return;
  }
  if (scheme.is_float) {
    const float scale = fp8_scale(row);
    for (size_t i = 0; i < row.size(); ++i) rounded[i] = from_e4m3(to_e4m3(row[i] / scale)) * scale;
    return;
  }
  std::vector<int8_t> codes(row.size());
  const float scale = round_to_int8(row, codes);
  for (size_t i = 0; i < row.size(); ++i) rounded[i] = static_cast<float>(codes[i]) * scale;
}

boost::json::object quantization_config(const WriteScheme& scheme,
                                        const std::vector<std::string>& ignored) {
  const bool grouped = scheme.group_size != -1;
  boost::json::object weights{
      {"num_bits", scheme.bits}, {"type", scheme.is_float ? "float" : "int"},
      {"symmetric", true},       {"strategy", grouped ? "group" : "channel"},
      {"group_size", nullptr},   {"dynamic", false},
      {"actorder", nullptr}};
  if (grouped) weights["group_size"] = scheme.group_size;
  boost::json::object group{{"targets", boost::json::array{"Linear"}},
                            {"weights", std::move(weights)},
                            {"input_activations", nullptr},
                            {"output_activations", nullptr}};
  if (scheme.int8_activations) group["input_activations"] = activations("int");
  if (scheme.fp8_activations) group["input_activations"] = activations("float");
  boost::json::array ignore;
  for (const std::string& module : ignored) {
    ignore.emplace_back(boost::json::string(module.data(), module.size()));
  }
  const char* format = scheme.packed     ? "pack-quantized"
                       : scheme.is_float ? "float-quantized"
                                         : "int-quantized";
  return {{"quant_method", "compressed-tensors"},
          {"format", format},
          {"quantization_status", "compressed"},
          {"config_groups", boost::json::object{{"group_0", std::move(group)}}},
          {"ignore", std::move(ignore)},
          {"kv_cache_scheme", nullptr}};
}

}  // namespace quire
