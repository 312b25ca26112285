// These are flags of `vllm serve` that start scripts pass and that mean something else in Quire, or
// nothing. docs/vllm-flags.md lists them beside the flags that mean the same in both, and a test
// checks that the page and the table agree.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quire::cli {

enum class VllmFlagKind : uint8_t {
  kNoEffect,        // a value follows
  kNoEffectSwitch,  // none follows
  kOne,             // a number of processes or devices, which must be 1
  kOneOf,           // one of `values`, separated by blanks; all mean what Quire does anyway
  kMissing,         // a feature that Quire lacks; it is refused
};

struct VllmFlag {
  std::string_view names;  // as CLI11 takes them: "--a,--b"
  VllmFlagKind kind;
  std::string_view values = {};  // kOneOf: what is accepted; kMissing: what to do instead
};
std::span<const VllmFlag> vllm_flags();

// Adds all of these flags. The names of given flags without effect are put into `without_effect`.
void add_vllm_flags(CLI::App& verb, std::vector<std::string>& without_effect);

// Rewrites a command line as vLLM's parser would read it: underscores in flags become dashes, and
// vLLM's short forms (-tp 2, -tp=2) become long ones. Values stay as they are.
std::vector<std::string> vllm_spelling(std::vector<std::string> arguments);

// Makes the last value count where a flag is given twice.
void take_last_of_repeated(CLI::App& verb);

// Reads a count of tokens as vLLM does: 4096, 1k (1000), 1K (1024), 25.6k, and so on with m and g.
// "auto" and -1 become `automatic`, if that is not empty. It is for transform().
CLI::Validator token_count(std::string automatic = {});

}  // namespace quire::cli
