// This file decodes PNG with libpng. It skips texts and color profiles, which may inflate to any
// size.
#include <png.h>

#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "media/decode/decoders.h"

namespace quire {
namespace {

constexpr png_alloc_size_t kMaxChunkBytes = 1 << 20;  // of a chunk that does not hold pixels

// libpng reports errors by a callback, which jumps out. Nothing with a destructor may be created
// between setjmp() and longjmp().
struct Decoder {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::span<const std::byte> rest;
  std::array<char, 200> message{};

  explicit Decoder(std::span<const std::byte> file) : rest(file) {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, [](png_structp, auto) {});
    if (png != nullptr) info = png_create_info_struct(png);
  }
  ~Decoder() { png_destroy_read_struct(&png, &info, nullptr); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  static void on_error(png_structp png, png_const_charp text) {
    auto& self = *static_cast<Decoder*>(png_get_error_ptr(png));
    std::snprintf(self.message.data(), self.message.size(), "%s", text);
    png_longjmp(png, 1);
  }
  static void on_read(png_structp png, png_bytep to, size_t size) {
    auto& self = *static_cast<Decoder*>(png_get_io_ptr(png));
    if (size > self.rest.size()) png_error(png, "the file ends early");
    std::memcpy(to, self.rest.data(), size);
    self.rest = self.rest.subspan(size);
  }

  bool read_header() {
    if (png == nullptr || info == nullptr) return false;
    if (setjmp(png_jmpbuf(png)) != 0) return false;
    png_set_read_fn(png, this, on_read);
    // libpng's own limits are off, because decode_image() checks the size and has a better message.
    png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_chunk_malloc_max(png, kMaxChunkBytes);
    png_set_chunk_cache_max(png, 1);
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_read_info(png, info);
    return true;
  }
  bool read_pixels(Image& image, png_bytepp rows) {
    if (setjmp(png_jmpbuf(png)) != 0) return false;
    png_set_expand(png);
    png_set_scale_16(png);
    png_set_gray_to_rgb(png);
    png_set_strip_alpha(png);
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
    if (png_get_rowbytes(png, info) != static_cast<size_t>(image.width) * 3)
      png_error(png, "rows of an unexpected size");
    png_read_image(png, rows);
    png_read_end(png, nullptr);
    return true;
  }
};

}  // namespace

Result<Image> decode_png(std::span<const std::byte> file, const ImageLimits& limits,
                         const ReserveBytes& reserve) {
  Decoder decoder(file);
  if (!decoder.read_header()) return data_loss("PNG: {}", decoder.message.data());
  const int64_t width = png_get_image_width(decoder.png, decoder.info);
  const int64_t height = png_get_image_height(decoder.png, decoder.info);
  QUIRE_RETURN_IF_ERROR(check_image_size("PNG", width, height, limits));
  QUIRE_ASSIGN_OR_RETURN(Image image, make_image(width, height, reserve));
  std::vector<png_bytep> rows;
  rows.reserve(static_cast<size_t>(image.height));
  for (int32_t y = 0; y < image.height; ++y) rows.push_back(image.pixel(0, y));
  if (!decoder.read_pixels(image, rows.data())) return data_loss("PNG: {}", decoder.message.data());
  return image;
}

}  // namespace quire
