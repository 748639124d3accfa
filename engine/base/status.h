// Error values. A thin layer over absl::Status: makers that format their message with fmt, the two
// propagation macros that bookworm's absl lacks, and Annotate for adding where an error happened on
// its way outward ("model 'm' version 3: node 'Conv_17' (Conv): ...").
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tandem {

using absl::Status;
using absl::StatusOr;

// Makes a status of `code` with `message`; the one place where string types are converted.
Status MakeStatus(absl::StatusCode code, std::string_view message);

// Returns `status` with "`where`: " put before its message; an OK status is returned unchanged.
Status Annotate(const Status& status, std::string_view where);

// The message of `status` as a std::string_view; valid while `status` lives.
std::string_view Message(const Status& status);

#define TANDEM_STATUS_MAKER(Name, Code)                                                          \
  template <typename... Args>                                                                    \
  Status Name(fmt::format_string<Args...> format, Args&&... args) {                              \
    return MakeStatus(absl::StatusCode::Code, fmt::format(format, std::forward<Args>(args)...)); \
  }

TANDEM_STATUS_MAKER(InvalidArgument, kInvalidArgument)
TANDEM_STATUS_MAKER(NotFound, kNotFound)
TANDEM_STATUS_MAKER(FailedPrecondition, kFailedPrecondition)
TANDEM_STATUS_MAKER(Unimplemented, kUnimplemented)
TANDEM_STATUS_MAKER(ResourceExhausted, kResourceExhausted)
TANDEM_STATUS_MAKER(Unavailable, kUnavailable)
TANDEM_STATUS_MAKER(Internal, kInternal)
TANDEM_STATUS_MAKER(DeadlineExceeded, kDeadlineExceeded)
TANDEM_STATUS_MAKER(Cancelled, kCancelled)

#undef TANDEM_STATUS_MAKER

}  // namespace tandem

#define TANDEM_CONCAT_INNER(a, b) a##b
#define TANDEM_CONCAT(a, b) TANDEM_CONCAT_INNER(a, b)

// Returns from the enclosing function when `expr` (a Status) is not OK.
#define RETURN_IF_ERROR(expr)                                             \
  do {                                                                    \
    if (::tandem::Status status_ = (expr); !status_.ok()) return status_; \
  } while (false)

// Evaluates `expr` (a StatusOr<T>); on error returns its status, else assigns the value to `lhs`.
// NOLINTBEGIN(bugprone-macro-parentheses): `lhs` may be a declaration.
#define ASSIGN_OR_RETURN(lhs, expr) \
  TANDEM_ASSIGN_OR_RETURN_INNER(TANDEM_CONCAT(status_or_, __LINE__), lhs, expr)
#define TANDEM_ASSIGN_OR_RETURN_INNER(tmp, lhs, expr) \
  auto tmp = (expr);                                  \
  if (!tmp.ok()) return std::move(tmp).status();      \
  lhs = std::move(tmp).value()
// NOLINTEND(bugprone-macro-parentheses)
