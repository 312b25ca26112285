#include "quire/vllm_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace quire::cli {
namespace {

using K = VllmFlagKind;

constexpr VllmFlag kFlags[] = {
    // Quire has one API server in one process, does not divide a context among devices and has its
    // own loaders, so each of these flags has only values that mean what Quire does anyway.
    {"--data-parallel-size-local", K::kOne},
    {"--decode-context-parallel-size", K::kOne},
    {"--prefill-context-parallel-size", K::kOne},
    {"--api-server-count", K::kOne},
    {"--load-format", K::kOneOf, "auto hf safetensors gguf fastsafetensors runai_streamer"},
    {"--quantization", K::kOneOf,
     "none awq awq_marlin gptq gptq_marlin fp8 compressed-tensors gguf"},
    {"--tokenizer-mode", K::kOneOf, "auto hf slow"},
    {"--config-format", K::kOneOf, "auto hf"},
    {"--runner", K::kOneOf, "auto generate"},
    {"--task", K::kOneOf, "auto generate"},
    {"--convert", K::kOneOf, "auto none"},
    {"--response-role", K::kOneOf, "assistant"},
    {"--chat-template-content-format", K::kOneOf, "auto string openai"},
    {"--lora-dtype", K::kOneOf, "auto"},
    {"--logprobs-mode", K::kOneOf, "raw_logprobs"},
    {"--model-impl", K::kOneOf, "auto vllm"},
    // These have no counterpart in Quire and change no answer.
    {"--trust-remote-code", K::kNoEffectSwitch},
    {"--disable-log-requests,--no-disable-log-requests", K::kNoEffectSwitch},
    {"--disable-log-stats", K::kNoEffectSwitch},
    {"--enable-log-outputs,--no-enable-log-outputs", K::kNoEffectSwitch},
    {"--enable-log-deltas,--no-enable-log-deltas", K::kNoEffectSwitch},
    {"--disable-uvicorn-access-log", K::kNoEffectSwitch},
    {"--disable-frontend-multiprocessing", K::kNoEffectSwitch},
    {"--disable-fastapi-docs", K::kNoEffectSwitch},
    {"--enable-server-load-tracking", K::kNoEffectSwitch},
    {"--disable-custom-all-reduce", K::kNoEffectSwitch},
    {"--disable-sliding-window", K::kMissing, "the model's attention is computed as it is"},
    {"--disable-cascade-attn,--no-disable-cascade-attn", K::kNoEffectSwitch},
    {"--enable-sleep-mode,--no-enable-sleep-mode", K::kNoEffectSwitch},
    {"--use-v2-block-manager", K::kNoEffectSwitch},
    {"--calculate-kv-scales", K::kNoEffectSwitch},
    {"--kv-cache-metrics", K::kNoEffectSwitch},
    {"--language-model-only", K::kNoEffectSwitch},
    {"--ignore-patterns", K::kNoEffect},
    {"--swap-space", K::kNoEffect},
    {"--cpu-offload-gb", K::kNoEffect},
    {"--max-log-len", K::kNoEffect},
    {"--max-parallel-loading-workers", K::kNoEffect},
    {"--max-seq-len-to-capture", K::kNoEffect},
    {"--fully-sharded-loras,--no-fully-sharded-loras", K::kNoEffectSwitch},
    {"--enable-ssl-refresh,--no-enable-ssl-refresh", K::kNoEffectSwitch},
    {"--uvicorn-log-level", K::kNoEffect},
    {"--log-config-file", K::kNoEffect},
    {"--download-dir", K::kNoEffect},
    {"--hf-token", K::kNoEffect},
    {"--revision", K::kNoEffect},
    {"--code-revision", K::kNoEffect},
    {"--tokenizer-revision", K::kNoEffect},
    {"--seed", K::kNoEffect},
    {"--attention-backend", K::kNoEffect},
    {"--compilation-config", K::kNoEffect},
    {"--optimization-level", K::kNoEffect},
    {"--prefix-caching-hash-algo", K::kNoEffect},
    {"--kv-cache-metrics-sample", K::kNoEffect},
    {"--limit-mm-per-prompt", K::kNoEffect},
    {"--mm-processor-kwargs", K::kNoEffect},
    {"--mm-processor-cache-gb", K::kNoEffect},
    {"--mm-encoder-tp-mode", K::kNoEffect},
    {"--guided-decoding-backend", K::kNoEffect},
    {"--num-scheduler-steps", K::kNoEffect},
    {"--max-num-partial-prefills", K::kNoEffect},
    {"--max-long-partial-prefills", K::kNoEffect},
    // Without these features a client would get other answers than it asks for, or none.
    {"--hf-overrides", K::kMissing, "edit the model's config.json"},
    {"--rope-scaling", K::kMissing, "edit the model's config.json"},
    {"--rope-theta", K::kMissing, "edit the model's config.json"},
    {"--override-generation-config", K::kMissing, "edit the model's generation_config.json"},
    {"--middleware", K::kMissing, "Quire runs no Python code"},
    {"--tool-parser-plugin", K::kMissing, "Quire runs no Python code"},
    {"--logits-processors", K::kMissing, "Quire runs no Python code"},
};

constexpr std::pair<std::string_view, std::string_view> kShortForms[] = {
    {"-tp", "--tensor-parallel-size"},
    {"-pp", "--pipeline-parallel-size"},
    {"-dp", "--data-parallel-size"},
    {"-dpl", "--data-parallel-size-local"},
    {"-dcp", "--decode-context-parallel-size"},
    {"-pcp", "--prefill-context-parallel-size"},
    {"-asc", "--api-server-count"},
    {"-q", "--quantization"},
    {"-cc", "--compilation-config"},
    {"-O", "--optimization-level"},
};

// Returns why the flag cannot have this value; empty when it can.
std::string refusal(const VllmFlag& flag, std::string_view value) {
  if (flag.kind == K::kMissing) {
    return fmt::format("Quire does not have this feature of vLLM; {}", flag.values);
  }
  if (flag.kind == K::kOne && value != "1") {
    return fmt::format("expected 1, the only value that Quire has, got {}", value);
  }
  if (flag.kind != K::kOneOf) return {};
  for (std::string_view rest = flag.values; !rest.empty();) {
    const size_t blank = std::min(rest.find(' '), rest.size());
    if (rest.substr(0, blank) == value) return {};
    rest.remove_prefix(std::min(blank + 1, rest.size()));
  }
  return fmt::format("expected one of {}, got {}", flag.values, value);
}

}  // namespace

