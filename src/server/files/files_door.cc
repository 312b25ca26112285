#include "server/files/files_door.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <utility>

#include "server/batch/batch_line.h"
#include "server/door/server_state.h"
#include "server/files/batch_queue.h"
#include "server/files/multipart.h"
#include "server/http/auth.h"
#include "server/json/json_body.h"
#include "server/json/json_members.h"
#include "server/json/json_response.h"
#include "server/json/query_values.h"

namespace quire::server {
namespace {

namespace json = boost::json;

constexpr std::string_view kFiles = "/v1/files/", kBatches = "/v1/batches/";
constexpr int64_t kWindowS = 24 * 3600;
constexpr size_t kMaxMetadata = 16;

HttpResponse not_found_response(std::string_view what, std::string_view id) {
  return error_response(api_error(404, fmt::format("No such {}: {}", what, in_quotes(id))));
}

json::object file_object(const FileInfo& file) {
  return {{"id", file.id},
          {"object", "file"},
          {"bytes", file.bytes},
          {"created_at", file.created_s},
          {"expires_at", nullptr},
          {"filename", file.filename},
          {"purpose", file.purpose},
          {"status", "processed"},
          {"status_details", nullptr}};
}

// Returns a page of objects with ids. `all` begins with the oldest.
HttpResponse page_of(std::vector<json::object> all, std::string_view query,
                     int64_t limit_otherwise) {
  const ApiResult<int64_t> limit = query_integer(query, "limit", limit_otherwise, 1, 10'000);
  if (!limit.ok()) return error_response(limit.error());
  const std::string_view order = query_value(query, "order").value_or("desc");
  if (order != "asc" && order != "desc") {
    return error_response(
        field_error("order", fmt::format("expected asc or desc, got {}", in_quotes(order))));
  }
  if (order == "desc") std::ranges::reverse(all);
  auto first = all.begin();
  if (const auto after = query_value(query, "after")) {
    first = std::ranges::find_if(all, [&](const json::object& o) {
      return std::string_view(o.at("id").get_string()) == *after;
    });
    if (first == all.end())
      return error_response(field_error(
          "after", fmt::format("expected an id of the list, got {}", in_quotes(*after))));
    ++first;
  }
  const bool has_more = all.end() - first > limit.value();
  const auto end = has_more ? first + limit.value() : all.end();
  json::array data(std::make_move_iterator(first), std::make_move_iterator(end));
  const json::value first_id = data.empty() ? json::value() : data.front().at("id");
  const json::value last_id = data.empty() ? json::value() : data.back().at("id");
  return json_response({{"object", "list"},
                        {"data", std::move(data)},
                        {"first_id", first_id},
                        {"last_id", last_id},
                        {"has_more", has_more}});
}

HttpResponse upload(const HttpRequest& request, FileStore& files, const PrepareContext& context) {
  const ApiResult<std::vector<FormPart>> form =
      parse_form(request.header("Content-Type").value_or(""), request.body);
  if (!form.ok()) return error_response(form.error());
  const FormPart* const purpose = find_part(form.value(), "purpose");
  if (purpose == nullptr || purpose->data != "batch") {
    return error_response(field_error(
        "purpose", fmt::format("expected batch, got {}",
                               purpose == nullptr ? "none" : in_quotes(purpose->data))));
  }
  const FormPart* const file = find_part(form.value(), "file");
  if (file == nullptr || !file->filename)
    return error_response(field_error("file", "expected a file, got none"));
  const Result<FileInfo> kept = files.add({.owner = owner_of(request),
                                           .purpose = "batch",
                                           .filename = *file->filename,
                                           .created_s = context.created_s},
                                          file->data);
  return kept.ok() ? json_response(file_object(*kept)) : error_response(from_status(kept.status()));
}

HttpResponse list_files(const HttpRequest& request, const FileStore& files) {
  const auto purpose = query_value(request.query, "purpose");
  std::vector<json::object> objects;
  for (const FileInfo& file : files.list(owner_of(request))) {
    if (!purpose || *purpose == file.purpose) objects.push_back(file_object(file));
  }
  return page_of(std::move(objects), request.query, 10'000);
}

// Answers the paths ID and ID/content.
HttpResponse one_file(const HttpRequest& request, FileStore& files, const ServerLimits& limits) {
  const std::string_view rest = std::string_view(request.path).substr(kFiles.size());
  const std::string_view id = rest.substr(0, rest.find('/'));
  const std::string_view action = rest.substr(std::min(id.size(), rest.size()));
  const std::optional<FileInfo> file = files.find(id, owner_of(request));
  const bool deletes = request.method == "DELETE";
  if (!file || (!action.empty() && (action != "/content" || deletes)))
    return not_found_response("File object", rest);
  if (deletes) {
    files.remove(id, file->owner);
    return json_response({{"id", id}, {"object", "file"}, {"deleted", true}});
  }
  if (action.empty()) return json_response(file_object(*file));
  Result<std::string> data = files.read(id, limits.answer_bytes);
  if (!data.ok()) return error_response(from_status(data.status()));
  return {200, "application/octet-stream", std::move(data).value(), {}};
}

ApiCheck read_metadata(const json::object& body, json::object& out) {
  const json::value* const metadata = find_member(body, "metadata");
  if (metadata == nullptr) return std::nullopt;
  if (!metadata->is_object() || metadata->get_object().size() > kMaxMetadata) {
    return wrong_value("metadata", fmt::format("an object of at most {} texts", kMaxMetadata),
                       *metadata);
  }
  for (const auto& member : metadata->get_object()) {
    if (!member.value().is_string() || member.value().get_string().size() > 512 ||
        member.key().size() > 64) {
      return wrong_value("metadata", "texts of at most 512 bytes under names of at most 64",
                         member.value());
    }
  }
  out = metadata->get_object();
  return std::nullopt;
}

HttpResponse create_batch(const HttpRequest& request, const PrepareContext& context) {
  const ApiResult<json::object> body = parse_body(request, context.options.limits);
  if (!body.ok()) return error_response(body.error());
  BatchJob job{.owner = owner_of(request),
               .endpoint = std::string(text_member(body.value(), "endpoint")),
               .input_file_id = std::string(text_member(body.value(), "input_file_id")),
               .created_s = context.created_s,
               .expires_s = context.created_s + kWindowS};
  if (!is_batch_url(job.endpoint)) {
    return error_response(field_error(
        "endpoint",
        fmt::format("expected one of {}, got {}", batch_urls(), in_quotes(job.endpoint))));
  }
  if (text_member(body.value(), "completion_window") != "24h")
    return error_response(field_error("completion_window", "expected 24h"));
  if (!context.server->batches->files().find(job.input_file_id, job.owner)) {
    return error_response(field_error(
        "input_file_id", fmt::format("expected the id of a file that was uploaded, got {}",
                                     in_quotes(job.input_file_id))));
  }
  if (ApiCheck error = read_metadata(body.value(), job.metadata)) return error_response(*error);
  const ApiResult<BatchJob> added = context.server->batches->add(std::move(job));
  return added.ok() ? json_response(batch_object(added.value())) : error_response(added.error());
}

// Answers the paths ID and ID/cancel.
HttpResponse one_batch(const HttpRequest& request, BatchQueue& batches) {
  const std::string_view rest = std::string_view(request.path).substr(kBatches.size());
  const std::string_view id = rest.substr(0, rest.find('/'));
  const std::string_view action = rest.substr(id.size());
  const bool cancels = request.method == "POST" && action == "/cancel";
  if (!cancels && (request.method == "POST" || !action.empty()))
    return not_found_response("batch", rest);
  const std::optional<BatchJob> job =
      cancels ? batches.cancel(id, owner_of(request)) : batches.find(id, owner_of(request));
  return job ? json_response(batch_object(*job)) : not_found_response("batch", id);
}

HttpResponse serve_files(const HttpRequest& request, const PrepareContext& context) {
  FileStore& files = context.server->batches->files();
  if (request.path.starts_with(kFiles)) return one_file(request, files, context.options.limits);
  return request.method == "POST" ? upload(request, files, context) : list_files(request, files);
}

HttpResponse serve_batches(const HttpRequest& request, const PrepareContext& context) {
  if (request.path.starts_with(kBatches)) return one_batch(request, *context.server->batches);
  if (request.method == "POST") return create_batch(request, context);
  std::vector<json::object> objects;
  for (const BatchJob& job : context.server->batches->list(owner_of(request)))
    objects.push_back(batch_object(job));
  return page_of(std::move(objects), request.query, 20);
}

}  // namespace

namespace {

constexpr Door kFilesDoor = page_door(&serve_files);
constexpr Door kBatchesDoor = page_door(&serve_batches);

using M = RouteMode;
using K = RouteKind;
using S = RouteSwitch;

const Route kFilesRoutes[] = {
    {"/v1/files", "GET POST", K::kGuarded, M::kWorker, kFilesDoor,
     "The files that were uploaded, or one more, as a form (--files-dir).", S::kFilesDir,
     RouteModel::kNone},
    {"/v1/files/*", "GET DELETE", K::kGuarded, M::kWorker, kFilesDoor,
     "One file: what is known of it, its bytes (GET ID/content), or remove it (--files-dir).",
     S::kFilesDir, RouteModel::kNone},
    {"/v1/batches", "GET POST", K::kGuarded, M::kWorker, kBatchesDoor,
     "The batches, or one more (--files-dir).", S::kFilesDir, RouteModel::kNone},
    {"/v1/batches/*", "GET POST", K::kGuarded, M::kWorker, kBatchesDoor,
     "One batch, or cancel it (POST ID/cancel) (--files-dir).", S::kFilesDir, RouteModel::kNone},
};

}  // namespace

std::span<const Route> files_routes() { return kFilesRoutes; }

}  // namespace quire::server
