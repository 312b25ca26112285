// Converts activations to FP8: a block per row, or half a warp per group of 128 inputs of a row,
// finds the largest magnitude and then rounds.
#include "kernels/cuda/float8.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/linear/fp8_linear.h"

namespace quire::cuda {
namespace {

constexpr int kHeld = 2;  // pieces of a row in each thread's registers
constexpr float kLargestE4M3 = 448.0f;

struct QuantizeArgs {
  const bfloat16* x = nullptr;
  int64_t x_stride = 0;
  int64_t k = 0;
  uint8_t* codes = nullptr;
  float* scales = nullptr;
};

QUIRE_DEVICE float magnitude(float x) {
  return ptx::bits_to_float(ptx::float_to_bits(x) & 0x7fffffffu);
}

// Returns the same in every thread. NaN is ignored.
template <int kThreads>
QUIRE_DEVICE float block_max(float x, float* scratch) {
  x = warp_max(x);
  if (ptx::thread_index() % 32 == 0) scratch[ptx::thread_index() / 32] = x;
  ptx::sync_threads();
  const int lane = ptx::thread_index() % 32;
  return warp_max(lane < kThreads / 32 ? scratch[lane] : 0.0f);
}

// A thread takes every kThreads-th piece of N inputs. It keeps the first kHeld of them in
// registers, and reads all others twice.
template <int N, int kThreads>
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kThreads, 1) quantize_kernel(const QuantizeArgs args) {
  ptx::wait_for_previous_kernel();
  ptx::let_next_kernel_start();
  const int64_t row = ptx::block_index();
  const bfloat16* x = args.x + row * args.x_stride;
  uint8_t* codes = args.codes + row * args.k;
  const auto num_pieces = static_cast<int>(args.k / N);
  using Piece = Elements<N, bfloat16>;
  const auto piece_at = [&](int i) { return *reinterpret_cast<const Piece*>(x + int64_t{i} * N); };
  Piece held[kHeld] = {};
  float largest = 0.0f;
  const auto look_at = [&](const Piece& piece) {
#pragma unroll
    for (const bfloat16 value : piece.at) largest = ptx::max(largest, magnitude(widen(value)));
  };
#pragma unroll
  for (int j = 0; j < kHeld; ++j) {
    const int i = ptx::thread_index() + j * kThreads;
    if (i < num_pieces) held[j] = piece_at(i);
  }
#pragma unroll
  for (const Piece& piece : held) look_at(piece);
  for (int i = ptx::thread_index() + kHeld * kThreads; i < num_pieces; i += kThreads)
    look_at(piece_at(i));
  largest = block_max<kThreads>(largest, reinterpret_cast<float*>(ptx::shared_memory()));
  const float scale = largest == 0.0f ? 1.0f : ptx::divide(largest, kLargestE4M3);
  const auto round = [&](const Piece& piece, int i) {
    Elements<N, uint8_t> out;
#pragma unroll
    for (int j = 0; j < N; ++j) out.at[j] = narrow_e4m3(ptx::divide(widen(piece.at[j]), scale));
    *reinterpret_cast<Elements<N, uint8_t>*>(codes + int64_t{i} * N) = out;
  };
#pragma unroll
  for (int j = 0; j < kHeld; ++j) {
    const int i = ptx::thread_index() + j * kThreads;
    if (i < num_pieces) round(held[j], i);
  }
  for (int i = ptx::thread_index() + kHeld * kThreads; i < num_pieces; i += kThreads)
    round(piece_at(i), i);
  if (ptx::thread_index() == 0) args.scales[row] = scale;
}

constexpr int kGroupThreads = 256;
constexpr int kGroupLanes = 16;  // of a group
constexpr int kLaneInputs = kFp8GroupInputs / kGroupLanes;

struct GroupArgs {
  QuantizeArgs rows;
  int64_t num_rows = 0;
  int64_t groups = 0;
  int64_t scale_stride = 0;
  bool in_eights = false;  // x can be read in pieces of 16 bytes
};

// K is a multiple of 16, so a lane has either all of its inputs or none. Every lane takes part in
// the search for the largest magnitude.
QUIRE_KERNEL QUIRE_BLOCK_BOUNDS(kGroupThreads, 1) quantize_groups_kernel(const GroupArgs args) {
  ptx::let_next_kernel_start();  // the next kernel fetches its weight meanwhile
  ptx::wait_for_previous_kernel();
  const int64_t at = int64_t{ptx::block_index()} * kGroupThreads + ptx::thread_index();
  const int64_t row = at / kGroupLanes / args.groups;
  const int64_t group = at / kGroupLanes % args.groups;
  const int lane = static_cast<int>(at % kGroupLanes);
  const int64_t input = group * kFp8GroupInputs + lane * kLaneInputs;
  const bool is_there = row < args.num_rows && input < args.rows.k;
  Elements<kLaneInputs, bfloat16> x{};
  if (is_there) {
    const bfloat16* from = args.rows.x + row * args.rows.x_stride + input;
    if (args.in_eights) {
      x = *reinterpret_cast<const Elements<kLaneInputs, bfloat16>*>(from);
    } else {
#pragma unroll
      for (int i = 0; i < kLaneInputs; ++i) x.at[i] = from[i];
    }
  }
  float largest = 0.0f;
#pragma unroll
  for (const bfloat16 value : x.at) largest = ptx::max(largest, magnitude(widen(value)));
#pragma unroll
  for (int mask = kGroupLanes / 2; mask >= 1; mask /= 2)
    largest = ptx::max(largest, ptx::shuffle_xor(largest, mask));
  const float scale = largest == 0.0f ? 1.0f : ptx::divide(largest, kLargestE4M3);
  if (is_there) {
    Elements<kLaneInputs, uint8_t> codes;
#pragma unroll
    for (int i = 0; i < kLaneInputs; ++i)
      codes.at[i] = narrow_e4m3(ptx::divide(widen(x.at[i]), scale));
    *reinterpret_cast<Elements<kLaneInputs, uint8_t>*>(args.rows.codes + row * args.rows.k +
                                                       input) = codes;
  }
  if (row < args.num_rows && lane == 0) args.rows.scales[group * args.scale_stride + row] = scale;
}

bool is_in_eights(ConstActivations x, int64_t x_stride, int64_t k) {
  return k % 8 == 0 && x_stride % 8 == 0 && reinterpret_cast<uintptr_t>(x.data()) % 16 == 0;
}

template <int N, int kThreads>
void launch_threads(Stream& stream, int64_t num_rows, const QuantizeArgs& args) {
  launch<quantize_kernel<N, kThreads>>(stream,
                                       {.num_blocks = num_rows,
                                        .num_threads = kThreads,
                                        .shared_bytes = kThreads / 32 * int64_t{sizeof(float)}},
                                       args);
}

// With few rows most of the GPU is idle, so a row gets the largest possible block.
template <int N>
void launch_pieces(Stream& stream, int64_t num_rows, const QuantizeArgs& args) {
  const bool is_large = num_rows <= gpu(stream).info().num_sms && args.k / N > 256;
  is_large ? launch_threads<N, 1024>(stream, num_rows, args)
           : launch_threads<N, 256>(stream, num_rows, args);
}

}  // namespace

