// Flags from a file and from the environment, as if they stood on the command line.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "quire/settings/settings_file.h"

namespace quire::cli {

// Appends what `setting`, at `where` in a file, is on the command line of `verb`. kInvalidArgument: the
// verb has no such flag, or a switch is neither true nor false.
Status append_setting(const CLI::App& verb, const FileSetting& setting, const std::string& where,
                      std::vector<std::string>& arguments);

// Settings collects the flags of a verb from the command line, the environment and a file.
class Settings {
 public:
  // Returns `arguments`, which begin with the verb's name, with the flags of `--config FILE` and
  // then those of the environment put before the others: $QUIRE_MAX_MODEL_LEN is --max-model-len.
  // A flag of the command line takes the place of both, one of the environment that of the file.
  // kInvalidArgument: the file cannot be read, or names no flag of the verb.
  Result<std::vector<std::string>> expand(const CLI::App& verb, std::vector<std::string> arguments);

  // Returns the flags in force, once `verb` is parsed, as such a file; comments say where each
  // value comes from. Keys are not shown.
  std::string effective(const CLI::App& verb) const;

 private:
  std::map<std::string, std::string> sources_;  // of flags that were expanded, by name
};

}  // namespace quire::cli
