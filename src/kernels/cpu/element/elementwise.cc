// Norms, activations, soft cap, embedding and rotary tables. Rows, or ranges of elements, are split
// over the threads.
#include <algorithm>
#include <cmath>

#include "kernels/api/activation.h"
#include "kernels/api/embedding.h"
#include "kernels/api/kv_cache.h"
#include "kernels/api/norm.h"
#include "kernels/api/quant.h"
#include "kernels/api/rows/copy_rows.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/ops.h"

namespace quire {
namespace {

// With fewer elements, waking the team (about 1 us) costs more than it saves.
constexpr int64_t kCheapElements = 1 << 15;     // a few instructions per vector
constexpr int64_t kFunctionElements = 1 << 12;  // an exponential per vector
constexpr int64_t kSinCosElements = 64;         // libm calls

float table_element(const void* table, DType dtype, int64_t index) {
  if (dtype == DType::kBF16) return to_float(static_cast<const bfloat16*>(table)[index]);
  if (dtype == DType::kF16) return to_float(static_cast<const float16*>(table)[index]);
  return static_cast<const float*>(table)[index];
}

// Adds row `row` of a table to `out` [size].
void add_table_row(const void* table, DType dtype, int64_t row, float* out, int64_t size) {
  for (int64_t i = 0; i < size; ++i) out[i] += table_element(table, dtype, row * size + i);
}

// Returns the row of the table for a token of the batch.
int64_t table_row(const EmbeddingParams& params, int64_t token) {
  const TokenId id = params.token_ids[token];
  return params.num_rows > 0 && id >= params.num_rows ? 0 : id;
}

// Does embedding() with a quantized table.
void packed_embedding(Stream& stream, const EmbeddingParams& params) {
  const int64_t size = params.hidden_size;
  cpu::run_parallel(cpu::host(stream), params.num_tokens * size, kFunctionElements,
                    [&](int thread, int num_threads) {
                      const WorkRange mine = split_work(params.num_tokens, 1, thread, num_threads);
                      for (int64_t t = mine.begin; t < mine.end; ++t) {
                        float* out = params.out + t * size;
                        unpack_quant_row(*params.packed_table, table_row(params, t), out);
                        for (int64_t i = 0; i < size; ++i) out[i] *= params.scale;
                        if (params.position_table != nullptr) {
                          add_table_row(params.position_table, params.table_dtype,
                                        params.positions[t], out, size);
                        }
                        if (params.type_table != nullptr) {
                          add_table_row(params.type_table, params.table_dtype,
                                        params.token_types[t], out, size);
                        }
                      }
                    });
}

float softplus(float x) { return x > 20.0f ? x : std::log1p(std::exp(x)); }

// Does activation() for kXielu, with one exponential per element below 0.
void xielu(const HostStream& stream, const ActivationParams& params) {
  QUIRE_DCHECK(!params.gated && params.xielu != nullptr, "[activation] xIELU");
  const float above = softplus(params.xielu[0]);
  const float below = 0.5f + softplus(params.xielu[1]);
  const int64_t total = params.num_tokens * params.ffn_size;
  const float* x = params.x;
  float* out = params.out;
  cpu::run_parallel(stream, total, kFunctionElements, [&](int thread, int num_threads) {
    const WorkRange mine = split_work(total, 16, thread, num_threads);
    for (int64_t i = mine.begin; i < mine.end; ++i) {
      const float curve = x[i] > 0.0f ? above * x[i] * x[i] : below * (std::expm1(x[i]) - x[i]);
      out[i] = curve + 0.5f * x[i];
    }
  });
}

}  // namespace

void cpu::rms_norm(Stream& stream, const RmsNormParams& params) {
  const HostStream& cpu_stream = cpu::host(stream);
  const auto& kernels = cpu::element_kernels(cpu_stream.isa());
  const int64_t size = params.hidden_size;
  cpu::run_parallel(
      cpu_stream, params.num_tokens * size, kCheapElements, [&](int thread, int num_threads) {
        const WorkRange mine = split_work(params.num_tokens, 1, thread, num_threads);
        for (int64_t t = mine.begin; t < mine.end; ++t) {
          kernels.rms_norm(
              params.x + (params.rows != nullptr ? params.rows[t] : t) * size, params.weight,
              params.add_to != nullptr ? nullptr : params.out + t * size,
              params.add_to == nullptr ? nullptr : params.add_to + t * size, params.eps, size);
        }
      });
}

void cpu::layer_norm(Stream& stream, const LayerNormParams& params) {
  const HostStream& cpu_stream = cpu::host(stream);
  const auto& kernels = cpu::element_kernels(cpu_stream.isa());
  const int64_t size = params.hidden_size;
  cpu::run_parallel(
      cpu_stream, params.num_tokens * size, kCheapElements, [&](int thread, int num_threads) {
        const WorkRange mine = split_work(params.num_tokens, 1, thread, num_threads);
        for (int64_t t = mine.begin; t < mine.end; ++t) {
          kernels.layer_norm(params.x + (params.rows != nullptr ? params.rows[t] : t) * size,
                             params.weight, params.bias, params.out + t * size, params.eps, size);
        }
      });
}

void cpu::activation(Stream& stream, const ActivationParams& params) {
  if (params.activation == Activation::kXielu) return xielu(cpu::host(stream), params);
  const HostStream& cpu_stream = cpu::host(stream);
  const auto& kernels = cpu::element_kernels(cpu_stream.isa());
  const cpu::ActivationKind kind = cpu::activation_kind(params.activation);
  const int64_t f = params.ffn_size;
  const int64_t x_stride = params.gated ? 2 * f : f;
  const int64_t total = params.num_tokens * f;
  // Elements are independent, so a thread's range can begin and end inside a row.
  cpu::run_parallel(cpu_stream, total, kFunctionElements, [&](int thread, int num_threads) {
    const WorkRange mine = split_work(total, 16, thread, num_threads);
    int64_t at = mine.begin;
    while (at < mine.end) {
      const int64_t t = at / f;
      const int64_t column = at % f;
      const int64_t n = std::min(f - column, mine.end - at);
      const float* x = params.x + t * x_stride + column;
      kernels.activate(kind, x, params.gated ? x + f : nullptr, params.out + at, n);
      at += n;
    }
  });
}

void cpu::soft_cap(Stream& stream, const SoftCapParams& params) {
  const HostStream& cpu_stream = cpu::host(stream);
  const auto& kernels = cpu::element_kernels(cpu_stream.isa());
  cpu::run_parallel(cpu_stream, params.count, kFunctionElements, [&](int thread, int num_threads) {
    const WorkRange mine = split_work(params.count, 16, thread, num_threads);
    kernels.soft_cap(params.x + mine.begin, params.cap, mine.end - mine.begin);
  });
}

void cpu::sigmoid_scale(Stream& stream, const SigmoidScaleParams& params) {
  const float* x = params.x;
  float* out = params.out;
  const int64_t work = params.num_rows * params.row_size;
  cpu::run_parallel(cpu::host(stream), work, kCheapElements, [&](int thread, int num_threads) {
    const WorkRange mine = split_work(params.num_rows, 1, thread, num_threads);
    for (int64_t t = mine.begin; t < mine.end; ++t) {
      const float share = 1.0f / (1.0f + std::exp(-params.logits[t]));
      const int64_t first = t * params.row_size;
      for (int64_t i = first; i < first + params.row_size; ++i) out[i] = x[i] * share;
    }
  });
}

void cpu::embedding(Stream& stream, const EmbeddingParams& params) {
  if (params.packed_table != nullptr) return packed_embedding(stream, params);
  const HostStream& cpu_stream = cpu::host(stream);
  const auto& kernels = cpu::element_kernels(cpu_stream.isa());
  const cpu::Storage storage = cpu::storage_of(params.table_dtype);
  const int64_t size = params.hidden_size;
  const int64_t row_bytes = size * size_bytes(params.table_dtype);
  const auto* table = static_cast<const uint8_t*>(params.table);
  const auto* position_table = static_cast<const uint8_t*>(params.position_table);
  cpu::run_parallel(
      cpu_stream, params.num_tokens * size, kCheapElements, [&](int thread, int num_threads) {
        const WorkRange mine = split_work(params.num_tokens, 1, thread, num_threads);
        for (int64_t t = mine.begin; t < mine.end; ++t) {
          const void* position_row = position_table == nullptr
                                         ? nullptr
                                         : position_table + params.positions[t] * row_bytes;
          kernels.embed(storage, table + table_row(params, t) * row_bytes, params.scale,
                        position_row, params.out + t * size, size);
          if (params.type_table != nullptr) {
            add_table_row(params.type_table, params.table_dtype, params.token_types[t],
                          params.out + t * size, size);
          }
        }
      });
}

void cpu::rope_table(Stream& stream, const RopeTableParams& params) {
  const int64_t half = params.rotary_dim / 2;
  const int64_t work = params.num_tokens * half;
  cpu::run_parallel(cpu::host(stream), work, kSinCosElements, [&](int thread, int num_threads) {
    const WorkRange mine = split_work(params.num_tokens, 1, thread, num_threads);
    for (int64_t t = mine.begin; t < mine.end; ++t) {
      for (int64_t i = 0; i < half; ++i) {
        const double angle = params.positions[t] * params.inv_freq[i];
        params.cos[t * half + i] = static_cast<float>(std::cos(angle) * params.scale);
        params.sin[t * half + i] = static_cast<float>(std::sin(angle) * params.scale);
      }
    }
  });
}

void cpu::query_scales(Stream& /*stream*/, const QueryScalesParams& params) {
  for (int64_t t = 0; t < params.num_tokens; ++t) {
    const auto spans = static_cast<double>((params.positions[t] + params.first) / params.span);
    params.out[t] = static_cast<float>(1.0 + params.beta * std::log1p(spans));
  }
}

void cpu::copy_rows(Stream& stream, const CopyRowsParams& params) {
  const float* const x = params.x;
  float* const out = params.out;
  cpu::run_parallel(cpu::host(stream), params.num_tokens * params.size, kCheapElements,
                    [&](int thread, int num_threads) {
                      const WorkRange mine = split_work(params.num_tokens, 1, thread, num_threads);
                      for (int64_t t = mine.begin; t < mine.end; ++t) {
                        float* const row = out + t * params.out_stride;
                        if (params.positions != nullptr && params.positions[t] == 0) {
                          std::fill_n(row, params.size, 0.0f);
                        } else {
                          std::copy_n(x + t * params.x_stride, params.size, row);
                        }
                      }
                    });
}

void cpu::place_floats(Stream& /*stream*/, const PlaceFloatsParams& params) {
  std::copy_n(params.values, params.count, params.out);
}

}  // namespace quire
