// This program measures tokenizer speed. It needs the shared test data, beside the checkout or at
// $QUIRE_TEST_DATA:
//   ninja -C build/release quire_tokenizer_bench
//   build/release/src/tokenizer/quire_tokenizer_bench
// The result to quote is bytes_per_second. The text is the licence texts and notes of the shared
// data, about 200 KB of English. As in a server, the word cache is filled after the first round.
#include <benchmark/benchmark.h>

#include <filesystem>

#include "tests/support/test_data.h"
#include "tokenizer/detokenizer.h"
#include "tokenizer/files/tiktoken.h"
#include "tokenizer/json/tokenizer_json.h"
#include "tokenizer/sentencepiece/sentencepiece_model.h"

namespace quire {
namespace {

using test::read_file;
using test::shared_data;

std::string english_text() {
  std::string text;
  const auto licences = shared_data("LICENSES");
  if (!licences) return text;
  for (const auto& entry : std::filesystem::directory_iterator(*licences))
    text += read_file(entry.path());
  if (const auto sonnet = shared_data("traces/sonnet.txt")) text += read_file(*sonnet);
  return text;
}

std::unique_ptr<Tokenizer> load(const std::string& name) {
  const auto file = shared_data("tokenizers/" + name);
  if (!file) return nullptr;
  const std::string bytes = read_file(*file);
  if (name.ends_with(".json")) return tokenizer_from_json(bytes).value();
  if (name.ends_with(".gz"))
    return tokenizer_from_tiktoken(bytes, *tiktoken_encoding("o200k_base")).value();
  return tokenizer_from_sentencepiece(bytes).value();
}

void encode(benchmark::State& state, const std::string& name) {
  const auto tokenizer = load(name);
  const std::string text = english_text();
  if (tokenizer == nullptr || text.empty())
    return state.SkipWithError("the shared test data is not here");
  size_t num_ids = 0;
  for (auto _ : state) num_ids = tokenizer->encode(text).size();
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(text.size()));
  state.counters["ids"] = static_cast<double>(num_ids);
}

// Measures scripts beyond ASCII with a pattern that has no hand-written scanner: Qwen 2's pattern,
// changed so that every word may contain marks.
void encode_by_regex(benchmark::State& state) {
  const auto file = shared_data("tokenizers/qwen2/tokenizer.json");
  if (!file) return state.SkipWithError("the shared test data is not here");
  std::string json = read_file(*file);
  constexpr std::string_view kLetters = R"(?\\p{L}+)";
  const size_t at = json.find(kLetters);
  if (at == json.npos) return state.SkipWithError("the pattern is another one");
  json.replace(at, kLetters.size(), R"(?[\\p{L}\\p{M}]+)");
  const auto tokenizer = tokenizer_from_json(json).value();
  std::string text;
  for (int i = 0; i < 500; ++i) {
    text += "Tokenizers cut text. 今日は、天気がいいですね。Привет, мир! नमस्ते दुनिया। 3.14 = π? ";
  }
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer->encode(text));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(text.size()));
}

void decode_stream(benchmark::State& state, const std::string& name) {
  const auto tokenizer = load(name);
  const std::string text = english_text();
  if (tokenizer == nullptr || text.empty())
    return state.SkipWithError("the shared test data is not here");
  const auto ids = tokenizer->encode(text);
  for (auto _ : state) {
    IncrementalDetokenizer detokenizer(*tokenizer);
    for (const TokenId id : ids) benchmark::DoNotOptimize(detokenizer.push(id));
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(ids.size()));
}

void load_file(benchmark::State& state, const std::string& name) {
  if (!shared_data("tokenizers/" + name))
    return state.SkipWithError("the shared test data is not here");
  for (auto _ : state) benchmark::DoNotOptimize(load(name));
}

BENCHMARK_CAPTURE(encode, gpt2, "gpt2/tokenizer.json");
BENCHMARK_CAPTURE(encode, qwen2, "qwen2/tokenizer.json");
BENCHMARK_CAPTURE(encode, o200k, "o200k/o200k_base.tiktoken.gz");
BENCHMARK_CAPTURE(encode, mistral_v03, "mistral_v0.3/tokenizer.json");
BENCHMARK_CAPTURE(encode, llama2_spm, "llama2_spm/tokenizer.model");
BENCHMARK_CAPTURE(encode, t5_unigram, "t5/spiece.model");
BENCHMARK(encode_by_regex);
BENCHMARK_CAPTURE(decode_stream, qwen2, "qwen2/tokenizer.json");
BENCHMARK_CAPTURE(decode_stream, llama2_spm, "llama2_spm/tokenizer.model");
BENCHMARK_CAPTURE(load_file, qwen2, "qwen2/tokenizer.json")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace quire

BENCHMARK_MAIN();
