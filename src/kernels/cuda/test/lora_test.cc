// Low-rank updates on a GPU: compared with the reference, and law L4 for rows among others.
#include "kernels/api/lora.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "kernels/cuda/test/test_device.h"
#include "kernels/testing/test_support.h"

namespace quire {
namespace {

using kernel_test::random_floats;

struct PartCase {
  int64_t first_output, num_outputs, rank;
  bool has_bias = false;
  bool has_gains = false;
};

std::vector<uint16_t> bf16_bits(const std::vector<float>& values) {
  std::vector<uint16_t> bits;
  for (const float value : values) bits.push_back(to_bfloat16(value).bits);
  return bits;
}

// Returns the rows, padded with zeros to `columns`.
std::vector<uint16_t> padded_rows(const std::vector<uint16_t>& rows, int64_t columns) {
  const int64_t num_rows = std::ssize(rows) / columns, width = padded_lora_row(columns);
  std::vector<uint16_t> padded(static_cast<size_t>(num_rows * width));
  for (int64_t row = 0; row < num_rows; ++row)
    std::copy_n(rows.begin() + row * columns, columns, padded.begin() + row * width);
  return padded;
}

class GpuLora : public gpu_test::GpuTest {
 protected:
  static constexpr int64_t kOutputs = 58;
  static constexpr int32_t kParts = 3;

  // The slots of one matrix: what the device reads, and the same for the reference.
  struct Slots {
    int64_t k = 0;
    int64_t max_rank = 0;
    std::vector<std::vector<LoraPart>> host;  // by slot
    std::vector<std::vector<const void*>> b_rows;
    const LoraPart* device = nullptr;
    std::deque<std::vector<uint16_t>> matrices;
    std::deque<std::vector<float>> vectors;
  };

  LoraPart add_part(Slots& slots, const PartCase& c, uint64_t seed) {
    const auto& a =
        slots.matrices.emplace_back(bf16_bits(random_floats(seed, c.rank * slots.k, 0.3f)));
    const auto& b = slots.matrices.emplace_back(
        bf16_bits(random_floats(seed + 1, c.num_outputs * c.rank, 0.3f)));
    LoraPart host{.first_output = c.first_output,
                  .num_outputs = c.num_outputs,
                  .rank = c.rank,
                  .a = a.data(),
                  .scale = 0.75f};
    LoraPart device = host;
    device.a = upload(padded_rows(a, slots.k));
    device.b = upload(padded_rows(b, c.rank));
    const auto vector = [&](bool has, uint64_t number, const float*& to) {
      if (!has) return static_cast<const float*>(nullptr);
      to = slots.vectors.emplace_back(random_floats(number, c.num_outputs)).data();
      return static_cast<const float*>(upload(slots.vectors.back()));
    };
    device.bias = vector(c.has_bias, seed + 2, host.bias);
    device.gain = vector(c.has_gains, seed + 3, host.gain);
    device.base_gain = vector(c.has_gains, seed + 4, host.base_gain);
    slots.host.back().push_back(host);
    slots.b_rows.back().push_back(b.data());
    slots.max_rank = std::max(slots.max_rank, padded_lora_row(c.rank));
    return device;
  }

  Slots make_slots(int64_t k, const std::vector<std::vector<PartCase>>& adapters) {
    Slots slots{.k = k};
    std::vector<LoraPart> table(adapters.size() * kParts);
    for (size_t slot = 0; slot < adapters.size(); ++slot) {
      slots.host.emplace_back();
      slots.b_rows.emplace_back();
      for (size_t i = 0; i < adapters[slot].size(); ++i)
        table[slot * kParts + i] = add_part(slots, adapters[slot][i], 1000 * slot + 10 * i + 7);
    }
    slots.device = upload(table);
    return slots;
  }

  // Runs the rows [first, first + count) of the batch. `order` is as in the step inputs.
  std::vector<float> run(const Slots& slots, const std::vector<int32_t>& slot_of, int64_t first,
                         int64_t count, DType y_type, bool ordered, bool scaled = false) {
    const int64_t num_rows = std::ssize(slot_of), width = slots.k + 3;
    std::vector<int32_t> order;
    for (int32_t slot = 0; slot < std::ssize(slots.host); ++slot) {
      for (int64_t i = 0; i < count; ++i)
        if (slot_of[static_cast<size_t>(first + i)] == slot)
          order.push_back(static_cast<int32_t>(i));
    }
    order.resize(static_cast<size_t>(count), -1);
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(first + i));
    const auto x = upload_as(DType::kBF16, random_floats(1, num_rows * width));
    const auto y = upload_as(y_type, random_floats(2, num_rows * kOutputs));
    LoraSlotsParams params{.x = x.from(first * width),
                           .x_stride = width,
                           .k = slots.k,
                           .parts = slots.device,
                           .slot_stride = kParts,
                           .num_parts = kParts,
                           .max_rank = slots.max_rank,
                           .slots = upload(slot_of),
                           .tokens = upload(tokens),
                           .order = ordered ? upload(order) : nullptr,
                           .num_rows = count,
                           .y = y.from(first * kOutputs),
                           .y_stride = kOutputs,
                           .num_outputs = kOutputs,
                           .workspace = static_cast<float*>(poisoned(
                               lora_workspace_floats(count, kParts * slots.max_rank) * 4))};
    shrink_lora(stream(), params);
    expand_lora(stream(), params);
    if (scaled) {
      params.base = upload(random_floats(3, num_rows * kOutputs)) + first * kOutputs;
      params.base_stride = kOutputs;
      expand_lora(stream(), params);
    }
    auto got = download_floats(y, num_rows * kOutputs);
    return {got.begin() + first * kOutputs, got.begin() + (first + count) * kOutputs};
  }

