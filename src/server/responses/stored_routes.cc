#include "server/responses/stored_routes.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <optional>
#include <utility>

#include "server/http/auth.h"
#include "server/json/json_response.h"
#include "server/json/query_values.h"
#include "server/responses/response_store.h"
#include "server/responses/response_writer.h"

namespace quire::server {
namespace {

namespace json = boost::json;

constexpr std::string_view kPrefix = "/v1/responses/";

// Returns a page of the request's items, by default the newest first.
HttpResponse input_items(const StoredResponse& stored, std::string_view query) {
  const ApiResult<int64_t> limit = query_integer(query, "limit", 20, 1, 100);
  if (!limit.ok()) return error_response(limit.error());
  const std::string_view order = query_value(query, "order").value_or("desc");
  if (order != "asc" && order != "desc") {
    return error_response(
        field_error("order", fmt::format("expected asc or desc, got {}", in_quotes(order))));
  }
  std::vector<const json::value*> items;
  for (const json::value& item : stored.input()) items.push_back(&item);
  if (order == "desc") std::reverse(items.begin(), items.end());
  const auto id_of = [](const json::value* item) -> const json::value& {
    return item->as_object().at("id");
  };
  size_t begin = 0;
  if (const auto after = query_value(query, "after")) {
    const auto found = std::find_if(items.begin(), items.end(), [&](const json::value* item) {
      return std::string_view(id_of(item).as_string()) == *after;
    });
    if (found == items.end()) {
      return error_response(field_error(
          "after", fmt::format("expected the id of an item, got {}", in_quotes(*after))));
    }
    begin = static_cast<size_t>(found - items.begin()) + 1;
  }
  const size_t end = std::min(items.size(), begin + static_cast<size_t>(limit.value()));
  json::array data;
  for (size_t i = begin; i < end; ++i) data.push_back(*items[i]);
  json::object page{{"object", "list"}, {"has_more", end < items.size()}};
  page["first_id"] = data.empty() ? json::value() : data.front().at("id");
  page["last_id"] = data.empty() ? json::value() : data.back().at("id");
  page["data"] = std::move(data);
  return json_response(page);
}

HttpResponse cancel(StoredResponse& stored) {
  if (!stored.is_background()) {
    return error_response(api_error(400, "expected a response in the background"));
  }
  stored.cancel();
  const json::object response = stored.response();
  if (response.at("status") == "cancelled") return json_response(response);
  return error_response(
      api_error(400, fmt::format("expected a response that runs, got one that is {}",
                                 std::string_view(response.at("status").as_string()))));
}

ApiError unknown(std::string_view id) {
  ApiError error = api_error(404, fmt::format("Response with id {} not found", in_quotes(id)));
  error.param = "response_id";
  return error;
}

HttpResponse forget(StoredResponse& stored, ResponseStore& store) {
  stored.cancel();  // a response that has ended stays as it is
  store.erase(stored.id());
  return json_response({{"id", stored.id()}, {"object", "response"}, {"deleted", true}});
}

bool wants_stream(const HttpRequest& request) {
  const auto stream = query_value(request.query, "stream");
  return stream && (*stream == "true" || *stream == "1");
}

}  // namespace

void serve_stored_response(const HttpRequest& request, const PrepareContext& context,
                           HeaderList headers, std::shared_ptr<ReplyChannel> reply) {
  const auto send = [&](HttpResponse response) {
    response.headers.insert(response.headers.end(), headers.begin(), headers.end());
    reply->send(std::move(response));
  };
  const std::string_view rest = std::string_view(request.path).substr(kPrefix.size());
  const size_t slash = std::min(rest.find('/'), rest.size());
  const std::string id(rest.substr(0, slash));
  const std::string_view action = rest.substr(std::min(slash + 1, rest.size()));
  const bool reads = request.method == "GET" || request.method == "HEAD";
  const bool known = reads                      ? action.empty() || action == "input_items"
                     : request.method == "POST" ? action == "cancel"
                                                : action.empty();
  if (!known) return send(error_response(api_error(404, "there is no such route; see /docs")));
  const std::shared_ptr<StoredResponse> stored =
      context.responses->find(id, owner_of(request), context.arrival_us);
  if (stored == nullptr) return send(error_response(unknown(id)));
  if (action == "input_items") return send(input_items(*stored, request.query));
  if (action == "cancel") return send(cancel(*stored));
  if (!reads) return send(forget(*stored, *context.responses));
  if (!wants_stream(request)) return send(json_response(stored->response()));
  if (!stored->keeps_events()) {
    return send(error_response(field_error(
        "stream", "expected a response that was made with background and stream true")));
  }
  const ApiResult<int64_t> after =
      query_integer(request.query, "starting_after", -1, -1, int64_t{1} << 40);
  if (!after.ok()) return send(error_response(after.error()));
  follow_response(stored, after.value() + 1, std::move(reply), std::move(headers));
}

}  // namespace quire::server
