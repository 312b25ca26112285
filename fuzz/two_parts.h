// two_parts() cuts a fuzzer's input into two files at its first zero byte.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

struct TwoParts {
  std::span<const std::byte> first;   // before the zero byte
  std::span<const std::byte> second;  // behind the zero byte; empty if there is none
};

// Returns views of the input. Without a zero byte the first part is all of it.
inline TwoParts two_parts(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto end = static_cast<size_t>(std::find(data, data + size, 0) - data);
  return {.first = bytes.first(end), .second = bytes.subspan(std::min(end + 1, size))};
}
