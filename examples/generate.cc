// This is the C++ API in one page: it loads a model, generates for several prompts at once, chats
// with streaming, and reads statistics.
//
//   example_generate [MODEL]
//
// MODEL is a Hugging Face directory or a .gguf file; without it the built-in model runs.
#include <iostream>

#include "quire/llm.h"

namespace {

int fail(const quire::Status& status) {
  std::cerr << "error: " << status.message() << "\n";
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  auto loaded = quire::LLM::load({.model = argc > 1 ? argv[1] : "", .max_num_seqs = 8});
  if (!loaded.ok()) return fail(loaded.status());
  quire::LLM& llm = **loaded;

  quire::SamplingParams params = llm.default_params();
  params.temperature = 0;
  params.max_tokens = 40;
  const auto outputs = llm.generate({"Once upon a time", "The little cat"}, params);
  if (!outputs.ok()) return fail(outputs.status());
  for (const quire::RequestOutput& output : *outputs) {
    std::cout << output.choices[0].text << "\n[" << output.choices[0].finish_reason << "]\n\n";
  }

  const auto answer =
      llm.stream_chat({{"user", "What is 2 + 3?"}}, params, [](std::string_view text) {
        std::cout << text << std::flush;
        return true;  // false would stop the answer here
      });
  if (!answer.ok()) return fail(answer.status());

  const quire::LLMStats stats = llm.stats();
  std::cout << "\n\n"
            << stats.generation_tokens << " tokens generated, " << stats.num_kv_blocks
            << " KV blocks\n";
  return 0;
}
