#include "quire/shell/man_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

namespace quire::cli {
namespace {

// Escapes text so that man prints it as it is: no line is a command, and no line breaks at a
// hyphen.
std::string plain(std::string_view text) {
  std::string out;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
    line_begins = c == '\n';
  }
  return out;
}

std::string flags_of(const VerbText& verb) {
  std::string text, group;
  for (const FlagText& flag : verb.flags) {
    if (flag.group != group) {
      group = flag.group;
      text += fmt::format(".PP\n\\fI{}\\fP\n", plain(group));
    }
    std::vector<std::string> names;
    for (const std::string& name : flag.names) names.push_back("\\fB" + plain(name) + "\\fP");
    text += fmt::format(".TP\n{}{}{}\n{}\n", fmt::join(names, ", "), flag.form.empty() ? "" : " ",
                        plain(flag.form), plain(flag.help));
  }
  return text;
}

}  // namespace

std::string man_page(const std::vector<VerbText>& tree, const std::string& version) {
  const std::string& about = tree.front().help;
  std::string text = fmt::format(
      ".TH QUIRE 1 \"\" \"{}\" \"User Commands\"\n"
      ".SH NAME\nquire \\- run and serve open\\-weight language models\n"
      ".SH SYNOPSIS\n\\fBquire\\fP \\fIVERB\\fP [\\fIOPTIONS\\fP] [\\fIMODEL\\fP]\n"
      ".SH DESCRIPTION\n.nf\n{}\n.fi\n",
      plain(version), plain(about));
  text += ".SH OPTIONS\n" + flags_of(tree.front());
  for (size_t i = 1; i < tree.size(); ++i) {
    const VerbText& verb = tree[i];
    text += fmt::format(".SH {}\n{}\n", plain(verb.path), plain(verb.help));
    if (!verb.positionals.empty())
      text += fmt::format(".PP\nArguments: {}\n",
                          plain(fmt::format("{}", fmt::join(verb.positionals, " "))));
    text += flags_of(verb);
  }
  return text;
}

}  // namespace quire::cli
