#include "quire/shell/command_tree.h"

#include <algorithm>
#include <sstream>

#include "quire/usage.h"

namespace quire::cli {
namespace {

std::vector<const CLI::App*> verbs_below(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* verb) { return !verb->get_name().empty(); });
}

FlagText flag_text(const CLI::Option& option, const HelpFormatter& formatter) {
  FlagText flag{.names = {},
                .form = formatter.make_option_opts(&option),
                .choices = {},
                .help = formatter.make_option_desc(&option),
                .group = option.get_group()};
  for (const std::string& name : option.get_snames()) flag.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) flag.names.push_back("--" + name);
  if (flag.form.starts_with(' ')) flag.form.erase(0, 1);
  if (flag.form.find('|') == flag.form.npos) return flag;
  std::istringstream forms(flag.form);
  for (std::string choice; std::getline(forms, choice, '|');) flag.choices.push_back(choice);
  return flag;
}

void append(const CLI::App& app, const std::string& path, std::vector<VerbText>& tree) {
  const HelpFormatter formatter;
  VerbText verb{
      .path = path, .help = app.get_description(), .verbs = {}, .positionals = {}, .flags = {}};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) {
      verb.positionals.push_back(option->get_name(true, false));
    } else if (!option->get_group().empty()) {  // others are hidden
      verb.flags.push_back(flag_text(*option, formatter));
    }
  }
  for (const CLI::App* below : verbs_below(app)) verb.verbs.push_back(below->get_name());
  tree.push_back(std::move(verb));
  for (const CLI::App* below : verbs_below(app))
    append(*below, path + " " + below->get_name(), tree);
}

}  // namespace

std::vector<VerbText> command_tree(const CLI::App& app) {
  std::vector<VerbText> tree;
  append(app, app.get_name(), tree);
  return tree;
}

}  // namespace quire::cli
