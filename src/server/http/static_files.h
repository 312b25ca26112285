// These are the files of web/, which are compiled into the program (cmake/EmbedFiles.cmake).
#pragma once

#include <span>
#include <string_view>

namespace quire::server {

struct StaticFile {
  std::string_view name;  // path below web/, such as "index.html"
  std::string_view data;
};

std::span<const StaticFile> static_files();
// Returns the type by the ending of the name, such as "text/html; charset=utf-8".
std::string_view content_type_of(std::string_view name);

}  // namespace quire::server
