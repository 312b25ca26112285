#include "kernels/cuda/emulation/async_unit.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/cuda/emulation/ptx.h"
#include "kernels/cuda/float8.h"

namespace quire::cuda::emulation {

struct AsyncUnit::SharedBarrier {
  int arrivals = 0;  // arrivals that end a phase
  int pending = 0;   // arrivals still missing in this phase
  int64_t pending_bytes = 0;
  Block::Barrier phase;
};

struct AsyncUnit::Copy {
  uint8_t* shared;
  SharedBarrier* barrier;
  int num_bytes;
  const uint8_t* global;  // for a plain copy; null for a box
  BoxedTensor tensor;
  std::array<int, 4> at;
};

constexpr int kMostTiles = 32;

namespace {

// The types of operands, each with the number that an element encodes.
struct E4M3 {
  uint8_t code;
};
float number(bfloat16 x) { return to_float(x); }
float number(E4M3 x) { return widen_e4m3(x.code); }
int32_t number(int8_t x) { return x; }

}  // namespace

// A thread's products in flight.
struct AsyncUnit::Products {
  struct Sums {
    void* d;
    size_t num_bytes;
    uint32_t values[kMostTiles][4];  // floats or integers
  };
  std::vector<Product> open;
  std::vector<std::vector<Product>> groups;
  std::vector<std::unique_ptr<Sums>> sums;

