// `quire completion` and `quire man` describe the program for shells and for man.
#include <fmt/format.h>

#include "quire/commands.h"
#include "quire/flag_checks.h"
#include "quire/shell/completion.h"
#include "quire/shell/man_page.h"
#include "quire/version.h"

namespace quire::cli {

void add_completion(CLI::App& app) {
  CLI::App& verb =
      *app.add_subcommand("completion", "Print completions for a shell: bash, zsh or fish");
  verb.footer(
      "  quire completion bash > /usr/share/bash-completion/completions/quire\n"
      "  quire completion zsh  > /usr/share/zsh/vendor-completions/_quire\n"
      "  quire completion fish > ~/.config/fish/completions/quire.fish");
  auto shell = std::make_shared<std::string>();
  verb.add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(one_of({"bash", "zsh", "fish"}));
  verb.callback([&app, shell] {
    const std::vector<VerbText> tree = command_tree(app);
    fmt::print("{}", *shell == "bash"  ? bash_completion(tree)
                     : *shell == "zsh" ? zsh_completion(tree)
                                       : fish_completion(tree));
  });
}

void add_man(CLI::App& app) {
  CLI::App& verb =
      *app.add_subcommand("man", "Print the manual page, as man reads it: quire man | man -l -");
  verb.callback(
      [&app] { fmt::print("{}", man_page(command_tree(app), std::string(version_name()))); });
}

}  // namespace quire::cli
