// Settings reads flags from a file and from the environment, as if they stood on the command line.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "quire/settings/settings_file.h"

namespace quire::cli {

// Appends the flag that `setting` stands for to the command line of `verb`. `where` names the place
// in the file, for errors. kInvalidArgument: the verb has no such flag, or the value of a switch is
// neither true nor false.
Status append_setting(const CLI::App& verb, const FileSetting& setting, const std::string& where,
                      std::vector<std::string>& arguments);

// Settings collects the flags of a verb from the command line, the environment and a file.
class Settings {
 public:
  // Returns `arguments`, which begin with the verb's name, after adding in front of its flags those
  // of `--config FILE` and then those of the environment ($QUIRE_MAX_MODEL_LEN is --max-model-len).
  // A flag of the command line replaces both; one of the environment replaces that of the file.
  // kInvalidArgument: the file cannot be read, or names something that is no flag of the verb.
  Result<std::vector<std::string>> expand(const CLI::App& verb, std::vector<std::string> arguments);

  // Returns the flags in force, once `verb` is parsed, as a file for --config. Comments in it say
  // where each value comes from. API keys are not shown.
  std::string effective(const CLI::App& verb) const;

 private:
  std::map<std::string, std::string> sources_;  // of flags that were expanded, by name
};

}  // namespace quire::cli
