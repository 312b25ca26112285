// The files of web/, compiled into the program (cmake/EmbedFiles.cmake).
#pragma once

#include <span>
#include <string_view>

namespace quire::server {

struct StaticFile {
  std::string_view name;  // path below web/, "index.html"
  std::string_view data;
};

std::span<const StaticFile> static_files();
// "text/html; charset=utf-8" …, by the name's ending.
std::string_view content_type_of(std::string_view name);

}  // namespace quire::server
