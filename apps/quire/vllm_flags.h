// Flags of `vllm serve` that start scripts carry and that mean something else here, or nothing.
// docs/vllm-flags.md lists them beside those of ours that mean the same; a test holds the two
// together.
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
  kOne,             // a number of processes or devices: only 1
  kOneOf,           // one of `values`, separated by blanks: what happens here anyway
  kMissing,         // asks for a feature that is not there: refused
};

struct VllmFlag {
  std::string_view names;  // as CLI11 takes them: "--a,--b"
  VllmFlagKind kind;
  std::string_view values = {};  // kOneOf: what is accepted; kMissing: what to do instead
};
std::span<const VllmFlag> vllm_flags();

// Accepts them all; those without effect that were given are put into `without_effect`.
void add_vllm_flags(CLI::App& verb, std::vector<std::string>& without_effect);

// A command line as vLLM's parser would take it: underscores of flags as dashes, its short forms
// (-tp 2, -tp=2) as long ones. Values are left as they are.
std::vector<std::string> vllm_spelling(std::vector<std::string> arguments);

// Of a flag that is given twice the last one counts.
void take_last_of_repeated(CLI::App& verb);

// A count of tokens as vLLM reads it: 4096, 1k (1000), 1K (1024), 25.6k, and so on with m and g;
// "auto" and -1 give `automatic` where that is not empty. For transform().
CLI::Validator token_count(std::string automatic = {});

}  // namespace quire::cli
