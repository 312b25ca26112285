// The input is a quantized matrix. The result must be an error, or rows that fit into their
// buffers.
//
// It has rows (1 byte), inputs / 16 (1 byte), the length of the configuration (2 bytes,
// little-endian), the configuration, and a safetensors or GGUF file whose module is "m".
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "weights/files/tensor_source.h"
#include "weights/quant/quant_matrix.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 4) return 0;
  const quire::MatrixShape shape{data[0], data[1] * int64_t{16}};
  const size_t config_bytes = data[2] + size_t{256} * data[3];
  if (size - 4 < config_bytes || shape.rows == 0 || shape.columns == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 4), config_bytes);
  const auto file = std::as_bytes(std::span(data + 4 + config_bytes, size - 4 - config_bytes));
  if (file.empty()) return 0;
  const bool is_gguf = file[0] == std::byte{'G'};
  std::vector<std::pair<std::string, std::span<const std::byte>>> blobs;
  blobs.emplace_back(is_gguf ? "input.gguf" : "model.safetensors", file);
  if (!is_gguf) blobs.emplace_back("config.json", file);
  const auto files = quire::ModelFiles::from_memory(std::move(blobs));
  const auto source = quire::TensorSource::open(files);
  if (!source.ok() || !quire::is_quantized_module(*source, "m")) return 0;
  const auto config = quire::QuantConfig::parse(text, "input");
  const auto matrix =
      quire::open_quant_matrix(*source, config.ok() ? *config : quire::QuantConfig(), "m", shape);
  if (!matrix.ok()) return 0;
  constexpr int64_t kAtOnce = 5;
  quire::QuantRowBuffer rows((*matrix)->spec(), shape.columns, kAtOnce);
  for (int64_t row = 0; row < shape.rows; row += kAtOnce) {
    const int64_t count = std::min(kAtOnce, shape.rows - row);
    static_cast<void>((*matrix)->read_rows(row, count, rows.at(0)).ok());
  }
  return 0;
}
