// LLM is the C++ interface of Quire: it loads a model, generates, chats and streams.
//
//   auto llm = quire::LLM::load({.model = "/models/llama-3.2-1b"});
//   if (!llm.ok()) { std::cerr << llm.status().message() << "\n"; return 1; }
//   quire::SamplingParams params;
//   params.max_tokens = 64;
//   auto outputs = (*llm)->generate({"Once upon a time"}, params);
//   std::cout << (*outputs)[0].choices[0].text << "\n";
//
// All methods may be called from any thread. The requests of all threads share one continuously
// batched engine. Nothing throws: functions that can fail return Status or Result (base/result.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "core/beam_search_params.h"
#include "core/sampling_params.h"
#include "core/step.h"
#include "core/structured_outputs.h"

namespace quire {

struct LLMOptions {
  std::string model{};  // Hugging Face directory or .gguf file; empty: the built-in model
  // A Jinja template that replaces the model's own chat template: a file, or the template itself.
  std::string chat_template{};
  std::string device = "auto";  // cpu, cuda, or auto (a GPU when one can take the model)
  std::string cache_dir{};      // packed weights are kept here between loads; empty: nowhere
  std::string dtype = "auto";   // auto (the checkpoint's), float32, bfloat16, float16
  // Type of the KV cache: auto (as dtype), float32, bfloat16, float16, fp8, fp8_e5m2 or int8.
  std::string kv_cache_dtype = "auto";
  std::string isa = "auto";               // auto (the best here), portable, avx2, avx512, amx
  int32_t num_threads = 0;                // 0: one per physical core, within the CPU quota
  int32_t max_model_len = 0;              // tokens of prompt and output; 0: the model's
  int32_t max_num_seqs = 128;             // requests in one step
  int32_t max_num_batched_tokens = 2048;  // tokens in one step
  // While some request is decoding, a step takes no more prompt tokens than are predicted to fit
  // into this time, so that tokens are streamed evenly. 0 sets no limit, which suits batches that
  // nobody waits for.
  int32_t max_step_ms = 0;
  int32_t block_size = 16;     // tokens per KV block
  int64_t kv_cache_bytes = 0;  // 0: what the memory plan leaves
  int32_t num_kv_blocks = 0;   // exact number of blocks; 0: from kv_cache_bytes
  bool enable_prefix_caching = true;
  int32_t max_adapters = 0;    // LoRA adapters that may be loaded at once; 0: none
  int32_t max_lora_rank = 16;  // largest rank of all adapters; memory is planned for it
  int32_t max_images = 16;     // largest number in one conversation
  // Called while weights load, on the loading thread.
  std::function<void(int64_t done_bytes, int64_t total_bytes)> on_progress{};
};

struct ChatMessage {
  std::string role;  // system, user, assistant, tool
  std::string content;
  // The bytes of JPEG, PNG or WebP files. Images stand before the text. Only a model with
  // LLMInfo::reads_images takes them.
  std::vector<std::string> images{};
};

struct ChoiceOutput {
  int32_t index = 0;
  std::string text;
  std::vector<TokenId> token_ids;
  std::vector<TokenLogprobs> logprobs;  // one per token when params.logprobs is set
  std::string finish_reason;            // stop, length, abort
  std::variant<std::monostate, std::string, TokenId> stop_reason;
};

struct RequestOutput {
  std::vector<TokenId> prompt_token_ids;
  // Entries begin at position 1. They are filled when params.prompt_logprobs is set.
  std::vector<TokenLogprobs> prompt_logprobs;
  int32_t num_cached_tokens = 0;  // prompt tokens read from the prefix cache
  std::vector<ChoiceOutput> choices;
};

// EmbedOptions controls how embeddings and scores are computed.
struct EmbedOptions {
  int32_t dimensions = 0;  // number of columns that are kept, before normalization; 0: all
  bool normalize = true;   // vectors have length 1, and scores are probabilities, as the model says
  bool truncate = false;   // longer texts are cut at their end; otherwise they are refused
  // One of LLMInfo::tasks, whose adapter and prompt are used. When it is empty, embeddings use the
  // model's default prompt, and scores use its prompts for queries and documents, if it has them.
  std::string task;
};

// LLMInfo describes the loaded model.
struct LLMInfo {
  std::string name;           // the last part of the path, or quire-builtin
  int32_t max_model_len = 0;  // tokens of prompt and output of one request
  bool has_tokenizer = false;
  bool has_chat_template = false;
  bool reads_images = false;
  bool generates = true;           // otherwise only embed() and score() work
  int32_t embedding_size = 0;      // columns of embed(); 0: the model makes none
  int32_t num_labels = 0;          // of a classifier or reranker
  std::vector<std::string> tasks;  // tasks that the model has adapters or prompts for
  std::string reasoning_style;     // how answers mark reasoning (docs/tools.md); empty: they do not
};

struct LLMStats {
  int64_t num_requests_running = 0;
  int64_t num_requests_waiting = 0;
  uint64_t prompt_tokens = 0;
  uint64_t generation_tokens = 0;
  uint64_t num_preemptions = 0;
  uint64_t prefix_cache_queries = 0;  // tokens
  uint64_t prefix_cache_hits = 0;     // tokens
  int64_t num_kv_blocks = 0;
  int64_t num_kv_blocks_in_use = 0;
  // Sums over all steps whose cost is known: measured time, and the least time that the hardware
  // allows.
  uint64_t step_us = 0;
  uint64_t step_bound_us = 0;
};

class LLM {
 public:
  // A rule that the whole text of an answer must follow, for example to be JSON of a schema;
  // nullopt allows any text. A call with a rule that is wrong or cannot be enforced fails with
  // kInvalidArgument.
  using TextRule = std::optional<StructuredOutputs>;

