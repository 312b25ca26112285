// This file decodes JPEG with libjpeg-turbo, with its exact DCT and smooth upsampling, as Pillow
// does.
#include <csetjmp>
#include <cstdio>
// jpeglib.h needs size_t and FILE declared before it.
#include <jerror.h>
#include <jpeglib.h>

#include <array>
#include <string>

#include "media/decode/decoders.h"

namespace quire {
namespace {

// A progressive file may contain as many scans over the whole picture as fit into its bytes.
constexpr int kMaxScans = 100;

// libjpeg reports errors by a callback and continues if the callback returns, so the callback jumps
// out. Nothing with a destructor may be created between setjmp() and longjmp().
struct Decoder {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf out;
  std::array<char, JMSG_LENGTH_MAX> message{};

  Decoder() {
    info.err = jpeg_std_error(&errors);
    info.client_data = this;
    errors.error_exit = [](j_common_ptr common) {
      common->err->format_message(common, of(common).message.data());
      std::longjmp(of(common).out, 1);
    };
    errors.emit_message = [](j_common_ptr common, int level) {
      if (level < 0 && is_damage(common->err->msg_code)) common->err->error_exit(common);
    };
    errors.output_message = [](j_common_ptr) {};
    progress.progress_monitor = [](j_common_ptr common) {
      if (reinterpret_cast<j_decompress_ptr>(common)->input_scan_number <= kMaxScans) return;
      std::snprintf(of(common).message.data(), JMSG_LENGTH_MAX, "more than %d scans", kMaxScans);
      std::longjmp(of(common).out, 1);
    };
  }
  ~Decoder() { jpeg_destroy_decompress(&info); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  static Decoder& of(j_common_ptr common) { return *static_cast<Decoder*>(common->client_data); }
  // Returns whether a warning means damage. Bytes between segments and odd version numbers do not.
  static bool is_damage(int code) {
    return code != JWRN_EXTRANEOUS_DATA && code != JWRN_ADOBE_XFORM && code != JWRN_JFIF_MAJOR;
  }

  bool read_header(std::span<const std::byte> file) {
    if (setjmp(out) != 0) return false;
    jpeg_create_decompress(&info);
    info.progress = &progress;
    jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
    jpeg_save_markers(&info, JPEG_APP0 + 1, 0xffff);
    jpeg_read_header(&info, TRUE);
    return true;
  }
  bool read_pixels(Image& image) {
    if (setjmp(out) != 0) return false;
    info.out_color_space = JCS_RGB;
    info.dct_method = JDCT_ISLOW;
    info.do_fancy_upsampling = TRUE;
    jpeg_start_decompress(&info);
    while (info.output_scanline < info.output_height) {
      JSAMPROW row = image.pixel(0, static_cast<int32_t>(info.output_scanline));
      jpeg_read_scanlines(&info, &row, 1);
    }
    jpeg_finish_decompress(&info);
    return true;
  }
  int orientation() const {
    for (jpeg_saved_marker_ptr marker = info.marker_list; marker != nullptr;
         marker = marker->next) {
      const int found =
          read_orientation(std::as_bytes(std::span(marker->data, marker->data_length)));
      if (found != 1) return found;
    }
    return 1;
  }
};

}  // namespace

Result<Image> decode_jpeg(std::span<const std::byte> file, const ImageLimits& limits,
                          const ReserveBytes& reserve) {
  Decoder decoder;
  if (!decoder.read_header(file)) return data_loss("JPEG: {}", decoder.message.data());
  const jpeg_decompress_struct& info = decoder.info;
  QUIRE_RETURN_IF_ERROR(check_image_size("JPEG", info.image_width, info.image_height, limits));
  if (info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK ||
      info.jpeg_color_space == JCS_UNKNOWN) {
    return invalid_argument(
        "JPEG: expected a gray picture or one of red, green and blue, got {} channels",
        info.num_components);
  }
  // The orientation is read first, because finishing a picture frees the markers.
  const int orientation = decoder.orientation();
  QUIRE_ASSIGN_OR_RETURN(Image image, make_image(info.image_width, info.image_height, reserve));
  if (!decoder.read_pixels(image)) return data_loss("JPEG: {}", decoder.message.data());
  return turn_upright(std::move(image), orientation);
}

}  // namespace quire
