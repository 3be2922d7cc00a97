#pragma once
// Which handler answers which method and path.

#include <optional>
#include <string_view>

#include "server/handlers.h"

namespace lamina::server {

struct Route {
  std::string_view methods;  // "GET", "POST", or "GET, POST"; whoever takes GET takes HEAD too
  std::string_view path;     // one that ends with '/' takes any non-empty tail
  bool takes_json;           // POST needs a JSON object
  Reply (*handler)(ServerContext& context, const Call& call);
};

/// The route of a path, whatever the method; nullptr: 404.
const Route* find_route(std::string_view path);

/// 404, 405 (with Allow), 415, or the answer to OPTIONS: what method, path and content type alone decide.
std::optional<HttpResponse> check_route(const HttpRequest& head);

/// Parses the body and calls the handler. The request has passed check_route().
Reply dispatch(ServerContext& context, const HttpRequest& request);

}  // namespace lamina::server
