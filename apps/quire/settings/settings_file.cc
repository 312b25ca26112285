#include "quire/settings/settings_file.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <boost/json.hpp>

namespace quire::cli {
namespace {

namespace json = boost::json;

constexpr int kMaxDepth = 32;
// Aliases let a small file stand for a huge one.
constexpr int kMaxValues = 10'000;

// Returns the JSON value that a plain scalar spells, or otherwise its text.
json::value scalar(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return json::value(text);  // quoted
  json::error_code failed;
  json::value value = json::parse(text, failed);
  return failed || value.is_structured() ? json::value(text) : value;
}

// Throws YAML::Exception.
json::value to_json(const YAML::Node& node, int depth, int& num_values) {
  if (depth > kMaxDepth) throw YAML::Exception(node.Mark(), "values are nested too deeply");
  if (++num_values > kMaxValues) throw YAML::Exception(node.Mark(), "there are too many values");
  if (node.IsSequence()) {
    json::array array;
    for (const YAML::Node& entry : node) array.push_back(to_json(entry, depth + 1, num_values));
    return array;
  }
  if (node.IsMap()) {
    json::object object;
    for (const auto& entry : node)
      object[entry.first.as<std::string>()] = to_json(entry.second, depth + 1, num_values);
    return object;
  }
  return node.IsNull() ? json::value(nullptr) : scalar(node);
}

std::string text_of(const YAML::Node& node, int& num_values) {
  if (node.IsScalar()) return node.Scalar();
  return json::serialize(to_json(node, 0, num_values));
}

FileSetting to_setting(const YAML::Node& key, const YAML::Node& value, int& num_values) {
  FileSetting setting{.name = key.as<std::string>(), .values = {}, .line = key.Mark().line + 1};
  std::replace(setting.name.begin(), setting.name.end(), '_', '-');
  if (value.IsNull())
    throw YAML::Exception(key.Mark(), setting.name + ": expected a value, got none");
  if (!value.IsSequence()) {
    setting.values.push_back(text_of(value, num_values));
    return setting;
  }
  for (const YAML::Node& entry : value) setting.values.push_back(text_of(entry, num_values));
  return setting;
}

std::vector<FileSetting> to_settings(const YAML::Node& map, int& num_values) {
  std::vector<FileSetting> settings;
  for (const auto& entry : map)
    settings.push_back(to_setting(entry.first, entry.second, num_values));
  return settings;
}

// Returns what `read` makes of the file's mapping. A YAML::Exception becomes an error that names
// the line.
template <typename Read>
auto read_yaml(std::string_view text, std::string_view path, std::string_view example, Read read)
    -> Result<decltype(read(YAML::Node()))> {
  if (text.size() > kMaxSettingsBytes)
    return invalid_argument("{}: expected at most {} bytes of settings, got {}", path,
                            kMaxSettingsBytes, text.size());
  try {
    const YAML::Node root = YAML::Load(std::string(text));
    if (root.IsNull()) return decltype(read(root)){};
    if (!root.IsMap()) return invalid_argument("{}: expected lines such as '{}'", path, example);
    return read(root);
  } catch (const YAML::Exception& e) {
    return invalid_argument("{}: line {}: {}", path, e.mark.line + 1, e.msg);
  }
}

}  // namespace

Result<std::vector<FileSetting>> parse_settings(std::string_view text, std::string_view path) {
  return read_yaml(text, path, "port: 8000", [](const YAML::Node& root) {
    int num_values = 0;
    return to_settings(root, num_values);
  });
}

Result<ModelSettings> parse_model_settings(std::string_view text, std::string_view path) {
  return read_yaml(text, path, "MODEL: {max-model-len: 8192}", [](const YAML::Node& root) {
    int num_values = 0;
    ModelSettings models;
    for (const auto& entry : root) {
      const std::string name = entry.first.as<std::string>();
      if (!entry.second.IsMap() && !entry.second.IsNull())
        throw YAML::Exception(entry.first.Mark(), name + ": expected flags and their values");
      if (!models.emplace(name, to_settings(entry.second, num_values)).second)
        throw YAML::Exception(entry.first.Mark(), name + ": expected one entry of each model");
    }
    return models;
  });
}

}  // namespace quire::cli
