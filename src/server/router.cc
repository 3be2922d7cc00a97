#include "server/router.h"

#include <algorithm>

#include "base/strings.h"
#include "server/errors.h"

namespace lamina::server {
namespace {

constexpr std::string_view kGet = "GET", kPost = "POST", kGetPost = "GET, POST";

constexpr Route kRoutes[] = {
    {kGet, "/v1/models", false, list_models},         {kGet, "/v1/models/", false, get_model},
    {kPost, "/v1/completions", true, completions},    {kPost, "/v1/chat/completions", true, chat_completions},
    {kPost, "/v1/embeddings", true, embeddings},      {kPost, "/tokenize", true, tokenize},
    {kPost, "/v1/tokenize", true, tokenize},          {kPost, "/detokenize", true, detokenize},
    {kPost, "/v1/detokenize", true, detokenize},      {kPost, "/generate", true, generate},
    {kGet, "/get_model_info", false, get_model_info}, {kGetPost, "/flush_cache", false, flush_cache},
    {kPost, "/abort_request", true, abort_request},   {kGet, "/metrics", false, show_metrics},
};

bool takes(const Route& route, std::string_view method) {
  return route.methods.find(method == "HEAD" ? "GET" : method) != std::string_view::npos;
}

std::string allowed(const Route& route) { return cat(route.methods, route.methods.starts_with("GET") ? ", HEAD" : "", ", OPTIONS"); }

/// Whether a body under this content type may be JSON; none given is taken for it.
bool may_be_json(std::string_view content_type) {
  std::string type(content_type.substr(0, content_type.find(';')));
  std::erase(type, ' ');
  std::transform(type.begin(), type.end(), type.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return type.empty() || type == "application/json";
}

}  // namespace

const Route* find_route(std::string_view path) {
  const Route* found = std::find_if(std::begin(kRoutes), std::end(kRoutes), [&](const Route& route) {
    return route.path == path || (route.path.ends_with('/') && path.starts_with(route.path) && path.size() > route.path.size());
  });
  return found == std::end(kRoutes) ? nullptr : found;
}

std::optional<HttpResponse> check_route(const HttpRequest& head) {
  const Route* route = find_route(head.path);
  if (head.method == "OPTIONS" && (route != nullptr || head.path == "*")) {
    return HttpResponse{.status = 204, .body = "", .headers = {{"Allow", route == nullptr ? "GET, HEAD, POST, OPTIONS" : allowed(*route)}}};
  }
  if (route == nullptr) {
    return error_response(
        {.status = 404, .message = cat("there is no ", shown_text(head.method), " ", shown_text(head.path)), .code = "unknown_url"});
  }
  if (!takes(*route, head.method)) {
    HttpResponse refusal =
        error_response({.status = 405,
                        .message = cat(shown_text(head.path), " takes ", allowed(*route), ", not ", shown_text(head.method)),
                        .code = "method_not_allowed"});
    refusal.headers.emplace_back("Allow", allowed(*route));
    return refusal;
  }
  if (route->takes_json && !may_be_json(head.content_type)) {
    return error_response({.status = 415,
                           .message = cat("the content type must be application/json, not ", shown_text(head.content_type)),
                           .code = "unsupported_media_type"});
  }
  return std::nullopt;
}

Reply dispatch(ServerContext& context, const HttpRequest& request) {
  const Route* route = find_route(request.path);
  Call call;
  if (route->path.ends_with('/')) call.tail = request.path.substr(route->path.size());
  if (!route->takes_json) return route->handler(context, call);
  Result<Json> body = parse_json(request.body, "the request's body");
  if (!body.ok()) return error_response({.message = body.error().message, .code = "invalid_json"});
  if (!body->is_object()) return error_response({.message = cat("the request's body must be a JSON object, not ", body->kind_name())});
  call.body = std::move(*body);
  return route->handler(context, call);
}

}  // namespace lamina::server
