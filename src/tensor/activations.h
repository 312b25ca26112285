// Activations are a borrowed buffer and its element type: float32 on the CPU, bf16 (residual stream
// and logits: float32) on a GPU (docs/decisions/005-activation-types.md). Params structs of ops
// hold these; a kernel that computes in float converts to the pointer, which checks the type.
//
//   LinearParams{.x = Activations(buffer, DType::kBF16), .y = floats, …};
//   const float* x = params.x;  // CHECKs that it is float32
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/check.h"
#include "base/dtype.h"

namespace quire {

template <typename Float, typename Void>
class BasicActivations {
 public:
  constexpr BasicActivations(Float* data = nullptr) : data_(data) {}  // NOLINT: implicit by design
  constexpr BasicActivations(Void* data, DType dtype) : data_(data), dtype_(dtype) {}
  // Converts a writable view of a buffer to a read-only view of the same buffer.
  template <typename OtherFloat, typename OtherVoid>
  requires std::is_const_v<Float>
  constexpr BasicActivations(  // NOLINT: implicit by design
      const BasicActivations<OtherFloat, OtherVoid>& other)
      : data_(other.data()), dtype_(other.dtype()) {}

  constexpr Void* data() const { return data_; }
  constexpr DType dtype() const { return dtype_; }
  operator Float*() const {  // NOLINT: implicit by design
    QUIRE_CHECK(dtype_ == DType::kF32 || data_ == nullptr, "expected float32 activations, got {}",
                to_string(dtype_));
    return static_cast<Float*>(data_);
  }
  // Returns a view of the same buffer that starts at element `count`.
  constexpr BasicActivations from(int64_t count) const {
    using Byte = std::conditional_t<std::is_const_v<Void>, const std::byte, std::byte>;
    return {static_cast<Void*>(static_cast<Byte*>(data_) + count * size_bytes(dtype_)), dtype_};
  }

 private:
  Void* data_ = nullptr;
  DType dtype_ = DType::kF32;
};

using Activations = BasicActivations<float, void>;
using ConstActivations = BasicActivations<const float, const void>;

}  // namespace quire