void quantize_rows(Stream& stream, ConstActivations x, int64_t x_stride, int64_t num_rows,
                   int64_t k, const Fp8Rows& out) {
  QUIRE_CHECK(x.dtype() == DType::kBF16, "[quantize_rows] a GPU wants bf16 inputs, got {}",
              to_string(x.dtype()));
  const QuantizeArgs args{.x = static_cast<const bfloat16*>(x.data()),
                          .x_stride = x_stride,
                          .k = k,
                          .codes = out.codes,
                          .scales = out.scales};
  is_in_eights(x, x_stride, k) ? launch_pieces<8>(stream, num_rows, args)
                               : launch_pieces<1>(stream, num_rows, args);
}

void quantize_groups(Stream& stream, ConstActivations x, int64_t x_stride, int64_t num_rows,
                     int64_t k, int64_t groups, const Fp8Rows& out) {
  QUIRE_CHECK(x.dtype() == DType::kBF16 && k % kGroupLanes == 0,
              "[quantize_groups] a GPU wants bf16 inputs, got {} inputs of {}", k,
              to_string(x.dtype()));
  const GroupArgs args{.rows = {.x = static_cast<const bfloat16*>(x.data()),
                                .x_stride = x_stride,
                                .k = k,
                                .codes = out.codes,
                                .scales = out.scales},
                       .num_rows = num_rows,
                       .groups = groups,
                       .scale_stride = out.scale_stride,
                       .in_eights = is_in_eights(x, x_stride, k)};
  const int64_t threads = num_rows * groups * kGroupLanes;
  launch<quantize_groups_kernel>(
      stream,
      {.num_blocks = (threads + kGroupThreads - 1) / kGroupThreads, .num_threads = kGroupThreads},
      args);
}

}  // namespace quire::cuda
