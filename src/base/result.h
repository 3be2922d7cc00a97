#pragma once
// Result<T>: a value or one error. gcc 12 has no std::expected in C++20.

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace lamina {

/// One error, ready to be shown after "error: ". It names the thing (file, tensor, key, flag), the value and what is allowed.
struct Error {
  std::string message;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  /// Requires ok().
  T& value() & {
    LAMINA_CHECK(ok(), "value() of an error");
    return std::get<0>(state_);
  }
  const T& value() const& {
    LAMINA_CHECK(ok(), "value() of an error");
    return std::get<0>(state_);
  }
  T&& value() && {
    LAMINA_CHECK(ok(), "value() of an error");
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  /// Requires !ok().
  const Error& error() const {
    LAMINA_CHECK(!ok(), "error() of a value");
    return std::get<1>(state_);
  }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  /// Requires !ok().
  const Error& error() const {
    LAMINA_CHECK(!ok(), "error() of a success");
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace lamina

/// Returns the error of a Status/Result expression from the enclosing function.
#define LAMINA_TRY(expression)                                                                           \
  do {                                                                                                   \
    if (auto lamina_try_ = (expression); !lamina_try_.ok()) return ::lamina::Error(lamina_try_.error()); \
  } while (false)

#define LAMINA_CONCAT_INNER(a, b) a##b
#define LAMINA_CONCAT(a, b) LAMINA_CONCAT_INNER(a, b)
/// `LAMINA_ASSIGN(auto x, f())`: x is the value of f(), or the enclosing function returns its error.
#define LAMINA_ASSIGN(declaration, expression) LAMINA_ASSIGN_INNER(LAMINA_CONCAT(lamina_result_, __LINE__), declaration, expression)
#define LAMINA_ASSIGN_INNER(name, declaration, expression) \
  auto name = (expression);                                \
  if (!name.ok()) return ::lamina::Error(name.error());    \
  declaration = std::move(name).value()
