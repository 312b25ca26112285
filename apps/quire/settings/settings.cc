#include "quire/settings/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cstdlib>
#include <set>

#include "base/nearest_name.h"
#include "base/text_fields.h"

namespace quire::cli {
namespace {

using Arguments = std::vector<std::string>;

bool is_flag(const CLI::Option& option) { return !option.get_lnames().empty(); }

// Returns whether the flag means true when it has no value.
bool is_switch(const CLI::Option& option) { return option.get_expected_min() == 0; }

const CLI::Option* find_flag(const CLI::App& verb, const std::string& name) {
  for (const CLI::Option* option : verb.get_options()) {
    const Arguments& names = option->get_lnames();
    if (std::find(names.begin(), names.end(), name) != names.end()) return option;
  }
  return nullptr;
}

// Returns the flags that the command line itself names.
std::set<const CLI::Option*> flags_named(const CLI::App& verb, const Arguments& arguments) {
  std::set<const CLI::Option*> named;
  for (const std::string& argument : arguments) {
    if (!argument.starts_with("--")) continue;
    named.insert(find_flag(verb, argument.substr(2, argument.find('=') - 2)));
  }
  return named;
}

// Returns the value that follows `--name` in `arguments`; empty when there is none.
std::string value_of(const Arguments& arguments, const std::string& name) {
  for (size_t i = arguments.size(); i-- > 0;) {
    if (arguments[i].starts_with(name + "=")) return arguments[i].substr(name.size() + 1);
    if (arguments[i] == name && i + 1 < arguments.size()) return arguments[i + 1];
  }
  return {};
}

// Appends `--name=value`. The value of a switch must be true or false.
Status append_flag(const CLI::Option& option, const std::string& name, const std::string& value,
                   Arguments& out) {
  if (!is_switch(option)) {
    out.push_back("--" + name + "=" + value);
    return {};
  }
  if (value != "true" && value != "false")
    return invalid_argument("{}: expected true or false, got {}", name, value);
  const bool is_negative = name.starts_with("no-");
  const std::string negative = "no-" + name;
  const Arguments& names = option.get_lnames();
  if (value == "true") {
    out.push_back("--" + name);
  } else if (!is_negative && std::find(names.begin(), names.end(), negative) != names.end()) {
    out.push_back("--" + negative);
  }
  return {};
}

std::string variable_of(const std::string& name) {
  std::string variable = "QUIRE_" + name;
  std::transform(variable.begin(), variable.end(), variable.begin(), [](unsigned char c) {
    return c == '-' ? '_' : static_cast<char>(std::toupper(c));
  });
  return variable;
}

Status no_such_flag(const CLI::App& verb, const std::string& where, const std::string& name) {
  Arguments names;
  for (const CLI::Option* option : verb.get_options())
    names.insert(names.end(), option->get_lnames().begin(), option->get_lnames().end());
  return invalid_argument("{}: {} has no flag {}{}", where, verb.get_name(), name,
                          did_you_mean(name, names));
}

// Returns the value in YAML. Values that YAML would read differently are quoted as in JSON, which
// is a part of YAML.
std::string yaml(const std::string& value) {
  const bool is_plain =
      !value.empty() && std::all_of(value.begin(), value.end(), [](unsigned char c) {
        return std::isalnum(c) || c == '.' || c == '/' || c == '_' || c == '-';
      });
  return is_plain && value[0] != '-' ? value : boost::json::serialize(boost::json::value(value));
}

std::string values_of(const CLI::Option& option) {
  if (is_switch(option)) return option.as<bool>() ? "true" : "false";
  Arguments values;
  for (const std::string& value : option.results()) values.push_back(yaml(value));
  const bool takes_many = option.get_expected_max() == CLI::detail::expected_max_vector_size;
  return takes_many ? fmt::format("[{}]", fmt::join(values, ", ")) : values.back();
}

}  // namespace

Status append_setting(const CLI::App& verb, const FileSetting& setting, const std::string& where,
                      Arguments& arguments) {
  const CLI::Option* const option = find_flag(verb, setting.name);
  if (option == nullptr) return no_such_flag(verb, where, setting.name);
  for (const std::string& value : setting.values) {
    const Status appended = append_flag(*option, setting.name, value, arguments);
    if (!appended.ok()) return invalid_argument("{}: {}", where, appended.message());
  }
  return {};
}

Result<std::vector<std::string>> Settings::expand(const CLI::App& verb, Arguments arguments) {
  const std::set<const CLI::Option*> named = flags_named(verb, arguments);
  Arguments from_file, from_environment;
  std::set<const CLI::Option*> of_environment;
  for (const CLI::Option* option : verb.get_options()) {
    if (!is_flag(*option) || named.contains(option)) continue;
    for (const std::string& name : option->get_lnames()) {
      const char* const value = std::getenv(variable_of(name).c_str());
      if (value == nullptr || *value == '\0') continue;
      const Status appended = append_flag(*option, name, value, from_environment);
      if (!appended.ok()) return invalid_argument("${}: {}", variable_of(name), appended.message());
      of_environment.insert(option);
      sources_[option->get_lnames().front()] = "$" + variable_of(name);
    }
  }
  std::string path = value_of(arguments, "--config");
  if (path.empty()) path = value_of(from_environment, "--config");
  if (!path.empty()) {
    const Result<std::string> text = read_text(path, kMaxSettingsBytes);
    if (!text.ok()) return text.status().with_context("--config");
    QUIRE_ASSIGN_OR_RETURN(const std::vector<FileSetting> settings, parse_settings(*text, path));
    for (const FileSetting& setting : settings) {
      const std::string where = fmt::format("{}: line {}", path, setting.line);
      const CLI::Option* const option = find_flag(verb, setting.name);
      if (option == nullptr || setting.name == "config")
        return no_such_flag(verb, where, setting.name);
      if (named.contains(option) || of_environment.contains(option)) continue;
      QUIRE_RETURN_IF_ERROR(append_setting(verb, setting, where, from_file));
      sources_[option->get_lnames().front()] = where;
    }
  }
  auto at = arguments.begin() + 1;
  at = arguments.insert(at, from_file.begin(), from_file.end()) + std::ssize(from_file);
  arguments.insert(at, from_environment.begin(), from_environment.end());
  return arguments;
}

std::string Settings::effective(const CLI::App& verb) const {
  std::string text, group;
  for (const CLI::Option* option : verb.get_options()) {
    if (!is_flag(*option) || option->get_group().empty()) continue;
    const std::string& name = option->get_lnames().front();
    if (name == "help" || name == "config" || name == "print-config") continue;
    std::string line;
    if (option->count() > 0) {
      const auto source = sources_.find(name);
      const bool is_secret = name == "api-key" || name == "otlp-headers";
      line = fmt::format("{}: {}  # {}\n", name, is_secret ? "[hidden]" : values_of(*option),
                         source == sources_.end() ? "command line" : source->second);
    } else if (!is_switch(*option) && !option->get_default_str().empty()) {
      line = fmt::format("# {}: {}\n", name, yaml(option->get_default_str()));
    }
    if (line.empty()) continue;
    if (option->get_group() != group) {
      group = option->get_group();
      text += fmt::format("{}# {}\n", text.empty() ? "" : "\n", group);
    }
    text += line;
  }
  return text;
}

}  // namespace quire::cli
