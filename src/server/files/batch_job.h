// BatchJob is one batch as clients see it and as it is stored.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire::server {

enum class BatchStatus : uint8_t {
  kValidating,
  kFailed,
  kInProgress,
  kCompleted,
  kExpired,
  kCancelling,
  kCancelled,
};
// Returns OpenAI's name, such as "in_progress".
std::string_view to_string(BatchStatus status);
// Returns whether the status is final.
bool has_ended(BatchStatus status);

struct BatchJob {
  std::string id;     // "batch_" and 32 hex digits
  std::string owner;  // as FileInfo::owner
  std::string endpoint;
  std::string input_file_id, output_file_id, error_file_id;  // empty: none
  BatchStatus status = BatchStatus::kValidating;
  int64_t created_s = 0, expires_s = 0;                  // Unix time
  int64_t started_s = 0, cancelling_s = 0, ended_s = 0;  // 0: not yet
  int64_t num_requests = 0, num_completed = 0, num_failed = 0;
  boost::json::object metadata;
  boost::json::array errors;  // {"code", "message", "line", "param"}
};

// Returns the object that /v1/batches prints.
boost::json::object batch_object(const BatchJob& job);
// Returns the stored form: the same object with the owner.
boost::json::object batch_record(const BatchJob& job);
// kDataLoss: the value is not such a record.
Result<BatchJob> parse_batch_record(const boost::json::value& record);

}  // namespace quire::server
