#include "quire/serve_flags.h"

#include <boost/json/parse.hpp>

#include "quire/engine_flags.h"
#include "quire/flag_checks.h"
#include "quire/lora_flags.h"
#include "quire/otlp_flags.h"
#include "quire/serving_process.h"
#include "quire/vllm_flags.h"

namespace quire::cli {
namespace {

// Accepts auto, none, or a name that `parse` accepts.
template <typename Parse>
CLI::Validator parser_name(Parse parse) {
  const auto check = [parse](std::string& name) -> std::string {
    if (name == "auto" || name == "none") return {};
    const auto parsed = parse(name);
    return parsed.ok() ? std::string() : parsed.status().message() + " (or auto, or none)";
  };
  return {check, "NAME"};
}

void add_reply_flags(CLI::App& verb, ServeFlags& flags) {
  constexpr const char* kGroup = "API";
  verb.add_option(
          "--tool-call-parser", flags.tool_call_parser,
          "Format in which the model writes tool calls, by vLLM's names: hermes, qwen3_coder, "
          "llama3_json, mistral, deepseek_v3, kimi_k2, openai … (docs/tools.md lists all); auto: "
          "as the chat template shows; none: calls stay text")
      ->check(parser_name(parse_dialect_name))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--reasoning-parser", flags.reasoning_parser,
                  "Format in which the model marks its reasoning, by vLLM's names: qwen3, "
                  "deepseek_r1, mistral, gemma4, openai_gptoss … (docs/tools.md lists all); auto: "
                  "as the chat template shows; none: reasoning stays part of the content")
      ->check(parser_name(parse_reasoning_name))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_flag("--enable-auto-tool-choice", flags.enable_auto_tool_choice,
                "Refuse to start when the chat template shows no known format of tool calls. Calls "
                "are returned without this flag too")
      ->group(kGroup);
}

CLI::Validator json_object() {
  const auto check = [](std::string& text) -> std::string {
    boost::system::error_code ec;
    const boost::json::value value = boost::json::parse(text, ec);
    return !ec && value.is_object() ? std::string() : "expected a JSON object, got " + text;
  };
  return {check, "JSON"};
}

// Reads vLLM's JSON object. Members that name a backend, or a parser that has a flag of its own,
// are ignored.
Status read_structured_outputs_config(const std::string& text, StructuredOutputsConfig& config) {
  const boost::json::object object = boost::json::parse(text).as_object();
  for (const auto& member : object) {
    const std::string_view name(member.key().data(), member.key().size());
    if (name == "backend" || name == "reasoning_parser" || name == "reasoning_parser_plugin" ||
        name == "disable_fallback" || member.value().is_null()) {
      continue;
    }
    bool* const flag = name == "disable_any_whitespace" ? &config.disable_any_whitespace
                       : name == "disable_additional_properties"
                           ? &config.disable_additional_properties
                       : name == "enable_in_reasoning" ? &config.enable_in_reasoning
                                                       : nullptr;
    if (flag == nullptr) return invalid_argument("unknown member '{}'", name);
    if (!member.value().is_bool()) return invalid_argument("{}: expected true or false", name);
    *flag = member.value().get_bool();
  }
  return {};
}

void add_access_flags(CLI::App& verb, ServerOptions& server) {
  constexpr const char* kGroup = "Server";
  verb.add_option("--host", server.host, "Address to listen on; 0.0.0.0: all addresses")
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--port", server.port, "TCP port; 0 for any free one")
      ->check(in_range(0, 65535))
      ->capture_default_str()
      ->group(kGroup);
  add_tls_flags(verb, server.tls, "Encryption");
  verb.add_option("--uds", server.uds, "Unix socket to listen on instead of a port")->group(kGroup);
  verb.add_option("--api-key", server.api_keys,
                  "Key that clients must send; may be given several times. Default: "
                  "$QUIRE_API_KEY, else $VLLM_API_KEY")
      ->group(kGroup);
  verb.add_flag("--guard-metrics,!--no-guard-metrics", server.guard_metrics,
                "When there are keys, require one for /metrics too (default: on)")
      ->group(kGroup);
  verb.add_option("--root-path", server.root_path,
                  "Path under which a proxy serves this server; routes answer with and without it")
      ->group(kGroup);
  verb.add_option("--max-connections", server.limits.max_connections,
                  "Largest number of open connections")
      ->check(at_least(1))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--max-body-size", server.limits.body_bytes,
                  "Largest request body, for example 32MiB; larger ones are refused with 413")
      ->transform(byte_size())
      ->group(kGroup);
  verb.add_option("--max-parsed-size", server.limits.parsed_bytes,
                  "Memory limit for the JSON values of one request body, for example 64MiB; bodies "
                  "that need more are refused with 413")
      ->transform(byte_size())
      ->group(kGroup);
  verb.add_option("--max-answer-size", server.limits.answer_bytes,
                  "Memory limit for one answer that is not streamed, for example 512MiB; requests "
                  "that need more are refused with 413")
      ->transform(byte_size())
      ->group(kGroup);
  verb.add_option("--request-timeout-ms", server.request_timeout_ms,
                  "Longest time in milliseconds that a request may take; then it ends with 408")
      ->check(in_range(1, int64_t{365} * 24 * 3600 * 1000))
      ->group(kGroup);
}

