#include "facade/builtin_model.h"

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace quire {

// The generated builtin_model_data.cc defines this.
std::vector<std::pair<std::string, std::span<const std::byte>>> builtin_model_blobs();

ModelFiles builtin_model_files() { return ModelFiles::from_memory(builtin_model_blobs()); }

}  // namespace quire
