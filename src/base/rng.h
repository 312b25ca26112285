// Counter-based random numbers: Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC11). A draw is a pure function of (key, counter), so it does not depend on what ran
// before it (law L4).
#pragma once

#include <array>
#include <cstdint>

namespace quire {

// Returns the four 32-bit words of block `counter` under `key`.
std::array<uint32_t, 4> philox4x32(uint64_t key, std::array<uint32_t, 4> counter);

// Computes the 64 words of the 16 blocks whose third counter word is counter[2], counter[2] + 1, …;
// they are the same as those of single calls.
void philox4x32_x16(uint64_t key, std::array<uint32_t, 4> counter, std::array<uint32_t, 64>& words);

// Returns a uniform number of 23 bits in the open interval (0, 1), for draw `index` of position
// `position` under `seed`.
float uniform_open(uint64_t seed, uint64_t position, uint32_t index);

// Returns 64 bits from the operating system, for requests without a seed. Any thread may call it.
uint64_t random_seed();

}  // namespace quire
