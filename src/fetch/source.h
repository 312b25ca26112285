// parse_source() reads the text by which a user names a model's source.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "fetch/origin.h"

namespace quire::fetch {

struct Source {
  bool is_folder = false;
  bool is_url = false;     // including file URLs
  bool is_remote = false;  // url is set: the folder's, or that of the folder with the file
  net::Url url;
  std::string path;   // the folder's path, when it is on this machine
  std::string file;   // name of the file in the folder; empty for a folder
  std::string model;  // the model's name, which the source implies
};

// kInvalidArgument: the source is an archive, or something else that is neither a folder nor a
// .gguf file. kNotFound: there is no such path.
Result<Source> parse_source(const std::string& text);

// kInvalidArgument: the name has a slash or begins with a dot.
Status check_model_name(const std::string& name);

}  // namespace quire::fetch