  Sums* find(const void* d) {
    for (auto& candidate : sums)
      if (candidate->d == d) return candidate.get();
    return nullptr;
  }
};

AsyncUnit::AsyncUnit(Block& block) : block_(block) {
  products_.resize(static_cast<size_t>(block.shape().num_threads));
}
AsyncUnit::~AsyncUnit() = default;

// --- barriers ---

void AsyncUnit::init(uint64_t* barrier, int arrivals) {
  QUIRE_CHECK(
      reinterpret_cast<uintptr_t>(barrier) % 8 == 0 && arrivals > 0 && !barriers_.contains(barrier),
      "a barrier off 8 bytes, of {} arrivals, or made twice", arrivals);
  barriers_[barrier] = std::make_unique<SharedBarrier>(
      SharedBarrier{.arrivals = arrivals, .pending = arrivals, .phase = {}});
}

AsyncUnit::SharedBarrier& AsyncUnit::barrier_at(const uint64_t* barrier) {
  const auto found = barriers_.find(barrier);
  QUIRE_CHECK(found != barriers_.end(), "a barrier that was not made");
  return *found->second;
}

void AsyncUnit::end_phase_if_done(SharedBarrier& barrier) {
  if (barrier.pending != 0 || barrier.pending_bytes != 0) return;
  barrier.pending = barrier.arrivals;
  block_.release(barrier.phase);
}

void AsyncUnit::arrive(uint64_t* at, int expected_bytes) {
  SharedBarrier& barrier = barrier_at(at);
  QUIRE_CHECK(barrier.pending > 0, "more arrivals than the barrier counts");
  barrier.pending_bytes += expected_bytes;
  --barrier.pending;
  end_phase_if_done(barrier);
}

void AsyncUnit::wait(uint64_t* at, uint32_t parity) {
  SharedBarrier& barrier = barrier_at(at);
  while ((barrier.phase.generation & 1) == parity) block_.wait_generation(barrier.phase);
}

// --- copies ---

void AsyncUnit::copy_bulk(void* shared, const void* global, int num_bytes, uint64_t* barrier) {
  QUIRE_CHECK(reinterpret_cast<uintptr_t>(shared) % 16 == 0 &&
                  reinterpret_cast<uintptr_t>(global) % 16 == 0 && num_bytes % 16 == 0,
              "bulk copy off 16 bytes");
  copies_.push_back({.shared = static_cast<uint8_t*>(shared),
                     .barrier = &barrier_at(barrier),
                     .num_bytes = num_bytes,
                     .global = static_cast<const uint8_t*>(global),
                     .tensor = {},
                     .at = {}});
}

void AsyncUnit::copy_box(void* shared, const BoxedTensor& tensor, const std::array<int, 4>& at,
                         uint64_t* barrier) {
  QUIRE_CHECK(reinterpret_cast<uintptr_t>(tensor.base) % 16 == 0 && tensor.strides[1] % 8 == 0 &&
                  tensor.strides[2] % 8 == 0 && tensor.strides[3] % 8 == 0 && tensor.box_rows > 0 &&
                  tensor.box_rows <= 256,
              "a tensor map that cannot be encoded");
  QUIRE_CHECK(reinterpret_cast<uintptr_t>(shared) % 128 == 0, "box off 128 bytes");
  copies_.push_back({.shared = static_cast<uint8_t*>(shared),
                     .barrier = &barrier_at(barrier),
                     .num_bytes = tensor.box_rows * kPanelRowBytes,
                     .global = nullptr,
                     .tensor = tensor,
                     .at = at});
}

// Copies rows of 64 elements, 128-byte swizzled, with zeros outside of the tensor.
void AsyncUnit::land_box(const Copy& copy) {
  const BoxedTensor& tensor = copy.tensor;
  const auto start = static_cast<uint32_t>(copy.shared - block_.shared_memory());
  const auto* elements = static_cast<const uint16_t*>(tensor.base);
  for (int row = 0; row < tensor.box_rows; ++row) {
    std::array<int64_t, 4> at{copy.at[0], copy.at[1] + row, copy.at[2], copy.at[3]};
    for (int i = 0; i < kPanelDims; ++i, ++at[0]) {
      int64_t from = 0;
      bool is_inside = true;
      for (size_t d = 0; d < at.size(); ++d) {
        from += at[d] * tensor.strides[d];
        is_inside = is_inside && at[d] >= 0 && at[d] < tensor.sizes[d];
      }
      const uint16_t value = is_inside ? elements[from] : uint16_t{0};
      const auto to = start + static_cast<uint32_t>(row * kPanelRowBytes + i * 2);
      std::memcpy(block_.shared_memory() + swizzled_address(to), &value, 2);
    }
  }
}

bool AsyncUnit::land_copies() {
  if (copies_.empty()) return false;
  for (const Copy& copy : std::exchange(copies_, {})) {
    if (copy.global != nullptr) {
      std::memcpy(copy.shared, copy.global, static_cast<size_t>(copy.num_bytes));
    } else {
      land_box(copy);
    }
    copy.barrier->pending_bytes -= copy.num_bytes;
    // Bytes may be copied before the arrival that expects them.
    QUIRE_CHECK(copy.barrier->pending_bytes >= 0 || copy.barrier->pending > 0,
                "bytes that no barrier expects");
    end_phase_if_done(*copy.barrier);
  }
  return true;
}

// --- products ---

AsyncUnit::Products& AsyncUnit::mine() {
  auto& products = products_[static_cast<size_t>(block_.thread())];
  if (products == nullptr) products = std::make_unique<Products>();
  return *products;
}

// Until the products are waited for, float sums are NaN and integer sums -1.
void AsyncUnit::multiply(const Product& product) {
  Products& products = mine();
  if (products.find(product.d) == nullptr) {
    products.sums.push_back(std::make_unique<Products::Sums>());
    Products::Sums& sums = *products.sums.back();
    sums.d = product.d;
    sums.num_bytes = static_cast<size_t>(product.num_tiles) * sizeof sums.values[0];
    std::memcpy(sums.values, sums.d, sums.num_bytes);
    std::memset(sums.d, 0xff, sums.num_bytes);
  }
  products.open.push_back(product);
}

void AsyncUnit::commit_products() {
  Products& products = mine();
  products.groups.push_back(std::exchange(products.open, {}));
}

void AsyncUnit::wait_products(int pending) {
  Products& products = mine();
  while (static_cast<int>(products.groups.size()) > pending) {
    const std::vector<Product> group = std::move(products.groups.front());
    products.groups.erase(products.groups.begin());
    for (const Product& product : group) {
      void* sums = products.find(product.d)->values;
      switch (product.operands) {
        case Operands::kBF16:
          run<bfloat16>(product, sums);
          break;
        case Operands::kE4M3:
          run<E4M3>(product, sums);
          break;
        case Operands::kInt8:
          run<int8_t>(product, sums);
          break;
      }
    }
  }
  std::erase_if(products.sums, [&](const std::unique_ptr<Products::Sums>& sums) {
    const auto names = [&](const Product& product) { return product.d == sums->d; };
    bool is_used = std::any_of(products.open.begin(), products.open.end(), names);
    for (const auto& group : products.groups)
      is_used = is_used || std::any_of(group.begin(), group.end(), names);
    if (!is_used) std::memcpy(sums->d, sums->values, sums->num_bytes);
    return !is_used;
  });
}

void AsyncUnit::check_free(const void* d) const {
  const auto& products = products_[static_cast<size_t>(block_.thread())];
  QUIRE_CHECK(products == nullptr || products->find(d) == nullptr,
              "sums of a product are used before it was waited for");
}

// Returns an operand in panel rows, which the hardware finds through a descriptor.
const uint8_t* AsyncUnit::operand_at(uint64_t descriptor, int row, int byte) const {
  const auto start = static_cast<uint32_t>(descriptor & 0x3fff) << 4;
  const auto stride = static_cast<uint32_t>(descriptor >> 32 & 0x3fff) << 4;
  QUIRE_CHECK(descriptor >> 62 == 1, "a descriptor without 128-byte swizzle");
  const uint32_t at = start + static_cast<uint32_t>(row / 8) * stride +
                      static_cast<uint32_t>(row % 8 * kPanelRowBytes + byte);
  QUIRE_CHECK(at < static_cast<uint32_t>(block_.shape().shared_bytes),
              "an operand outside of shared memory");
  return block_.shared_memory() + swizzled_address(at);
}

// Loads the warpgroup's `a` from registers: rows lane / 4 and lane / 4 + 8.
void AsyncUnit::load_registers(const uint32_t* registers, float (&a)[2][16]) {
  const std::array<uint32_t, 4> own{registers[0], registers[1], registers[2], registers[3]};
  const auto* lanes = block_.exchange(own);
  for (int h = 0; h < 2; ++h) {
    for (int k = 0; k < 16; ++k) {
      const auto owner = static_cast<size_t>(block_.thread() % 32 / 4 * 4 + k % 8 / 2);
      a[h][k] = ptx::bf16_of(lanes[owner][static_cast<size_t>(h + 2 * (k / 8))], k % 2);
    }
  }
}

template <class Element>
void AsyncUnit::run(const Product& product, void* to) {
  using Sum = std::conditional_t<std::is_same_v<Element, int8_t>, int32_t, float>;
  constexpr int kDepth = 32 / int{sizeof(Element)};  // of the product, along k
  const int lane = block_.thread() % 32;
  const int warp_row = block_.thread() / 32 % 4 * 16;
  const auto value = [&](uint64_t descriptor, int row, int element) {
    Element stored;
    std::memcpy(&stored, operand_at(descriptor, row, element * int{sizeof stored}), sizeof stored);
    return number(stored);
  };
  Sum a[2][kDepth];  // rows lane / 4 and lane / 4 + 8
  for (int h = 0; h < 2 && product.a_registers == nullptr; ++h)
    for (int k = 0; k < kDepth; ++k) a[h][k] = value(product.a, warp_row + lane / 4 + 8 * h, k);
  if constexpr (std::is_same_v<Element, bfloat16>) {
    if (product.a_registers != nullptr) load_registers(product.a_registers, a);
  }
  for (int n = 0; n < product.num_tiles; ++n) {
    for (int i = 0; i < 2; ++i) {
      const int column = 8 * n + 2 * (lane % 4) + i;
      Sum b[kDepth];
      for (int k = 0; k < kDepth; ++k) {
        b[k] = product.b_is_by_rows ? value(product.b, k, column) : value(product.b, column, k);
      }
      for (int h = 0; h < 2; ++h) {
        uint8_t* at = static_cast<uint8_t*>(to) + (n * 4 + 2 * h + i) * int{sizeof(Sum)};
        Sum sum{};
        if (product.adds) std::memcpy(&sum, at, sizeof sum);
        for (int k = 0; k < kDepth; ++k) sum += a[h][k] * b[k];
        std::memcpy(at, &sum, sizeof sum);
      }
    }
  }
}

}  // namespace quire::cuda::emulation
