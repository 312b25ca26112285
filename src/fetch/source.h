// parse_source() finds out which model a person wants from the words that name it.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "fetch/origin.h"

namespace quire::fetch {

struct Source {
  bool is_folder = false;
  bool is_url = false;     // file URLs among them
  bool is_remote = false;  // url; of the folder: the source itself, or where the file lies
  net::Url url;
  std::string path;   // of the folder; of one that is not remote
  std::string file;   // its name there; of one that is no folder
  std::string model;  // the name that follows from it
};

// kInvalidArgument: it is an archive, or anything else that is neither a folder nor a .gguf file;
// kNotFound: there is no such path.
Result<Source> parse_source(const std::string& text);

// kInvalidArgument: a name of a model may have no slash, and no dot at its beginning.
Status check_model_name(const std::string& name);

}  // namespace quire::fetch
