#include "kernels/api/lora.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

#include "kernels/testing/test_support.h"

namespace quire {
namespace {

using kernel_test::Buffer;
using kernel_test::Host;
using kernel_test::random_floats;

struct PartCase {
  int64_t first_output, num_outputs, rank;
  bool has_bias = false;
  bool has_gains = false;
};

// The matrices of an adapter's parts, as files have them and as the kernels do.
struct Adapter {
  Adapter(std::vector<PartCase> cases, int64_t k, DType dtype, uint64_t seed) {
    for (const PartCase& c : cases) {
      const Buffer& a =
          buffers.emplace_back(kernel_test::stored(dtype, random_floats(++seed, c.rank * k, 0.3f)));
      const Buffer& rows = buffers.emplace_back(
          kernel_test::stored(dtype, random_floats(++seed, c.num_outputs * c.rank, 0.3f)));
      Buffer& packed =
          buffers.emplace_back(lora_b_elements(c.num_outputs, c.rank) * size_bytes(dtype));
      pack_lora_b(const_cast<Buffer&>(rows).data(), c.num_outputs, c.rank, size_bytes(dtype),
                  packed.data());
      const auto vector = [&](bool has) {
        return has ? vectors.emplace_back(random_floats(++seed, c.num_outputs)).data() : nullptr;
      };
      b_rows.push_back(const_cast<Buffer&>(rows).data());
      parts.push_back({.first_output = c.first_output,
                       .num_outputs = c.num_outputs,
                       .rank = c.rank,
                       .a = const_cast<Buffer&>(a).data(),
                       .b = packed.data(),
                       .scale = 0.75f,
                       .bias = vector(c.has_bias),
                       .gain = vector(c.has_gains),
                       .base_gain = vector(c.has_gains)});
    }
  }
  std::deque<Buffer> buffers;
  std::deque<std::vector<float>> vectors;
  std::vector<const void*> b_rows;
  std::vector<LoraPart> parts;
};

// A batch of rows, some of them with one of three adapters over [q | k | v] of 37, 16 and 5 outputs.
struct Batch {
  Batch(int64_t num_rows, int64_t k, DType dtype)
      : num_rows(num_rows),
        k(k),
        dtype(dtype),
        x(random_floats(1, num_rows * k)),
        y(random_floats(2, num_rows * kOutputs)),
        base(random_floats(3, num_rows * kOutputs)) {
    adapters.emplace_back(std::vector<PartCase>{{0, 37, 16}, {37, 16, 4, true}, {53, 5, 1}}, k,
                          dtype, 100);
    adapters.emplace_back(std::vector<PartCase>{{37, 16, 9, true, true}}, k, dtype, 200);
    adapters.emplace_back(std::vector<PartCase>{{0, kOutputs, 3, false, true}}, k, dtype, 300);
    rows.resize(adapters.size());
    for (int64_t row = 0; row < num_rows; ++row) {
      const size_t adapter =
          philox4x32(4, {static_cast<uint32_t>(row), 0, 0, 0})[0] % (adapters.size() + 1);
      if (adapter < adapters.size()) rows[adapter].push_back(static_cast<int32_t>(row));
    }
    for (size_t i = 0; i < adapters.size(); ++i) {
      segments.push_back({.rows = rows[i],
                          .parts = adapters[i].parts,
                          .base = base.data(),
                          .base_stride = kOutputs});
      b_rows.push_back(adapters[i].b_rows);
    }
  }

  LoraParams params(std::vector<float>& out) const {
    return {.x = x.data(),
            .x_stride = k,
            .k = k,
            .segments = segments,
            .dtype = dtype,
            .y = out.data(),
            .y_stride = kOutputs,
            .workspace = nullptr};
  }

  static constexpr int64_t kOutputs = 58;
  static constexpr int64_t kMaxRanks = 21;
  int64_t num_rows, k;
  DType dtype;
  std::vector<float> x, y, base;
  std::deque<Adapter> adapters;
  std::vector<std::vector<int32_t>> rows;
  std::vector<LoraSegment> segments;
  std::vector<std::vector<const void*>> b_rows;
};

std::vector<float> run(Stream& stream, const Batch& batch) {
  std::vector<float> out = batch.y;
  std::vector<float> workspace =
      kernel_test::poisoned(lora_workspace_floats(batch.num_rows, Batch::kMaxRanks));
  LoraParams params = batch.params(out);
  params.workspace = workspace.data();
  apply_lora(stream, params);
  return out;
}

constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF16};

TEST(Lora, EqualsTheReference) {
  for (const Isa isa : kernel_test::isas()) {
    Host host(isa);
    for (const DType dtype : kTypes) {
      for (const int64_t k : {1, 16, 67, 320}) {
        for (const int64_t num_rows : {1, 7, 150}) {
          SCOPED_TRACE(std::string(to_string(isa)) + " k " + std::to_string(k) + " rows " +
                       std::to_string(num_rows));
          const Batch batch(num_rows, k, dtype);
          const std::vector<float> out = run(host.stream, batch);
          std::vector<float> expected = batch.y;
          ref::apply_lora(batch.params(expected), batch.b_rows);
          for (size_t i = 0; i < out.size(); ++i) {
            ASSERT_NEAR(out[i], expected[i], 1e-5f * (1.0f + static_cast<float>(k) / 16)) << i;
          }
        }
      }
    }
  }
}

// Law L4: alone, and on any number of threads.
TEST(Lora, RowsDoNotDependOnEachOther) {
  for (const Isa isa : kernel_test::isas()) {
    Host host(isa), many(isa, 5);
    for (const DType dtype : kTypes) {
      const Batch batch(150, 67, dtype);
      const std::vector<float> out = run(host.stream, batch);
      ASSERT_TRUE(
          kernel_test::same_bits(out.data(), run(many.stream, batch).data(), std::ssize(out)));
      for (size_t s = 0; s < batch.segments.size(); ++s) {
        for (size_t i = 0; i < batch.rows[s].size(); i += 13) {
          Batch alone = batch;
          LoraSegment one = batch.segments[s];
          one.rows = one.rows.subspan(i, 1);
          one.base += static_cast<int64_t>(i) * Batch::kOutputs;
          alone.segments = {one};
          const int64_t first = int64_t{one.rows[0]} * Batch::kOutputs;
          ASSERT_TRUE(kernel_test::same_bits(
              out.data() + first, run(host.stream, alone).data() + first, Batch::kOutputs));
        }
      }
    }
  }
}

TEST(Lora, LeavesOtherRowsAlone) {
  Host host(Isa::kPortable);
  const Batch batch(150, 16, DType::kBF16);
  const std::vector<float> out = run(host.stream, batch);
  std::vector<bool> has_adapter(150, false);
  for (const std::vector<int32_t>& rows : batch.rows) {
    for (const int32_t row : rows) has_adapter[static_cast<size_t>(row)] = true;
  }
  for (int64_t row = 0; row < 150; ++row) {
    const int64_t first = row * Batch::kOutputs;
    const bool same{
        kernel_test::same_bits(out.data() + first, batch.y.data() + first, Batch::kOutputs)};
    EXPECT_NE(same, has_adapter[static_cast<size_t>(row)]) << row;
  }
}

}  // namespace
}  // namespace quire
