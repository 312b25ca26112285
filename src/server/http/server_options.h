// ServerOptions says where an HttpServer listens, who may use it, and every limit with its default.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "chat/reply_format.h"
#include "server/tls/tls_options.h"

namespace quire {

// ServerLimits bounds everything that a client may make the server hold. Sizes are in bytes, times
// in milliseconds.
struct ServerLimits {
  uint32_t header_bytes = 64 * 1024;
  uint32_t header_fields = 100;
  uint64_t body_bytes = 32ull * 1024 * 1024;
  // Limit for a chunked body: the bytes that its chunk headers (with extensions) and its trailer
  // take in all, beyond the plain sizes.
  uint32_t chunk_framing_bytes = 16 * 1024;
  uint64_t total_body_bytes = 256ull * 1024 * 1024;  // bodies of all open requests together
  // Memory of one body as parsed JSON: its text, and what each of its values takes (json_body.h).
  uint64_t parsed_bytes = 64ull * 1024 * 1024;
  // Memory of one answer that is not streamed, while it is collected and sent, and of all such
  // answers.
  uint64_t answer_bytes = 512ull * 1024 * 1024;
  uint64_t total_answer_bytes = 1024ull * 1024 * 1024;
  // Memory of the stored responses of /v1/responses, and how long they are kept.
  uint64_t response_store_bytes = 256ull * 1024 * 1024;
  int64_t response_ttl_s = 30ll * 24 * 3600;
  uint32_t json_depth = 64;
  uint32_t max_connections = 8192;
  uint32_t max_prompts = 1024;  // prompts in one completions call
  uint32_t max_choices = 1024;  // n x prompts in one call
  uint64_t write_buffer_bytes =
      32 * 1024;                         // per connection; above it the engine's stream is not read
  uint32_t pipelined_bytes = 16 * 1024;  // bytes read beyond the running request
  uint32_t queued_work = 4096;           // requests waiting for a worker
  uint64_t inline_body_bytes = 8 * 1024;  // bodies up to this size are prepared on the IO thread
  int64_t idle_timeout_ms = 75'000;       // keep-alive connection without a request
  int64_t read_timeout_ms = 60'000;       // first byte of a request to its last
  int64_t write_stall_ms = 60'000;        // the client accepts no byte
  // The limit for a stream that still runs while other requests wait for their turn.
  int64_t contended_stall_ms = 1'000;
};

// CorsOptions says which web pages of other origins may call the API. They may never read /quire/*.
struct CorsOptions {
  // Origins such as "https://a.example". "*" stands for every origin, "local" for pages of this
  // machine: http or https on localhost, 127.0.0.1 or [::1], any port.
  std::vector<std::string> allowed_origins = {"local"};
  std::vector<std::string> allowed_methods = {"*"};
  std::vector<std::string> allowed_headers = {"*"};
  bool allow_credentials = false;
};

// The members of vLLM's --structured-outputs-config that have a meaning in Quire. Requests may ask
// for more.
struct StructuredOutputsConfig {
  bool disable_any_whitespace = false;         // no blanks between the tokens of JSON
  bool disable_additional_properties = false;  // only the members that a schema names
  bool enable_in_reasoning = false;            // reasoning follows the grammar, too
};

struct ServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8000;  // 0: any free one, see HttpServer::port()
  std::string uds;       // path of a Unix socket; when set, host and port are not used
  TlsOptions tls;        // of the port
  int32_t num_io_threads = 2;
  int32_t num_worker_threads = 2;

  std::vector<std::string> api_keys;  // empty: no key is needed
  bool guard_metrics = true;          // /metrics needs the key too, when keys are set
  CorsOptions cors;
  bool web_page = true;  // serves the page at / and the views behind it, /quire/*

  ServerLimits limits;
  bool strict_fields = false;   // unknown request fields: 400 instead of a warning header
  int32_t max_logprobs = 20;    // -1: no bound
  int32_t stream_interval = 1;  // least tokens per chunk
  std::optional<int32_t> max_tokens_override;  // upper bound for every request
  std::optional<int64_t> request_timeout_ms;   // from arrival; then 408
  bool priority_scheduling = false;            // whether `priority` other than 0 is accepted
  bool trust_request_chat_template = false;
  StructuredOutputsConfig structured_outputs;
  ReplyFormat reply_format;                          // how chat answers are parsed
  boost::json::object default_chat_template_kwargs;  // requests may override them
  bool enable_prompt_tokens_details = false;
  bool per_request_spec_decode_metrics = false;  // adds draft counts to each usage
  bool force_include_usage = false;
  bool enable_request_id_headers = false;
  bool log_requests = false;                // one line of the log for each finished answer
  bool return_tokens_as_token_ids = false;  // tokens of logprobs print as token_id:N
  bool enable_dev_endpoints = false;        // /pause, /sleep, /reset_prefix_cache and more
  bool enable_tokenizer_info = false;       // /tokenizer_info
  // Clients may load the folders in this folder as adapters while the server runs. When it is
  // empty, the routes for that do not exist. It needs ServedModel::adapters.
  std::string lora_dir;
  // Path prefix under which a proxy serves this server ("/v2/model"). Routes answer with it and
  // without it, and /openapi.json prints it.
  std::string root_path;
};

}  // namespace quire