  static Result<std::unique_ptr<LLM>> load(const LLMOptions& options);
  ~LLM();  // aborts what still runs

  // Loads a LoRA adapter of the model from its folder, as PEFT saves it, while requests may be
  // running. The methods below select it by `name`. When an adapter of that name is already loaded,
  // this one replaces it; running requests keep the adapter that they began with. kNotFound: there
  // is no such folder. kResourceExhausted: LLMOptions::max_adapters are already loaded.
  // kUnimplemented: LLMOptions::max_adapters is 0.
  Status load_adapter(const std::string& name, const std::string& path);
  Status unload_adapter(const std::string& name);
  std::vector<std::string> adapters() const;  // the names

  // Returns one output per prompt, in the order of the prompts, of which there may be any number;
  // all prompts run together. The first error fails the whole call. Here and below `adapter` is the
  // name of a loaded adapter, and an empty name stands for the model itself.
  Result<std::vector<RequestOutput>> generate(const std::vector<std::string>& prompts,
                                              const SamplingParams& params, int32_t num_choices = 1,
                                              const TextRule& rule = {},
                                              const std::string& adapter = {});

  // Returns the `beam_width` best texts that a beam search finds for each prompt, best first. Of
  // `params` it uses max_tokens, ignore_eos, eos_token_ids, logprobs and how text is made from
  // tokens. Sampling parameters such as the temperature have no effect. Parameters that would
  // change which texts are likely, or end them, are refused with kInvalidArgument.
  Result<std::vector<RequestOutput>> beam_search(const std::vector<std::string>& prompts,
                                                 int32_t beam_width, const SamplingParams& params,
                                                 const BeamSearchParams& rule = {});

  // Renders the model's chat template and generates. It fails when the model has no template.
  Result<RequestOutput> chat(const std::vector<ChatMessage>& messages, const SamplingParams& params,
                             const TextRule& rule = {}, const std::string& adapter = {});

  // The function is called on the calling thread with each new piece of text, in order, and with an
  // empty piece about 20 times a second while there is none. When it returns false, the answer
  // stops early (finish_reason abort).
  using OnText = std::function<bool(std::string_view text)>;
  Result<RequestOutput> stream(const std::string& prompt, const SamplingParams& params,
                               const OnText& on_text, const TextRule& rule = {},
                               const std::string& adapter = {});
  Result<RequestOutput> stream_chat(const std::vector<ChatMessage>& messages,
                                    const SamplingParams& params, const OnText& on_text,
                                    const TextRule& rule = {}, const std::string& adapter = {});

  // Returns one vector per text, in order; all texts run together. It fails when the model makes no
  // embeddings, or when a text is too long.
  Result<std::vector<std::vector<float>>> embed(const std::vector<std::string>& texts,
                                                const EmbedOptions& options = {});
  // Returns how well each document answers the query: the output of a cross-encoder for the pair,
  // or else the cosine of their embeddings.
  Result<std::vector<float>> score(const std::string& query,
                                   const std::vector<std::string>& documents,
                                   const EmbedOptions& options = {});

  // Fails when the model has no tokenizer.
  Result<std::vector<TokenId>> encode(const std::string& text) const;
  // Returns the prompt of a conversation as chat() would run it. It fails when the model has no
  // chat template or no tokenizer.
  Result<std::vector<TokenId>> encode_chat(const std::vector<ChatMessage>& messages) const;
  std::string decode(const std::vector<TokenId>& token_ids) const;

  // Returns the model's generation_config.json as sampling parameters. max_tokens is the number in
  // that file, or else the model's context length.
  SamplingParams default_params() const;
  LLMInfo info() const;
  LLMStats stats() const;

 private:
  struct Impl;
  friend struct LLMFactory;
  explicit LLM(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
