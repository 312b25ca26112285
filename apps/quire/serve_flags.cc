#include "quire/serve_flags.h"

#include <boost/json/parse.hpp>

#include "quire/engine_flags.h"
#include "quire/flag_checks.h"

namespace quire::cli {
namespace {

CLI::Validator json_object() {
  const auto check = [](std::string& text) -> std::string {
    boost::system::error_code ec;
    const boost::json::value value = boost::json::parse(text, ec);
    return !ec && value.is_object() ? std::string() : "expected a JSON object, got " + text;
  };
  return {check, "JSON"};
}

void add_access_flags(CLI::App& verb, ServerOptions& server) {
  constexpr const char* kGroup = "Server";
  verb.add_option("--host", server.host, "Address to listen on; 0.0.0.0 for all")
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--port", server.port, "TCP port; 0 for any free one")
      ->check(in_range(0, 65535))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--uds", server.uds, "Unix socket to listen on instead of a port")->group(kGroup);
  verb.add_option("--api-key", server.api_keys,
                  "Key that clients must send; may be given several times")
      ->group(kGroup);
  verb.add_flag("--guard-metrics,!--no-guard-metrics", server.guard_metrics,
                "With --api-key: /metrics asks for the key too (on)")
      ->group(kGroup);
  verb.add_option("--allowed-origins", server.cors_allowed_origins,
                  "Web pages of these origins may call the API; * for all")
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--root-path", server.root_path, "Path under which a proxy serves this server")
      ->group(kGroup);
  verb.add_option("--max-connections", server.limits.max_connections, "Most open connections")
      ->check(at_least(1))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--max-body-size", server.limits.body_bytes,
                  "Largest request body, for example 32MiB; beyond: 413")
      ->transform(byte_size())
      ->group(kGroup);
  verb.add_option(
          "--max-answer-size", server.limits.answer_bytes,
          "Most memory for one answer that is not streamed, for example 512MiB; beyond: 413")
      ->transform(byte_size())
      ->group(kGroup);
  verb.add_option("--request-timeout-ms", server.request_timeout_ms,
                  "Longest time of one request; beyond: 408")
      ->check(in_range(1, int64_t{365} * 24 * 3600 * 1000))
      ->group(kGroup);
}

void add_api_flags(CLI::App& verb, ServerOptions& server) {
  constexpr const char* kGroup = "API";
  verb.add_flag("--strict-fields", server.strict_fields,
                "Answer 400 to unknown request fields (default: a warning header)")
      ->group(kGroup);
  verb.add_option("--max-logprobs", server.max_logprobs, "Most logprobs per token; -1: no limit")
      ->check(at_least(-1))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--stream-interval", server.stream_interval, "Tokens per streamed chunk")
      ->check(at_least(1))
      ->capture_default_str()
      ->group(kGroup);
  verb.add_flag("--trust-request-chat-template", server.trust_request_chat_template,
                "Accept chat templates from requests")
      ->group(kGroup);
  verb.add_option_function<std::string>(
          "--default-chat-template-kwargs",
          [&server](const std::string& text) {
            server.default_chat_template_kwargs = boost::json::parse(text).as_object();
          },
          "Variables of the chat template that requests may set otherwise: a JSON object, for "
          "example '{\"enable_thinking\": false}'")
      ->check(json_object())
      ->group(kGroup);
  verb.add_option_function<std::string>(
          "--reasoning-parser",
          [&server](const std::string& name) {
            server.reply_format.reasoning = *parse_reasoning_format(name);
          },
          "How reasoning is told from the answer: qwen3 (<think> begins it) or deepseek_r1 (the "
          "answer begins inside)")
      ->check(one_of({"qwen3", "deepseek_r1"}))
      ->group(kGroup);
  verb.add_option_function<std::string>(
          "--tool-call-parser",
          [&server](const std::string& name) {
            server.reply_format.tools = *parse_tool_call_format(name);
          },
          "How tool calls are found: hermes (<tool_call> JSON, Qwen's too), llama3_json (the "
          "answer is JSON, or <|python_tag|> JSON) or mistral ([TOOL_CALLS]). Left out: as the "
          "chat template writes them, where that is one of these")
      ->check(one_of({"hermes", "llama3_json", "mistral"}))
      ->group(kGroup);
  verb.add_flag("--enable-auto-tool-choice", server.enable_auto_tool_choice,
                "Return tool calls where a request brings tools")
      ->group(kGroup);
  verb.add_flag("--enable-prompt-tokens-details", server.enable_prompt_tokens_details,
                "Report cached prompt tokens in usage")
      ->group(kGroup);
  verb.add_flag("--enable-force-include-usage", server.force_include_usage,
                "Report usage in every stream")
      ->group(kGroup);
  verb.add_flag("--enable-request-id-headers", server.enable_request_id_headers,
                "Echo X-Request-Id")
      ->group(kGroup);
}

}  // namespace

void add_serve_flags(CLI::App& verb, ServeFlags& flags) {
  verb.add_option("--shape", flags.engine.shape,
                  "Instead of MODEL, to measure speed: random weights in a named shape, such as "
                  "llama-3.2-1b, or in that of a config.json");
  add_chat_template_flag(verb, flags.engine);
  add_access_flags(verb, flags.server);
  add_api_flags(verb, flags.server);
  verb.add_option("--served-model-name", flags.served_model_names,
                  "Name(s) clients may use for the model; the first is printed")
      ->check(not_empty())
      ->group("API");
  verb.add_option(
          "--generation-config", flags.generation_config,
          "auto: defaults from the model's generation_config.json; none: the API's defaults")
      ->check(one_of({"auto", "none"}))
      ->capture_default_str()
      ->group("API");
  verb.add_option("--shutdown-timeout", flags.shutdown_timeout_s,
                  "Seconds that running requests have to finish after SIGTERM")
      ->check(at_least(0))
      ->capture_default_str()
      ->group("Server");
}

}  // namespace quire::cli
