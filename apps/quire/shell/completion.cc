#include "quire/shell/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

namespace quire::cli {
namespace {

// Returns the first line, without the characters that would end a quoted text in a shell.
std::string one_line(std::string_view help) {
  std::string line(help.substr(0, help.find('\n')));
  std::erase_if(line,
                [](char c) { return c == '\'' || c == '`' || c == '"' || c == '\\' || c == '$'; });
  return line;
}

std::vector<std::string> words_of(const VerbText& verb) {
  std::vector<std::string> words = verb.verbs;
  for (const FlagText& flag : verb.flags)
    words.insert(words.end(), flag.names.begin(), flag.names.end());
  return words;
}

// Returns the last word of the path: "serve" of "quire serve".
std::string_view name_of(const VerbText& verb) {
  return std::string_view(verb.path).substr(verb.path.rfind(' ') + 1);
}

std::string replaced(std::string text, char from, std::string_view to) {
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, 1, to);
  return text;
}

// Returns a flag in the notation of zsh's _arguments: its name, in brackets its help, then its
// value.
std::string zsh_flag(const FlagText& flag) {
  std::string help = replaced(replaced(one_line(flag.help), '[', "("), ']', ")");
  help = replaced(std::move(help), ':', "\\:");
  std::string value;
  if (!flag.choices.empty()) {
    value = fmt::format(":value:({})", fmt::join(flag.choices, " "));
  } else if (!flag.form.empty()) {
    value = ":value:_files";
  }
  std::string lines;
  for (const std::string& name : flag.names)
    lines += fmt::format("    '*{}[{}]{}' \\\n", name, help, value);
  return lines;
}

std::string zsh_function(const VerbText& verb) {
  std::string text = fmt::format("_{}() {{\n", replaced(verb.path, ' ', "_"));
  if (!verb.verbs.empty()) text += "  local line state\n";
  text += "  _arguments -C \\\n";
  for (const FlagText& flag : verb.flags) text += zsh_flag(flag);
  if (verb.verbs.empty()) return text + "    '*:file:_files'\n}\n";
  text += fmt::format("    '1:verb:({})' \\\n    '*::argument:->arguments'\n",
                      fmt::join(verb.verbs, " "));
  text += "  case $line[1] in\n";
  for (const std::string& below : verb.verbs)
    text += fmt::format("    {}) _{}_{} ;;\n", below, replaced(verb.path, ' ', "_"), below);
  return text + "  esac\n}\n";
}

}  // namespace

std::string bash_completion(const std::vector<VerbText>& tree) {
  std::string paths, words, values;
  for (const VerbText& verb : tree) {
    if (verb.path.find(' ') != verb.path.npos)
      paths += (paths.empty() ? "" : " | ") + fmt::format("\"{}\"", verb.path);
    words +=
        fmt::format("    \"{}\") words=\"{}\" ;;\n", verb.path, fmt::join(words_of(verb), " "));
    for (const FlagText& flag : verb.flags) {
      if (flag.choices.empty()) continue;
      for (const std::string& name : flag.names)
        values += fmt::format("    \"{} {}\") words=\"{}\" ;;\n", verb.path, name,
                              fmt::join(flag.choices, " "));
    }
  }
  return fmt::format(
      R"(# Completion of quire for bash.
_quire() {{
  local path=quire word words="" current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$path $word" in {}) path="$path $word" ;; esac
  done
  case "$path" in
{}  esac
  case "$path $before" in
{}  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _quire quire
)",
      paths, words, values);
}

std::string zsh_completion(const std::vector<VerbText>& tree) {
  std::string text = "#compdef quire\n# Completion of quire for zsh.\n";
  for (const VerbText& verb : tree) text += zsh_function(verb);
  return text + "_quire \"$@\"\n";
}

std::string fish_completion(const std::vector<VerbText>& tree) {
  std::string text = "# Completion of quire for fish.\n";
  for (const VerbText& verb : tree) {
    const bool is_program = verb.path.find(' ') == verb.path.npos;
    const std::string when = is_program
                                 ? std::string("__fish_use_subcommand")
                                 : fmt::format("__fish_seen_subcommand_from {}", name_of(verb));
    for (const std::string& below : verb.verbs) {
      const auto it = std::find_if(tree.begin(), tree.end(), [&](const VerbText& other) {
        return other.path == verb.path + " " + below;
      });
      text +=
          fmt::format("complete -c quire -n '{}' -a {} -d '{}'\n", when, below, one_line(it->help));
    }
    for (const FlagText& flag : verb.flags) {
      text += fmt::format("complete -c quire -n '{}'", when);
      for (const std::string& name : flag.names)
        text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (!flag.form.empty()) text += " -r";
      if (!flag.choices.empty()) text += fmt::format(" -f -a '{}'", fmt::join(flag.choices, " "));
      text += fmt::format(" -d '{}'\n", one_line(flag.help));
    }
  }
  return text;
}

}  // namespace quire::cli