// Takes a list as `vllm serve` does: a JSON list of strings, or its entries one by one. CLI11 takes
// the list apart and leaves the quotes of its entries.
void add_list_flag(CLI::App& verb, const char* name, std::vector<std::string>& list,
                   const char* help) {
  const auto read = [&list](const std::vector<std::string>& texts) {
    list.clear();
    for (const std::string& text : texts) {
      boost::system::error_code ec;
      const boost::json::value entry = boost::json::parse(text, ec);
      list.emplace_back(!ec && entry.is_string() ? std::string(entry.get_string()) : text);
    }
  };
  verb.add_option_function<std::vector<std::string>>(name, read, help)
      ->type_name("TEXT")
      ->group("Server");
}

void add_browser_flags(CLI::App& verb, ServerOptions& server) {
  add_list_flag(verb, "--allowed-origins", server.cors.allowed_origins,
                "Origins of web pages that may call the API, for example "
                "'[\"https://a.example\"]'; '*': all origins, local: those of this machine "
                "(default: local). No page of another origin may read /quire/*");
  add_list_flag(verb, "--allowed-methods", server.cors.allowed_methods,
                "HTTP methods that pages of --allowed-origins may use (default: *)");
  add_list_flag(verb, "--allowed-headers", server.cors.allowed_headers,
                "Request headers that pages of --allowed-origins may send (default: *)");
  verb.add_flag("--allow-credentials", server.cors.allow_credentials,
                "Allow pages of --allowed-origins to send the browser's cookies")
      ->group("Server");
  verb.add_flag("--web-page,!--no-web-page", server.web_page,
                "Serve the web page at / and the routes that it reads, /quire/* (default: on)")
      ->group("Server");
}

void add_response_store_flags(CLI::App& verb, ServerLimits& limits) {
  constexpr const char* kGroup = "API";
  verb.add_option("--response-store-size", limits.response_store_bytes,
                  "Memory limit for stored responses of /v1/responses, for example 256MiB; the "
                  "oldest are removed first")
      ->transform(byte_size())
      ->group(kGroup);
  verb.add_option("--response-ttl", limits.response_ttl_s,
                  "Seconds for which a response of /v1/responses is stored")
      ->check(in_range(1, int64_t{10} * 365 * 24 * 3600))
      ->capture_default_str()
      ->group(kGroup);
}

// Adds the flags that choose what is reported about requests.
void add_report_flags(CLI::App& verb, ServerOptions& server) {
  constexpr const char* kGroup = "API";
  verb.add_flag("--enable-prompt-tokens-details", server.enable_prompt_tokens_details,
                "Report the number of cached prompt tokens in usage")
      ->group(kGroup);
  verb.add_option_function<std::string>(
          "--per-request-spec-decode-metrics",
          [&server](const std::string& level) {
            server.per_request_spec_decode_metrics = level == "summary";
          },
          "summary: report accepted and rejected drafts beside each usage; none: report nothing "
          "(default: none)")
      ->check(CLI::IsMember({"none", "summary"}))
      ->group(kGroup);
  verb.add_flag("--enable-force-include-usage", server.force_include_usage,
                "Report usage in every stream, even if the client does not ask for it")
      ->group(kGroup);
  verb.add_flag("--enable-log-requests,!--no-enable-log-requests", server.log_requests,
                "Log a line for each request when its answer has been sent, with its id, tokens "
                "and times")
      ->group(kGroup);
  verb.add_flag("--enable-request-id-headers", server.enable_request_id_headers,
                "Send the X-Request-Id of a request back with its answer")
      ->group(kGroup);
}

