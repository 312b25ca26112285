#include "quire/usage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "base/nearest_name.h"

namespace quire::cli {
namespace {

// ValueHelp describes a flag's value and which values are accepted. It is read from "TYPE:CHECK",
// which is the parser's own notation.
struct ValueHelp {
  std::string form;    // such as N, FILE, cpu|cuda|auto
  std::string bounds;  // "in [0, 65535]"; may be empty
};

std::string form_of_type(std::string_view type) {
  if (type == "INT" || type == "UINT") return "N";
  if (type == "FLOAT") return "NUMBER";
  if (type == "ENUM") return "NAME";
  return std::string(type);
}

ValueHelp value_help(const CLI::Option& option) {
  const std::string text = option.get_type_name();
  const size_t colon = text.find(':');
  std::string form = form_of_type(std::string_view(text).substr(0, colon));
  if (colon == text.npos) return {std::move(form), {}};
  std::string check = text.substr(colon + 1);
  if (check.starts_with('{')) {
    check = check.substr(1, check.size() - 2);
    check.erase(std::remove(check.begin(), check.end(), ' '), check.end());
    std::replace(check.begin(), check.end(), ',', '|');
    return {std::move(check), {}};
  }
  const bool is_word = std::all_of(check.begin(), check.end(), [](char c) { return c >= 'A'; });
  if (is_word) return {std::move(check), {}};
  return {std::move(form), std::move(check)};
}

// Rewrites the parser's own messages in our form: what was expected and what came.
std::string in_our_words(const std::string& text) {
  const auto between = [&](std::string_view before, std::string_view after) {
    const size_t begin = text.find(before) + before.size();
    return text.substr(begin, text.find(after, begin) - begin);
  };
  constexpr std::string_view kConvert = "Could not convert: ";
  constexpr std::string_view kEquals = " = ";
  if (text.starts_with(kConvert) && text.find(kEquals) != text.npos) {
    return between(kConvert, kEquals) + ": expected a number, got " +
           text.substr(text.find(kEquals) + kEquals.size());
  }
  constexpr std::string_view kRequired = " required ";
  if (text.ends_with(" missing") && text.find(kRequired) != text.npos) {
    return text.substr(0, text.find(':')) + ": expected a value, got none";
  }
  return text;
}

std::vector<std::string> verbs_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(verb->get_name());
  }
  return names;
}

std::vector<std::string> flags_of(const CLI::App& verb) {
  std::vector<std::string> names;
  for (const CLI::Option* option : verb.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// Returns the verb that was called last, such as `latency` of `quire bench latency`.
const CLI::App& called_verb(const CLI::App& app) {
  const CLI::App* verb = &app;
  while (!verb->get_subcommands().empty()) verb = verb->get_subcommands().front();
  return *verb;
}

bool lacks_verb(const CLI::Error& error) {
  return std::string_view(error.what()).starts_with("A subcommand is required");
}

}  // namespace

std::string HelpFormatter::make_option_name(const CLI::Option* option, bool is_positional) const {
  if (is_positional) return option->get_name(true, false);
  std::vector<std::string> names;
  for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  if (option->get_type_size() == 0 || option->get_positional()) return {};
  const bool takes_many = option->get_expected_max() == CLI::detail::expected_max_vector_size;
  return " " + value_help(*option).form + (takes_many ? " ..." : "");
}

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  std::vector<std::string> notes;
  if (option->get_type_size() != 0) {
    if (std::string bounds = value_help(*option).bounds; !bounds.empty()) {
      notes.push_back(std::move(bounds));
    }
    std::string value = option->get_default_str();
    if (value.starts_with('[')) value = value.substr(1, value.size() - 2);
    if (!value.empty()) notes.push_back("default " + value);
  }
  if (option->get_required()) notes.push_back("required");
  if (notes.empty()) return option->get_description();
  return fmt::format("{} ({})", option->get_description(), fmt::join(notes, "; "));
}

bool is_bare_call(const CLI::App& app, const CLI::Error& error) {
  return lacks_verb(error) && app.remaining(true).empty();
}

std::string failure_line(const CLI::App* app, const CLI::Error& error) {
  std::string text = in_our_words(error.what());
  const CLI::App& verb = called_verb(*app);
  const std::vector<std::string> unknown = app->remaining(true);
  if (lacks_verb(error) && !unknown.empty()) {
    text = fmt::format("expected a verb, got '{}'{}", unknown.front(),
                       did_you_mean(unknown.front(), verbs_of(verb)));
    if (&verb != app) text = verb.get_name() + ": " + text;
  } else if (text.starts_with("The following argument") && !unknown.empty()) {
    const std::string& first = unknown.front();
    const std::string flag = first.substr(0, first.find('='));
    text = fmt::format("unknown argument {}{}", fmt::join(unknown, " "),
                       flag.starts_with('-') ? did_you_mean(flag, flags_of(verb)) : "");
  }
  std::replace(text.begin(), text.end(), '\n', ' ');
  return "quire: " + text + (text.ends_with('?') ? " See --help\n" : "; see --help\n");
}

}  // namespace quire::cli
