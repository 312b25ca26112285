// Status and Result<T> report failures: a bad file, a bad request, a full pool.
//
//   Result<Config> parse(std::string_view text) {
//     if (text.empty()) return invalid_argument("expected an object, got an empty file");
//     QUIRE_ASSIGN_OR_RETURN(const int64_t layers, read_int(text, "num_hidden_layers"));
//     QUIRE_RETURN_IF_ERROR(check_layers(layers));
//     return Config{layers};
//   }
//
// Messages are one line and say what was expected and what came. Exceptions never leave a folder:
// those of third-party code are caught at the call and become a Status.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/check.h"

namespace quire {

enum class StatusCode {
  kOk,
  kInvalidArgument,    // the caller's input is wrong (HTTP 400)
  kNotFound,           // no such file, model, route (404)
  kResourceExhausted,  // a limit is reached, try later (429)
  kTooLarge,           // exceeds a size limit, so trying again is of no use (413)
  kDeadlineExceeded,   // (408)
  kCancelled,          // the client left or cancelled the request
  kUnavailable,        // draining or dead (503)
  kUnimplemented,      // (501)
  kDataLoss,           // a file is truncated or inconsistent
  kInternal,           // (500)
};

std::string_view to_string(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;  // ok
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

  // Returns the same error with `prefix: ` before its message.
  Status with_context(std::string_view prefix) const {
    return ok() ? *this : Status(code_, fmt::format("{}: {}", prefix, message_));
  }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}        // NOLINT: implicit by design
  Result(Status status) : state_(std::move(status)) {  // NOLINT: implicit by design
    QUIRE_CHECK(!std::get<Status>(state_).ok(), "a Result needs a value or an error");
  }

  bool ok() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return ok(); }

  // Precondition of these three: ok().
  const T& value() const& {
    require_ok();
    return std::get<T>(state_);
  }
  T& value() & {
    require_ok();
    return std::get<T>(state_);
  }
  T&& value() && {
    require_ok();
    return std::get<T>(std::move(state_));
  }
  const T& operator*() const& { return value(); }
  T& operator*() & { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  const T* operator->() const { return &value(); }
  T* operator->() { return &value(); }

  // Returns an ok status if there is a value.
  Status status() const { return ok() ? Status() : std::get<Status>(state_); }

 private:
  void require_ok() const {
    QUIRE_CHECK(ok(), "value() of a failed Result: {}", std::get<Status>(state_).message());
  }
  std::variant<T, Status> state_;
};

#define QUIRE_DEFINE_ERROR(name, code)                                                 \
  template <typename... Args>                                                          \
  Status name(fmt::format_string<Args...> format, Args&&... args) {                    \
    return Status(StatusCode::code, fmt::format(format, std::forward<Args>(args)...)); \
  }
QUIRE_DEFINE_ERROR(invalid_argument, kInvalidArgument)
QUIRE_DEFINE_ERROR(not_found, kNotFound)
QUIRE_DEFINE_ERROR(resource_exhausted, kResourceExhausted)
QUIRE_DEFINE_ERROR(too_large, kTooLarge)
QUIRE_DEFINE_ERROR(deadline_exceeded, kDeadlineExceeded)
QUIRE_DEFINE_ERROR(cancelled, kCancelled)
QUIRE_DEFINE_ERROR(unavailable, kUnavailable)
QUIRE_DEFINE_ERROR(unimplemented, kUnimplemented)
QUIRE_DEFINE_ERROR(data_loss, kDataLoss)
QUIRE_DEFINE_ERROR(internal_error, kInternal)
#undef QUIRE_DEFINE_ERROR

}  // namespace quire

#define QUIRE_CONCAT_INNER(a, b) a##b
#define QUIRE_CONCAT(a, b) QUIRE_CONCAT_INNER(a, b)

#define QUIRE_RETURN_IF_ERROR(expression)                                  \
  do {                                                                     \
    if (::quire::Status quire_status = (expression); !quire_status.ok()) { \
      return quire_status;                                                 \
    }                                                                      \
  } while (false)

#define QUIRE_ASSIGN_OR_RETURN(declaration, expression) \
  QUIRE_ASSIGN_OR_RETURN_INNER(QUIRE_CONCAT(quire_result_, __LINE__), declaration, expression)
#define QUIRE_ASSIGN_OR_RETURN_INNER(result, declaration, expression) \
  auto result = (expression);                                         \
  if (!result.ok()) return result.status();                           \
  declaration = std::move(result).value()
