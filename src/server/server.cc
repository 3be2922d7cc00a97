#include "server/server.h"

#include <chrono>
#include <exception>

#include "base/log.h"
#include "base/strings.h"
#include "server/errors.h"
#include "server/router.h"

namespace lamina::server {
namespace {

double steady_seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Compares in a time that depends on the lengths alone.
bool same_secret(std::string_view a, std::string_view b) {
  size_t difference = a.size() ^ b.size();
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ (b.empty() ? 0 : b[i % b.size()]));
  return difference == 0;
}

bool is_health(std::string_view path) { return path == "/health"; }

HttpResponse unavailable(std::string_view why) {
  return error_response({.status = 503, .message = std::string(why), .code = "unavailable"});
}

/// Seconds that clients get to read errors, and health checks to see the 503, before the process ends.
constexpr double kFaultSeconds = 0.5;

}  // namespace

Result<std::unique_ptr<Server>> Server::listen(ServerOptions options) {
  LAMINA_TRY(validate(options));
  std::unique_ptr<Server> server(new Server(std::move(options)));
  const ServerOptions& o = server->options_;
  LAMINA_ASSIGN(server->http_, HttpServer::listen(o.host, o.port, o.limits, *server));
  return server;
}

Server::~Server() {
  if (owned_context_) owned_context_->engine.set_on_fault({});
}

void Server::serve(Engine& engine) {
  owned_context_ = std::make_unique<ServerContext>(engine, options_);
  context_ = owned_context_.get();
  engine.set_on_fault([this] { http_->stop_after(kFaultSeconds); });
}

void Server::run(bool signals) { http_->run(signals, options_.drain_timeout); }

std::optional<HttpResponse> Server::check_head(const HttpRequest& head) {
  if (is_health(head.path) && (head.method == "GET" || head.method == "HEAD")) return health();
  if (!options_.api_key.empty() && !same_secret(head.authorization, cat("Bearer ", options_.api_key))) {
    HttpResponse refusal = error_response(
        {.status = 401, .message = "the header Authorization must be Bearer and the server's API key", .code = "invalid_api_key"});
    refusal.headers.emplace_back("WWW-Authenticate", "Bearer");
    return refusal;
  }
  if (std::optional<HttpResponse> refusal = check_route(head)) return refusal;
  const std::string why = unready();
  return why.empty() ? std::nullopt : std::optional(unavailable(why));
}

std::string Server::unready() {
  if (!ready()) return draining_ ? "the server is shutting down" : "the server is starting: the model is being loaded";
  if (const std::string fault = context_.load()->engine.fault(); !fault.empty()) return cat("the engine has failed: ", fault);
  return draining_ ? "the server is shutting down" : "";
}

HttpResponse Server::health() {
  if (const std::string why = unready(); !why.empty()) return unavailable(why);
  if (stalled()) return unavailable(cat("the engine has made no step for ", options_.watchdog_timeout, " seconds while requests run"));
  return {.body = R"({"status":"ok"})"};
}

/// Whether requests run and no step ended for too long. Costs no computation, however often it is asked.
bool Server::stalled() {
  const EngineStats stats = context_.load()->engine.stats();
  const double now = steady_seconds();
  if (stats.steps != last_steps_ || stats.running + stats.waiting == 0) {
    last_steps_ = stats.steps;
    last_progress_ = now;
  }
  return now - last_progress_ > options_.watchdog_timeout;
}

Reply Server::handle(const HttpRequest& request) {
  try {
    return dispatch(*context_.load(), request);
  } catch (const std::exception& fault) {  // out of memory, most likely: this request ends, the others go on
    log_error(cat("a request to ", shown_text(request.path), " failed: ", fault.what()));
    return error_response({.status = 500, .message = "the request could not be handled"});
  }
}

void Server::answered(const HttpRequest& request, int status) {
  ServerContext* context = context_.load();
  if (context == nullptr) return;
  const Route* route = find_route(request.path);
  const std::string_view endpoint = is_health(request.path) ? "/health" : route != nullptr ? route->path : "other";
  const bool known = request.method == "GET" || request.method == "POST" || request.method == "HEAD" || request.method == "OPTIONS";
  context->metrics.response(endpoint, known ? std::string_view(request.method) : "other", status);
}

}  // namespace lamina::server