  std::vector<float> reference(const Slots& slots, const std::vector<int32_t>& slot_of,
                               DType y_type) {
    const int64_t num_rows = std::ssize(slot_of), width = slots.k + 3;
    const auto x = gpu_test::rounded(random_floats(1, num_rows * width));
    auto y = random_floats(2, num_rows * kOutputs);
    if (y_type == DType::kBF16) y = gpu_test::rounded(y);
    const auto base = random_floats(3, num_rows * kOutputs);
    for (int32_t row = 0; row < num_rows; ++row) {
      const int32_t slot = slot_of[static_cast<size_t>(row)];
      if (slot < 0) continue;
      const LoraSegment segment{.rows = {&row, 1},
                                .parts = slots.host[static_cast<size_t>(slot)],
                                .base = base.data() + row * kOutputs,
                                .base_stride = kOutputs};
      ref::apply_lora({.x = x.data(),
                       .x_stride = width,
                       .k = slots.k,
                       .segments = {&segment, 1},
                       .dtype = DType::kBF16,
                       .y = y.data(),
                       .y_stride = kOutputs,
                       .workspace = nullptr},
                      {&slots.b_rows[static_cast<size_t>(slot)], 1});
    }
    return y;
  }
};

std::vector<int32_t> mixed_slots(int64_t num_rows, int32_t num_slots) {
  std::vector<int32_t> slots;
  for (uint32_t row = 0; row < num_rows; ++row)
    slots.push_back(static_cast<int32_t>(philox4x32(4, {row, 0, 0, 0})[0] % (num_slots + 1u)) - 1);
  return slots;
}

TEST_F(GpuLora, MatchesReference) {
  for (const int64_t rank : {1, 8, 16, 64, 256}) {
    for (const int64_t k : {5, 64, 1101}) {
      const Slots slots = make_slots(k, {{{0, 37, rank}, {37, 16, 4, true}, {53, 5, 1}},
                                         {{37, 16, rank, true, true}},
                                         {{0, kOutputs, 3, false, false}}});
      for (const DType type : {DType::kF32, DType::kBF16}) {
        const auto slot_of = mixed_slots(rank == 16 ? 11 : 3, 3);
        const auto got = run(slots, slot_of, 0, std::ssize(slot_of), type, true, true);
        const auto want = reference(slots, slot_of, type);
        for (size_t i = 0; i < got.size(); ++i) {
          const double tolerance = type == DType::kBF16 ? 1e-2 : 2e-5;
          ASSERT_NEAR(got[i], want[i],
                      tolerance * (1.0 + std::abs(want[i]) + 0.1 * static_cast<double>(rank)))
              << "rank " << rank << ", k " << k << ", element " << i;
        }
      }
    }
  }
}

// One, four and eight rows per block, ordered by slot or not; rows without an adapter do not
// change.
TEST_F(GpuLora, RowsAreAsAlone) {
  const Slots slots = make_slots(300, {{{0, 37, 16}, {37, 16, 4, true}}, {{0, kOutputs, 9}}});
  for (const int64_t num_rows : {3, 21, 140}) {
    const auto slot_of = mixed_slots(num_rows, 2);
    for (const DType type : {DType::kF32, DType::kBF16}) {
      const auto all = run(slots, slot_of, 0, num_rows, type, true);
      const auto unordered = run(slots, slot_of, 0, num_rows, type, false);
      EXPECT_TRUE(kernel_test::same_bits(all.data(), unordered.data(), std::ssize(all)));
      for (int64_t row = 0; row < num_rows; row += num_rows / 3) {
        const auto alone = run(slots, slot_of, row, 1, type, true);
        EXPECT_TRUE(kernel_test::same_bits(alone.data(), all.data() + row * kOutputs, kOutputs))
            << "row " << row << " of " << num_rows;
      }
      const auto none = run(slots, std::vector<int32_t>(static_cast<size_t>(num_rows), -1), 0,
                            num_rows, type, true);
      for (int64_t row = 0; row < num_rows; ++row) {
        const bool is_same = kernel_test::same_bits(none.data() + row * kOutputs,
                                                    all.data() + row * kOutputs, kOutputs);
        EXPECT_EQ(is_same, slot_of[static_cast<size_t>(row)] < 0) << row;
      }
    }
  }
}

}  // namespace
}  // namespace quire
