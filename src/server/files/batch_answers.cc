#include "server/files/batch_answers.h"

#include <boost/json/object.hpp>
#include <fstream>
#include <unordered_set>

#include "server/batch/batch_line.h"
#include "server/http/api_error.h"

namespace quire::server {
namespace {

namespace json = boost::json;

constexpr int64_t kMaxRequests = 50'000;  // as OpenAI's
constexpr size_t kMaxErrors = 20;

bool is_blank(const std::string& line) { return line.find_first_not_of(" \t\r") == line.npos; }

json::object error_of(std::string_view code, int64_t line, std::string_view message) {
  return {{"code", code},
          {"message", message},
          {"line", line > 0 ? json::value(line) : json::value()},
          {"param", nullptr}};
}

}  // namespace

json::array check_batch_input(const std::string& path, std::string_view endpoint,
                              int64_t& num_requests) {
  json::array errors;
  std::ifstream input(path, std::ios::binary);
  if (!input) return {error_of("invalid_input_file", 0, "the input file is gone")};
  std::unordered_set<std::string> ids;
  num_requests = 0;
  int64_t line_number = 0;
  for (std::string line; std::getline(input, line) && errors.size() < kMaxErrors;) {
    ++line_number;
    if (is_blank(line)) continue;
    if (++num_requests > kMaxRequests) {
      errors.push_back(error_of("too_many_requests", line_number,
                                fmt::format("expected at most {} requests", kMaxRequests)));
      break;
    }
    BatchRequest request;
    const Status parsed = parse_batch_request(line, request);
    if (!parsed.ok()) {
      errors.push_back(error_of("invalid_request", line_number, parsed.message()));
    } else if (request.url != endpoint) {
      errors.push_back(error_of(
          "mismatched_endpoint", line_number,
          fmt::format("url: expected {}, which the batch names, got {}", endpoint, request.url)));
    } else if (!ids.insert(request.custom_id).second) {
      errors.push_back(error_of("duplicate_custom_id", line_number,
                                fmt::format("custom_id: expected each once, got {} again",
                                            in_quotes(request.custom_id))));
    }
  }
  if (num_requests == 0)
    errors.push_back(error_of("empty_file", 0, "expected at least one request, got none"));
  return errors;
}

Status split_batch_answers(const std::string& answers, const std::string& good,
                           const std::string& bad) {
  std::ofstream good_file(good, std::ios::binary), bad_file(bad, std::ios::binary);
  std::unordered_set<std::string> answered, refused;
  {
    std::ifstream file(answers, std::ios::binary);
    for (std::string line; std::getline(file, line);) {
      const std::string id = answered_id(line);
      if (!id.empty() && answered.insert(id).second) good_file << line << '\n';
    }
  }
  std::ifstream file(answers, std::ios::binary);
  for (std::string line; std::getline(file, line);) {
    const std::string id = refused_id(line);
    if (!id.empty() && !answered.contains(id) && refused.insert(id).second)
      bad_file << line << '\n';
  }
  good_file.flush();
  bad_file.flush();
  if (!good_file || !bad_file)
    return unavailable("the answers cannot be written: is the disk full?");
  return {};
}

}  // namespace quire::server
