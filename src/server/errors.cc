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
