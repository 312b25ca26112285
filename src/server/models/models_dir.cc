#include "server/models/models_dir.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

namespace quire::server {
namespace {

namespace fs = std::filesystem;

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

struct Part {
  std::string name;  // name of the whole file
  bool is_first = false;
};

// Reads NAME-00001-of-00003; nullopt: the file has no parts.
std::optional<Part> part_of(std::string_view stem) {
  const size_t of = stem.rfind("-of-");
  if (of == stem.npos || !is_digits(stem.substr(of + 4))) return std::nullopt;
  const size_t dash = stem.substr(0, of).rfind('-');
  if (dash == stem.npos) return std::nullopt;
  const std::string_view number = stem.substr(dash + 1, of - dash - 1);
  if (!is_digits(number)) return std::nullopt;
  const size_t digit = number.find_first_not_of('0');
  return Part{std::string(stem.substr(0, dash)),
              digit != number.npos && number.substr(digit) == "1"};
}

bool is_weights(const fs::path& path) {
  return path.extension() == ".gguf" || path.extension() == ".safetensors";
}

int64_t size_of(const fs::path& path) {
  std::error_code ec;
  const auto size = fs::file_size(path, ec);
  return ec ? 0 : static_cast<int64_t>(size);
}

// Returns nullopt when the folder holds no model.
std::optional<FoundModel> folder_model(const fs::path& folder) {
  FoundModel found{folder.filename().string(), folder.string(), 0};
  bool is_model = false;
  std::error_code ec;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ec)) {
    if (!is_weights(entry.path())) {
      is_model |= entry.path().filename() == "config.json";
      continue;
    }
    found.file_bytes += size_of(entry.path());
    is_model |= entry.path().extension() == ".gguf";
  }
  return is_model ? std::optional(std::move(found)) : std::nullopt;
}

}  // namespace

Result<std::vector<FoundModel>> find_models(const std::string& directory) {
  std::error_code ec;
  if (!fs::is_directory(directory, ec))
    return invalid_argument("--models-dir: expected a folder, got {}", directory);
  std::map<std::string, FoundModel> found;
  std::vector<std::pair<std::string, int64_t>> more_parts;
  Status twice;
  const auto add = [&](FoundModel model) {
    if (model.name.starts_with('.')) return;
    const auto [place, is_new] = found.emplace(model.name, model);
    if (!is_new) {
      twice = invalid_argument("--models-dir: expected one model of each name, got {} and {}",
                               place->second.path, model.path);
    }
  };
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, ec)) {
    const fs::path& path = entry.path();
    std::error_code ignored;
    if (entry.is_directory(ignored)) {
      if (auto model = folder_model(path)) add(std::move(*model));
    } else if (path.extension() == ".gguf") {
      const auto part = part_of(path.stem().string());
      if (part && !part->is_first) {
        more_parts.emplace_back(part->name, size_of(path));
      } else {
        add({part ? part->name : path.stem().string(), path.string(), size_of(path)});
      }
    }
  }
  if (ec) return invalid_argument("--models-dir: {} cannot be read: {}", directory, ec.message());
  QUIRE_RETURN_IF_ERROR(std::move(twice));
  for (const auto& [name, bytes] : more_parts) {
    if (const auto model = found.find(name); model != found.end())
      model->second.file_bytes += bytes;
  }
  std::vector<FoundModel> models;
  models.reserve(found.size());
  for (auto& [name, model] : found) models.push_back(std::move(model));
  return models;
}

Result<ModelAliases> parse_aliases(const std::vector<std::string>& texts) {
  ModelAliases aliases;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == text.npos || equals == 0 || equals + 1 == text.size())
      return invalid_argument("--model-alias: expected NAME=MODEL, got {}", text);
    if (!aliases.emplace(text.substr(0, equals), text.substr(equals + 1)).second)
      return invalid_argument("--model-alias: expected one model for {}, got several",
                              text.substr(0, equals));
  }
  return aliases;
}

}  // namespace quire::server
