#pragma once
// Errors as OpenAI's clients read them: {"error": {"message", "type", "param", "code"}}.

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "server/http.h"

namespace lamina::server {

struct ApiError {
  int status = 400;
  std::string message;
  std::optional<std::string> param = {};  // the field of the request that is wrong
  std::optional<std::string> code = {};   // for programs: "model_not_found", "context_length_exceeded", ...
};

/// What a check found: nothing, or the reason to refuse.
using Fault = std::optional<ApiError>;

/// 400 that names a field: "`name` must be ...". The message begins with the name.
ApiError bad_field(std::string_view name, std::string_view what);
/// `value` for a message: short, in valid UTF-8.
std::string shown(const Json& value);
std::string shown_text(std::string_view value);

/// What a request's first line and Host headers get wrong; `path` is what it asks for ("*" for OPTIONS of the server).
Fault check_request_line(std::string_view target, bool needs_host, size_t hosts, std::string& path);

Json error_json(const ApiError& error);
HttpResponse error_response(const ApiError& error);

}  // namespace lamina::server
