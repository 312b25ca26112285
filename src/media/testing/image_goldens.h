// These helpers read the pictures of tests/goldens/vision/images, and what transformers makes of
// them.
#pragma once

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <string>
#include <string_view>

#include "media/decode/decode_image.h"
#include "tests/support/test_data.h"

namespace quire::test {

class ImageGoldens : public testing::Test {
 protected:
  static std::filesystem::path dir() {
    return source_dir() / "tests" / "goldens" / "vision" / "images";
  }
  static Image image(std::string_view name) {
    const std::string file = read_file(dir() / std::string(name));
    return decode_image(std::as_bytes(std::span(file)), {}).value();
  }
  const boost::json::value goldens_ = boost::json::parse(read_file(dir() / "golden.json"));
};

}  // namespace quire::test
