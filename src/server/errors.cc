#include "server/errors.h"

#include "base/strings.h"
#include "base/utf8.h"

namespace lamina::server {
namespace {

constexpr size_t kShownBytes = 80;

Json nullable(const std::optional<std::string>& text) { return text ? Json(*text) : Json(); }

}  // namespace

ApiError bad_field(std::string_view name, std::string_view what) {
  return {.message = cat("`", name, "` ", what), .param = std::string(name)};
}

std::string shown_text(std::string_view value) {
  if (value.size() <= kShownBytes) return to_valid_utf8(value);
  return cat(to_valid_utf8(value.substr(0, kShownBytes - incomplete_utf8_tail(value.substr(0, kShownBytes)))), "...");
}

std::string shown(const Json& value) {
  if (value.is_array()) return cat("an array of ", value.as_array().size());
  if (value.is_object()) return "an object";
  if (value.is_string()) return cat("\"", shown_text(value.as_string()), "\"");
  return value.dump();
}

Fault check_request_line(std::string_view target, bool needs_host, size_t hosts, std::string& path) {
  const std::optional<std::string> found = target == "*" ? std::string(target) : path_of_target(target);
  if (!found) return ApiError{.message = "the request's target is no path"};
  path = *found;
  if (needs_host && hosts != 1) return ApiError{.message = "a request needs exactly one Host header"};
  return std::nullopt;
}

Json error_json(const ApiError& error) {
  Json inner, out;
  inner.set("message", error.message);
  inner.set("type", error.status >= 500 ? "server_error" : "invalid_request_error");
  inner.set("param", nullable(error.param));
  inner.set("code", nullable(error.code));
  out.set("error", std::move(inner));
  return out;
}

HttpResponse error_response(const ApiError& error) { return {.status = error.status, .body = error_json(error).dump()}; }

}  // namespace lamina::server
