// What an HttpServer is told: where to listen, whom to let in, and every limit with its default.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "chat/reply_format.h"
#include "server/tls/tls_options.h"

namespace quire {

// Every bound on what a client may make the server hold. Sizes in bytes, times in milliseconds.
struct ServerLimits {
  uint32_t header_bytes = 64 * 1024;
  uint32_t header_fields = 100;
  uint64_t body_bytes = 32ull * 1024 * 1024;
  // Of a chunked body: what its chunk headers (extensions) and its trailer take beyond the plain
  // sizes, in all.
  uint32_t chunk_framing_bytes = 16 * 1024;
  uint64_t total_body_bytes = 256ull * 1024 * 1024;  // bodies of all open requests together
  // One body as parsed JSON: its text, and what each of its values takes (json_body.h).
  uint64_t parsed_bytes = 64ull * 1024 * 1024;
  // Memory of an answer that is not streamed while it is collected and sent, and of all of them.
  uint64_t answer_bytes = 512ull * 1024 * 1024;
  uint64_t total_answer_bytes = 1024ull * 1024 * 1024;
  // Responses of /v1/responses that are kept for clients to come back to, and for how long.
  uint64_t response_store_bytes = 256ull * 1024 * 1024;
  int64_t response_ttl_s = 30ll * 24 * 3600;
  uint32_t json_depth = 64;
  uint32_t max_connections = 8192;
  uint32_t max_prompts = 1024;  // prompts in one completions call
  uint32_t max_choices = 1024;  // n x prompts in one call
  uint64_t write_buffer_bytes =
      32 * 1024;                         // per connection; above it the engine's stream is not read
  uint32_t pipelined_bytes = 16 * 1024;  // read ahead of the running request
  uint32_t queued_work = 4096;           // requests waiting for a worker
  uint64_t inline_body_bytes = 8 * 1024;  // bodies up to this size are prepared on the IO thread
  int64_t idle_timeout_ms = 75'000;       // keep-alive connection without a request
  int64_t read_timeout_ms = 60'000;       // first byte of a request to its last
  int64_t write_stall_ms = 60'000;        // no byte accepted by the client
  // The same of a stream that still runs, while other requests wait for their turn.
  int64_t contended_stall_ms = 1'000;
};

// Which web pages of other origins may call the API. /quire/* is never theirs to read.
struct CorsOptions {
  // Origins such as "https://a.example"; "*": every one; "local": pages of this machine, that is
  // http or https on localhost, 127.0.0.1 or [::1], any port.
  std::vector<std::string> allowed_origins = {"local"};
  std::vector<std::string> allowed_methods = {"*"};
  std::vector<std::string> allowed_headers = {"*"};
  bool allow_credentials = false;
};

// Of vLLM's --structured-outputs-config what has a meaning here; requests may ask for more.
struct StructuredOutputsConfig {
  bool disable_any_whitespace = false;         // no blanks between the tokens of JSON
  bool disable_additional_properties = false;  // members that a schema names, and no others
  bool enable_in_reasoning = false;            // reasoning keeps to the grammar, too
};

struct ServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8000;  // 0: any free one, see HttpServer::port()
  std::string uds;       // path of a Unix socket; when set, host and port are not used
  TlsOptions tls;        // of the port
  int32_t num_io_threads = 2;
  int32_t num_worker_threads = 2;

  std::vector<std::string> api_keys;  // empty: open
  bool guard_metrics = true;          // /metrics needs the key too, when keys are set
  CorsOptions cors;
  bool web_page = true;  // the page at / and /quire/*, the views behind it

  ServerLimits limits;
  bool strict_fields = false;   // unknown request fields: 400 instead of a warning header
  int32_t max_logprobs = 20;    // -1: no bound
  int32_t stream_interval = 1;  // least tokens per chunk
  std::optional<int32_t> max_tokens_override;  // no request generates more
  std::optional<int64_t> request_timeout_ms;   // from arrival; past it 408
  bool priority_scheduling = false;            // whether `priority` other than 0 is accepted
  bool trust_request_chat_template = false;
  StructuredOutputsConfig structured_outputs;
  ReplyFormat reply_format;                          // how chat answers are taken apart
  boost::json::object default_chat_template_kwargs;  // variables that requests may set otherwise
  bool enable_prompt_tokens_details = false;
  bool per_request_spec_decode_metrics = false;  // what became of drafts, beside each usage
  bool force_include_usage = false;
  bool enable_request_id_headers = false;
  bool log_requests = false;                // a line of the log for each, when its answer is out
  bool return_tokens_as_token_ids = false;  // tokens of logprobs print as token_id:N
  bool enable_dev_endpoints = false;        // /pause, /sleep, /reset_prefix_cache and their kind
  bool enable_tokenizer_info = false;       // /tokenizer_info
  // Folder whose folders clients may load as adapters, while the server runs; empty: none, and no
  // routes for it. Needs ServedModel::adapters.
  std::string lora_dir;
  // Prefix under which a proxy serves us ("/v2/model"): routes answer with it and without it, and
  // /openapi.json prints it.
  std::string root_path;
};

}  // namespace quire
