// The bytes by which files tell their format.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>

namespace quire {

struct FileMagic {
  std::string_view bytes;
  std::string_view format;
  size_t at = 0;
};

inline bool starts_with(std::span<const std::byte> file, std::string_view magic, size_t at = 0) {
  return file.size() >= at + magic.size() &&
         std::memcmp(file.data() + at, magic.data(), magic.size()) == 0;
}

// Returns what an error says about a file that is not wanted: its format if that is among `known`.
inline std::string_view kind_of(std::span<const std::byte> file, std::span<const FileMagic> known) {
  for (const FileMagic& magic : known) {
    if (starts_with(file, magic.bytes, magic.at)) return magic.format;
  }
  return file.empty() ? "nothing" : "something else";
}

}  // namespace quire