void add_api_flags(CLI::App& verb, ServerOptions& server) {
  constexpr const char* kGroup = "API";
  verb.add_flag("--strict-fields", server.strict_fields,
                "Refuse requests with unknown fields with 400 (default: name such fields in a "
                "warning header)")
      ->group(kGroup);
  verb.add_option("--max-logprobs", server.max_logprobs,
                  "Largest number of logprobs per token that a request may ask for; -1: no limit")
      ->check(at_least(-1))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--stream-interval", server.stream_interval,
                  "Number of tokens in each chunk of a stream")
      ->check(at_least(1))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_flag("--trust-request-chat-template", server.trust_request_chat_template,
                "Accept chat templates that requests bring")
      ->group(kGroup);
  verb.add_option_function<std::string>(
          "--structured-outputs-config",
          [&server](const std::string& text) {
            const Status status = read_structured_outputs_config(text, server.structured_outputs);
            if (!status.ok()) {
              throw CLI::ValidationError("--structured-outputs-config", status.message());
            }
          },
          "JSON object with settings for answers that follow a grammar: disable_any_whitespace, "
          "disable_additional_properties and enable_in_reasoning, each true or false")
      ->check(json_object())
      ->group(kGroup);
  verb.add_flag("--return-tokens-as-token-ids", server.return_tokens_as_token_ids,
                "Write the tokens of logprobs as token_id:N, unless a request asks for their text")
      ->group(kGroup);
  verb.add_flag("--enable-tokenizer-info-endpoint", server.enable_tokenizer_info,
                "Serve the model's tokenizer_config.json at /tokenizer_info")
      ->group(kGroup);
  verb.add_flag("--enable-dev-endpoints", server.enable_dev_endpoints,
                "Serve /pause, /resume, /sleep, /wake_up, /abort_requests, /reset_prefix_cache and "
                "/server_info, with which any client can stop the engine; $VLLM_SERVER_DEV_MODE=1 "
                "does the same")
      ->group(kGroup);
  add_report_flags(verb, server);
}

}  // namespace

namespace {

void add_extras_flags(CLI::App& verb, ServerExtras& extras) {
  verb.add_option("--api-key-file", extras.api_key_file,
                  "File with further keys, their names and limits (docs/keys.md); it is read again "
                  "at SIGHUP")
      ->type_name("PATH")
      ->group("Server");

  verb.add_option(
          "--files-dir", extras.files_dir,
          "Enable /v1/files and /v1/batches, and store their files and answers in this directory")
      ->type_name("PATH")
      ->group("Files and batches");
  verb.add_option("--max-files-size", extras.files_bytes,
                  "Largest total size of the files that clients upload, for example 4GiB; more are "
                  "refused with 413")
      ->transform(byte_size())
      ->group("Files and batches");
  verb.add_option("--batch-concurrency", extras.batch_concurrency,
                  "Number of requests of batches that run at the same time")
      ->check(at_least(1))
      ->capture_default_str()
      ->group("Files and batches");
}

void add_audio_flags(CLI::App& verb, AudioInputOptions& audio) {
  verb.add_option("--max-audio-size", audio.limits.max_bytes,
                  "Largest audio file, for example 25MiB")
      ->transform(byte_size())
      ->group("Speech");
  verb.add_option("--max-audio-seconds", audio.limits.max_seconds,
                  "Length of the longest recording, in seconds")
      ->check(CLI::Range(1.0, 86400.0))
      ->capture_default_str()
      ->group("Speech");
  verb.add_option("--max-held-audio-size", audio.max_held_bytes,
                  "Memory limit for the audio inputs of all requests, for example 1GiB; recordings "
                  "beyond it are refused with 429")
      ->transform(byte_size())
      ->group("Speech");
}

void add_media_flags(CLI::App& verb, ServeFlags& flags) {
  add_audio_flags(verb, flags.audio);
  ImageInputOptions& images = flags.images;
  verb.add_option("--allowed-local-media-path", images.allowed_dir,
                  "Directory from which requests may load images as file:///path; without it only "
                  "data: URLs are accepted")
      ->check(CLI::ExistingDirectory)
      ->group("Images");
  verb.add_option("--max-image-size", images.limits.max_bytes,
                  "Largest image file, for example 20MiB")
      ->transform(byte_size())
      ->group("Images");
  verb.add_option("--max-image-pixels", images.limits.max_pixels,
                  "Largest number of pixels of an image; each side may have at most 16,384")
      ->check(at_least(1))
      ->capture_default_str()
      ->group("Images");
  verb.add_option("--max-held-images-size", images.max_held_bytes,
                  "Memory limit for the images of all requests until their prompts are computed, "
                  "for example 1GiB; requests with images beyond it are refused with 429")
      ->transform(byte_size())
      ->group("Images");
}

void add_vllm_names(CLI::App& verb, ServeFlags& flags) {
  verb.add_option("--model", flags.model, "MODEL under the name that vLLM's start scripts use")
      ->group("");
  verb.add_option("--tokenizer", flags.tokenizer, "The model itself; vLLM's start scripts set it")
      ->group("");
}

void add_models_flags(CLI::App& verb, ServeFlags& flags) {
  constexpr const char* kGroup = "Several models";
  ModelsFolderFlags& models = flags.models;
  verb.add_option(
          "--models-dir", models.directory,
          "Serve every model of this folder instead of MODEL. Each folder or .gguf file in it is a "
          "model of that name, which is loaded at its first request (docs/several_models.md)")
      ->type_name("PATH")
      ->group(kGroup);
  verb.add_option("--models-config", models.config,
                  "YAML file with flags of single models of the folder: 'NAME: {max-model-len: "
                  "8192}'; it is read again whenever a model is loaded")
      ->type_name("PATH")
      ->group(kGroup);
  verb.add_option("--max-loaded-models", models.max_loaded,
                  "Largest number of models of the folder in memory; the least recently used one "
                  "is unloaded")
      ->check(at_least(1))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--max-models-memory", models.max_bytes,
                  "Memory limit for all models of the folder together, for example 48GiB (default: "
                  "the share --memory-utilization of the memory that is free at the start)")
      ->transform(byte_size())
      ->group(kGroup);
  verb.add_option("--model-keep-alive", models.keep_alive_s,
                  "Seconds after its last use at which a model of the folder is unloaded; -1: when "
                  "another model needs its place")
      ->check(at_least(-1))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--model-load-timeout", models.load_timeout_s,
                  "Longest time in seconds that a request waits for its model's turn to be loaded; "
                  "then it is refused with 503")
      ->check(at_least(1))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--model-alias", flags.model_aliases,
                  "NAME=MODEL: another name for a served model; may be given several times")
      ->type_name("NAME=MODEL")
      ->group(kGroup);
}

}  // namespace