std::span<const VllmFlag> vllm_flags() { return kFlags; }

// The flags are hidden from --help, which only lists flags that have an effect. They are checked
// here, because the parser's own checks do not name hidden flags.
void add_vllm_flags(CLI::App& verb, std::vector<std::string>& without_effect) {
  for (const VllmFlag& flag : kFlags) {
    const std::string names(flag.names);
    const std::string name = names.substr(0, names.find(','));
    if (flag.kind == K::kNoEffectSwitch) {
      const auto note = [&without_effect, name](int64_t) { without_effect.push_back(name); };
      verb.add_flag_function(names, note)->group("");
      continue;
    }
    const auto take = [&flag, &without_effect, name](const std::string& value) {
      const std::string why = refusal(flag, value);
      if (!why.empty()) throw CLI::ValidationError(name, why);
      if (flag.kind != K::kOne) without_effect.push_back(name);
    };
    CLI::Option* const option = verb.add_option_function<std::string>(names, take)->group("");
    if (flag.kind == K::kMissing) option->expected(0, 1);
  }
}

std::vector<std::string> vllm_spelling(std::vector<std::string> arguments) {
  for (std::string& argument : arguments) {
    const size_t equals = std::min(argument.find('='), argument.size());
    if (argument.starts_with("--")) {
      std::replace(argument.begin(), argument.begin() + static_cast<std::ptrdiff_t>(equals), '_',
                   '-');
      continue;
    }
    for (const auto& [brief, full] : kShortForms) {
      if (std::string_view(argument).substr(0, equals) != brief) continue;
      argument.replace(0, equals, full);
      break;
    }
  }
  return arguments;
}

void take_last_of_repeated(CLI::App& verb) {
  for (CLI::Option* const option : verb.get_options()) {
    if (option->get_expected_max() <= 1) {
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    }
  }
}

CLI::Validator token_count(std::string automatic) {
  const auto to_number = [automatic](std::string& text) -> std::string {
    if (!automatic.empty() && (text == "auto" || text == "-1")) {
      text = automatic;
      return {};
    }
    char* unit = nullptr;
    const double count = std::strtod(text.c_str(), &unit);
    const std::string_view suffix = unit;
    constexpr std::string_view kUnits = "kmgKMG";
    double scale = 1;
    bool known = suffix.empty();
    if (suffix.size() == 1 && kUnits.find(suffix[0]) != kUnits.npos) {
      const size_t index = kUnits.find(suffix[0]);
      scale = std::pow(index < 3 ? 1000.0 : 1024.0, static_cast<double>(index % 3 + 1));
      known = true;
    }
    const double total = count * scale;
    const bool digit = !text.empty() && text[0] >= '0' && text[0] <= '9';
    if (!digit || !known || std::floor(total) != total || total > 2147483647.0) {
      return fmt::format("expected a number of tokens such as 4096, 4K or 25.6k{}, got {}",
                         automatic.empty() ? "" : ", or auto", text);
    }
    text = std::to_string(static_cast<int64_t>(total));
    return {};
  };
  return {to_number, "TOKENS"};
}

}  // namespace quire::cli
