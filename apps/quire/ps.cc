#include <fmt/format.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "net/exchange.h"
#include "quire/commands.h"

namespace quire::cli {
namespace {

namespace json = boost::json;

constexpr int64_t kTimeoutMs = 5'000;

struct PsFlags {
  std::string url = "http://127.0.0.1:8000";
  std::string key;
  std::string ca_file;
  bool as_json = false;
};

// One model of a server, as one line of the table shows it.
struct Row {
  std::string name, state, memory, requests, context;
};

Result<json::value> get(const PsFlags& flags, const std::string& path) {
  QUIRE_ASSIGN_OR_RETURN(net::Url server, net::parse_url(flags.url));
  while (server.target.ends_with('/')) server.target.pop_back();
  server.target += path;
  net::Request request;
  if (!flags.key.empty()) request.headers.emplace_back("Authorization", "Bearer " + flags.key);
  net::ExchangeOptions options{.total_timeout_ms = kTimeoutMs};
  if (server.is_encrypted) {
    QUIRE_ASSIGN_OR_RETURN(options.trust, net::load_trust(flags.ca_file));
  }
  QUIRE_ASSIGN_OR_RETURN(const std::string body, net::ask(server, request, options));
  json::error_code ec;
  json::value value = json::parse(body, ec);
  if (ec || !value.is_object())
    return unavailable("{}: expected JSON, got something else", flags.url);
  return value;
}

// Returns the text of a member; "-" where a server leaves it out.
std::string text_of(const json::object& object, std::string_view name) {
  const json::value* const value = object.if_contains(name);
  if (value == nullptr || value->is_null()) return "-";
  return value->is_string() ? std::string(value->get_string()) : json::serialize(*value);
}

Row row_of(const json::object& card) {
  Row row{text_of(card, "id"), "loaded", "-", "-", text_of(card, "max_model_len")};
  const json::value* const status = card.if_contains("status");
  if (status == nullptr || !status->is_object()) return row;
  const json::object& object = status->get_object();
  row.state = text_of(object, "value");
  row.requests = text_of(object, "requests");
  if (const json::value* const bytes = object.if_contains("memory_bytes");
      bytes && bytes->is_int64())
    row.memory = fmt::format("{} MiB", bytes->get_int64() >> 20);
  if (const json::value* const error = object.if_contains("error"); error && error->is_string())
    row.state += ": " + std::string(error->get_string());
  return row;
}

void print(const std::vector<Row>& rows) {
  size_t width = 4;
  for (const Row& row : rows) width = std::max(width, row.name.size());
  fmt::print("{:<{}}  {:>10}  {:>8}  {:>8}  {}\n", "name", width, "memory", "requests", "context",
             "state");
  for (const Row& row : rows) {
    fmt::print("{:<{}}  {:>10}  {:>8}  {:>8}  {}\n", row.name, width, row.memory, row.requests,
               row.context, row.state);
  }
}

Status run_ps(const PsFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const json::value models, get(flags, "/v1/models"));
  const json::value* const list = models.get_object().if_contains("data");
  if (list == nullptr || !list->is_array())
    return unavailable("{}: expected a list of models, got something else", flags.url);
  if (flags.as_json) {
    fmt::print("{}\n", json::serialize(*list));
    return {};
  }
  std::vector<Row> rows;
  for (const json::value& card : list->get_array()) {
    if (card.is_object()) rows.push_back(row_of(card.get_object()));
  }
  print(rows);
  return {};
}

}  // namespace

void add_ps(CLI::App& app, int& exit_code) {
  CLI::App& verb =
      *app.add_subcommand("ps", "List the models of a running server and their memory");
  auto flags = std::make_shared<PsFlags>();
  verb.add_option("--url", flags->url,
                  "URL of the server: http://HOST:PORT[/PATH], or the same with https")
      ->capture_default_str();
  verb.add_option("--api-key", flags->key, "API key of the server; default: $QUIRE_API_KEY");
  verb.add_option("--ca-file", flags->ca_file,
                  "PEM file with the authorities that sign the certificates of https servers; "
                  "default: the system's")
      ->type_name("FILE");
  verb.add_flag("--json", flags->as_json, "Print a JSON list");
  verb.callback([flags, &exit_code] {
    const char* const key = std::getenv("QUIRE_API_KEY");
    if (flags->key.empty() && key != nullptr) flags->key = key;
    exit_code = report(run_ps(*flags));
  });
}

}  // namespace quire::cli