void add_flags_of_model(CLI::App& verb, ServeFlags& flags) {
  constexpr const char* kGroup = "API";
  add_chat_template_flag(verb, flags.engine);
  verb.add_option_function<std::string>(
          "--default-chat-template-kwargs",
          [&flags](const std::string& text) {
            flags.server.default_chat_template_kwargs = boost::json::parse(text).as_object();
          },
          "Default variables of the chat template, which requests may override: a JSON object, for "
          "example '{\"enable_thinking\": false}'")
      ->check(json_object())
      ->group(kGroup);
  verb.add_option("--generation-config", flags.generation_config,
                  "Default sampling parameters of requests; auto: those of the model's "
                  "generation_config.json; none: those of the API")
      ->check(one_of({"auto", "none"}))
      ->capture_default_str()
      ->group(kGroup);
  add_reply_flags(verb, flags);
  add_media_flags(verb, flags);
  add_lora_flags(verb, flags.engine.lora);
  add_engine_flags(verb, flags.engine);
}

void add_serve_flags(CLI::App& verb, ServeFlags& flags) {
  verb.add_option("--shape", flags.engine.shape,
                  "Serve random weights instead of MODEL, to measure speed: in a named shape, such "
                  "as llama-3.2-1b, or in the shape of a config.json");
  add_access_flags(verb, flags.server);
  add_response_store_flags(verb, flags.server.limits);
  add_browser_flags(verb, flags.server);
  verb.add_option("--max-unread-size", flags.engine.engine.stream.max_total_unread_bytes,
                  "Memory limit for output that clients have not read, for example 256MiB; beyond "
                  "it, the streams with the most unread output are aborted")
      ->transform(byte_size())
      ->group("Server");
  add_api_flags(verb, flags.server);
  add_flags_of_model(verb, flags);
  verb.add_option_function<std::string>(
          "--lora-dir",
          [&flags](const std::string& folder) {
            flags.server.lora_dir = folder;
            flags.engine.lora.enabled = true;
          },
          "Enable /v1/load_lora_adapter and /v1/unload_lora_adapter for the adapters in this "
          "folder; implies --enable-lora")
      ->type_name("PATH")
      ->group("LoRA adapters");
  add_extras_flags(verb, flags.extras);
  add_log_flag(verb, "Server");
  add_otlp_flags(verb, flags.extras.otlp);
  add_models_flags(verb, flags);
  add_vllm_names(verb, flags);
  verb.add_option(
          "--served-model-name", flags.served_model_names,
          "One or more names by which clients may ask for the model; answers show the first")
      ->check(not_empty())
      ->group("API");
  verb.add_option("--shutdown-timeout", flags.shutdown_timeout_s,
                  "Seconds that running requests have to finish after SIGTERM")
      ->check(at_least(0))
      ->capture_default_str()
      ->group("Server");
  verb.add_option(
          "--config", flags.config,
          "YAML file with flags, such as 'max-model-len: 8192'. The command line takes precedence "
          "over it, and so does the environment: $QUIRE_MAX_MODEL_LEN is --max-model-len")
      ->group("Server");
  verb.add_flag("--print-config", flags.print_config,
                "Print the flags in force as a --config file with the source of each, and exit")
      ->group("Server");
  verb.add_option("--exit-with-process", flags.exit_with_process,
                  "Process id of the only client program; the server stops, as after SIGTERM, when "
                  "that program ends")
      ->check(at_least(1))
      ->group("Server");
}

}  // namespace quire::cli
