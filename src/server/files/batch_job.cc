#include "server/files/batch_job.h"

#include <algorithm>
#include <array>

#include "server/json/json_members.h"

namespace quire::server {
namespace {

namespace json = boost::json;

constexpr std::array<std::string_view, 7> kStatusNames = {
    "validating", "failed", "in_progress", "completed", "expired", "cancelling", "cancelled"};

json::value text_or_null(const std::string& text) {
  return text.empty() ? json::value() : json::value(text);
}
json::value time_or_null(bool is_so, int64_t time_s) {
  return is_so && time_s != 0 ? json::value(time_s) : json::value();
}

}  // namespace

std::string_view to_string(BatchStatus status) { return kStatusNames[static_cast<size_t>(status)]; }

bool has_ended(BatchStatus status) {
  return status == BatchStatus::kFailed || status == BatchStatus::kCompleted ||
         status == BatchStatus::kExpired || status == BatchStatus::kCancelled;
}

json::object batch_object(const BatchJob& job) {
  json::value errors;
  if (!job.errors.empty()) errors = json::object{{"object", "list"}, {"data", job.errors}};
  const BatchStatus status = job.status;
  return {
      {"id", job.id},
      {"object", "batch"},
      {"endpoint", job.endpoint},
      {"errors", std::move(errors)},
      {"input_file_id", job.input_file_id},
      {"completion_window", "24h"},
      {"status", to_string(status)},
      {"output_file_id", text_or_null(job.output_file_id)},
      {"error_file_id", text_or_null(job.error_file_id)},
      {"created_at", job.created_s},
      {"in_progress_at", time_or_null(true, job.started_s)},
      {"expires_at", job.expires_s},
      {"finalizing_at", time_or_null(status == BatchStatus::kCompleted, job.ended_s)},
      {"completed_at", time_or_null(status == BatchStatus::kCompleted, job.ended_s)},
      {"failed_at", time_or_null(status == BatchStatus::kFailed, job.ended_s)},
      {"expired_at", time_or_null(status == BatchStatus::kExpired, job.ended_s)},
      {"cancelling_at", time_or_null(true, job.cancelling_s)},
      {"cancelled_at", time_or_null(status == BatchStatus::kCancelled, job.ended_s)},
      {"request_counts",
       {{"total", job.num_requests}, {"completed", job.num_completed}, {"failed", job.num_failed}}},
      {"metadata", job.metadata}};
}

json::object batch_record(const BatchJob& job) {
  json::object record = batch_object(job);
  record["owner"] = job.owner;
  record["ended_at"] = job.ended_s;
  return record;
}

Result<BatchJob> parse_batch_record(const json::value& value) {
  const json::object* const record = value.if_object();
  if (record == nullptr) return data_loss("expected an object");
  const auto text = [&](std::string_view name) { return std::string(text_member(*record, name)); };
  BatchJob job{.id = text("id"),
               .owner = text("owner"),
               .endpoint = text("endpoint"),
               .input_file_id = text("input_file_id"),
               .output_file_id = text("output_file_id"),
               .error_file_id = text("error_file_id")};
  const auto* const name = std::ranges::find(kStatusNames, text_member(*record, "status"));
  if (job.id.empty() || name == kStatusNames.end()) return data_loss("expected an id and a status");
  job.status = static_cast<BatchStatus>(name - kStatusNames.begin());
  job.created_s = count_member(*record, "created_at");
  job.expires_s = count_member(*record, "expires_at");
  job.started_s = count_member(*record, "in_progress_at");
  job.cancelling_s = count_member(*record, "cancelling_at");
  job.ended_s = count_member(*record, "ended_at");
  if (const json::value* const counts = find_member(*record, "request_counts");
      counts != nullptr && counts->is_object()) {
    job.num_requests = count_member(counts->get_object(), "total");
    job.num_completed = count_member(counts->get_object(), "completed");
    job.num_failed = count_member(counts->get_object(), "failed");
  }
  if (const json::value* const metadata = find_member(*record, "metadata");
      metadata != nullptr && metadata->is_object()) {
    job.metadata = metadata->get_object();
  }
  if (const json::value* const errors = find_member(*record, "errors");
      errors != nullptr && errors->is_object()) {
    const json::value* const data = find_member(errors->get_object(), "data");
    if (data != nullptr && data->is_array()) job.errors = data->get_array();
  }
  return job;
}

}  // namespace quire::server
