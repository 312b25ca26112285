// GPTQ packs codes along the inputs, a bit stream per output, and zero points along the outputs.
// The first format stores zero points minus one.
#include <algorithm>
#include <cstring>

#include "weights/quant/quant_readers.h"

namespace quire {
namespace {

constexpr int64_t kUnit = 32;  // codes that fill `bits` words

struct GptqParts {
  const RawTensor* codes;   // [K * bits / 32, N]
  const RawTensor* zeros;   // [G, N * bits / 32]
  const RawTensor* scales;  // [G, N]
};

class GptqMatrix final : public QuantMatrix {
 public:
  GptqMatrix(const MatrixShape& shape, const GptqParts& parts, const QuantSpec& spec,
             uint32_t zero_step, std::vector<int32_t> order)
      : QuantMatrix(shape), parts_(parts), zero_step_(zero_step) {
    spec_ = spec;
    column_order_ = std::move(order);
    place_.resize(column_order_.size());
    for (size_t j = 0; j < column_order_.size(); ++j) {
      place_[static_cast<size_t>(column_order_[j])] = static_cast<int32_t>(j);
    }
  }
  void set_tensors(std::vector<const RawTensor*> tensors) { tensors_ = std::move(tensors); }

  Status read_rows(int64_t first_row, int64_t num_rows, const QuantRowTarget& out) const override {
    for (int64_t unit = 0; unit < columns() / kUnit; ++unit) {
      for (int64_t row = 0; row < num_rows; ++row) {
        read_unit(unit, first_row + row, out.codes + row * columns());
      }
    }
    const int64_t groups = spec_.num_groups(columns());
    const int64_t size = scale_bytes(spec_.scale_type);
    const int64_t zero_words = parts_.zeros->shape[1];
    for (int64_t g = 0; g < groups; ++g) {
      const PackedBits zeros(parts_.zeros->data.data() + g * zero_words * 4, 1, spec_.bits);
      for (int64_t row = 0; row < num_rows; ++row) {
        std::memcpy(out.scales + (row * groups + g) * size,
                    parts_.scales->data.data() + (g * rows() + first_row + row) * size,
                    static_cast<size_t>(size));
        if (out.zeros == nullptr) continue;
        const uint32_t zero = zeros.at(first_row + row) + zero_step_;
        out.zeros[row * groups + g] = static_cast<uint8_t>(zero & ((1u << spec_.bits) - 1u));
      }
    }
    return check_finite(parts_.scales->name, out.scales, spec_.scale_type, num_rows * groups);
  }

 private:
  // Reads inputs [32 unit, 32 unit + 32) of one output.
  void read_unit(int64_t unit, int64_t row, uint8_t* codes) const {
    const std::byte* words =
        parts_.codes->data.data() + (unit * spec_.bits * rows() + row) * int64_t{4};
    const uint64_t mask = (uint64_t{1} << spec_.bits) - 1;
    uint64_t window = 0;
    int available = 0;
    for (int64_t i = 0; i < kUnit; ++i) {
      if (available < spec_.bits) {
        uint32_t word;
        std::memcpy(&word, words, 4);
        words += rows() * 4;
        window |= uint64_t{word} << available;
        available += 32;
      }
      const int64_t k = unit * kUnit + i;
      const int64_t at = place_.empty() ? k : place_[static_cast<size_t>(k)];
      codes[at] = static_cast<uint8_t>(window & mask);
      window >>= spec_.bits;
      available -= spec_.bits;
    }
  }

  GptqParts parts_;
  uint32_t zero_step_;
  // The place of each input in the order by groups; empty if that is the order of inputs.
  std::vector<int32_t> place_;
};

// Returns the stored value that all zero points have, or nullopt if they differ.
std::optional<uint32_t> common_zero(const RawTensor& zeros, int64_t outputs, int bits) {
  const int64_t words = zeros.shape[1];
  std::optional<uint32_t> common;
  for (int64_t g = 0; g < zeros.shape[0]; ++g) {
    const PackedBits row(zeros.data.data() + g * words * 4, 1, bits);
    for (int64_t n = 0; n < outputs; ++n) {
      const uint32_t zero = row.at(n);
      if (common && zero != *common) return std::nullopt;
      common = zero;
    }
  }
  return common;
}

Result<GptqParts> find_parts(ModuleTensors& tensors, int bits, int64_t groups,
                             const MatrixShape& shape) {
  const int64_t code_words = shape.columns / kUnit * bits;
  const int64_t zero_words = (shape.rows * bits + 31) / 32;
  GptqParts parts{};
  QUIRE_ASSIGN_OR_RETURN(parts.codes, tensors.require("qweight", "I32", {code_words, shape.rows}));
  QUIRE_ASSIGN_OR_RETURN(parts.zeros, tensors.require("qzeros", "I32", {groups, zero_words}));
  QUIRE_ASSIGN_OR_RETURN(parts.scales, tensors.require("scales"));
  QUIRE_RETURN_IF_ERROR(scale_type_of(*parts.scales).status());
  QUIRE_RETURN_IF_ERROR(
      check_type_and_shape(*parts.scales, parts.scales->type_name, {groups, shape.rows}));
  return parts;
}

// Returns whether groups follow the order of inputs, so that no g_idx is needed, whatever desc_act
// says.
bool is_plain_order(const std::vector<int32_t>& order) {
  for (size_t j = 0; j < order.size(); ++j) {
    if (order[j] != static_cast<int32_t>(j)) return false;
  }
  return true;
}

}  // namespace

Result<std::unique_ptr<QuantMatrix>> open_gptq_matrix(ModuleTensors& tensors,
                                                      const QuantScheme& scheme,
                                                      const MatrixShape& shape) {
  if (shape.columns % kUnit != 0) {
    return invalid_argument("module '{}': expected inputs in a multiple of {} for gptq, got {}",
                            tensors.module(), kUnit, shape.columns);
  }
  const int64_t group = scheme.group_size.value_or(-1);
  const int64_t groups = count_groups(shape.columns, group);
  QUIRE_ASSIGN_OR_RETURN(const GptqParts parts, find_parts(tensors, scheme.bits, groups, shape));
  std::vector<int32_t> order;
  if (const RawTensor* g_idx = tensors.find("g_idx")) {
    QUIRE_ASSIGN_OR_RETURN(order, order_by_group(*g_idx, shape.columns, group));
    if (is_plain_order(order)) order.clear();
  } else if (scheme.act_order) {
    QUIRE_RETURN_IF_ERROR(tensors.require("g_idx").status());
  }

  // Symmetric files have one zero point, the middle of the range. Some files claim to store it
  // minus one and do not, so its value decides.
  const uint32_t middle = 1u << (scheme.bits - 1);
  const auto common = common_zero(*parts.zeros, shape.rows, scheme.bits);
  const bool is_middle = scheme.symmetric && (common == middle || common == middle - 1);
  QuantSpec spec{.bits = scheme.bits,
                 .offset = is_middle ? static_cast<int32_t>(middle) : 0,
                 .group_size = group == -1 ? shape.columns : group,
                 .scale_type = *scale_type_of(*parts.scales),
                 .zero_kind = is_middle ? ZeroKind::kNone : ZeroKind::kInteger};
  spec.has_column_order = !order.empty();
  auto matrix = std::make_unique<GptqMatrix>(shape, parts, spec, scheme.zeros_less_one ? 1u : 0u,
                                             std::move(order));
  matrix->set_tensors(tensors.used());
  return std::unique_ptr<QuantMatrix>(std::move(matrix));
}

}  // namespace quire
