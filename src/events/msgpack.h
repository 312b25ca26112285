// Writes the few types of MessagePack (msgpack.org) that events need.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace quire::msgpack {

inline void put_big_endian(std::string& out, uint64_t x, int num_bytes) {
  for (int i = num_bytes - 1; i >= 0; --i) out += static_cast<char>(x >> (8 * i));
}

inline void nil(std::string& out) { out += '\xc0'; }

inline void number(std::string& out, uint64_t x) {
  if (x < 0x80) {
    out += static_cast<char>(x);
  } else if (x <= 0xff) {
    out += '\xcc';
    put_big_endian(out, x, 1);
  } else if (x <= 0xffff) {
    out += '\xcd';
    put_big_endian(out, x, 2);
  } else if (x <= 0xffffffff) {
    out += '\xce';
    put_big_endian(out, x, 4);
  } else {
    out += '\xcf';
    put_big_endian(out, x, 8);
  }
}

inline void real(std::string& out, double x) {
  out += '\xcb';
  put_big_endian(out, std::bit_cast<uint64_t>(x), 8);
}

inline void text(std::string& out, std::string_view x) {
  if (x.size() < 32) {
    out += static_cast<char>(0xa0 | x.size());
  } else {
    out += '\xdb';
    put_big_endian(out, x.size(), 4);
  }
  out += x;
}

// Begins an array; `num_items` items must follow.
inline void array(std::string& out, size_t num_items) {
  if (num_items < 16) {
    out += static_cast<char>(0x90 | num_items);
  } else if (num_items <= 0xffff) {
    out += '\xdc';
    put_big_endian(out, num_items, 2);
  } else {
    out += '\xdd';
    put_big_endian(out, num_items, 4);
  }
}

// Begins a map; `num_pairs` pairs of a key and a value must follow.
inline void map(std::string& out, size_t num_pairs) {
  if (num_pairs < 16) {
    out += static_cast<char>(0x80 | num_pairs);
  } else {
    out += '\xdf';
    put_big_endian(out, num_pairs, 4);
  }
}

}  // namespace quire::msgpack
