// /flush_cache, /abort_request, /metrics
#include "server/handlers.h"
#include "server/schema.h"

namespace lamina::server {

Reply flush_cache(ServerContext& context, const Call&) {
  if (context.engine.flush_cache()) return HttpResponse{.content_type = "text/plain; charset=utf-8", .body = "Cache flushed.\n"};
  return error_response({.message = "the cache cannot be flushed while requests run or wait", .code = "requests_running"});
}

/// {"rid": "..."} or {"abort_all": true}: ends those requests with finish_reason "abort"; unknown ids are no error, they may have ended.
Reply abort_request(ServerContext& context, const Call& call) {
  std::string rid;
  bool all = false;
  if (Fault fault = read_fields(call.body, {{"rid", &rid, 0, 256}, {"abort_all", &all}})) return error_response(*fault);
  if (rid.empty() && !all) return error_response(bad_field("rid", "is missing, and `abort_all` is not true"));
  const std::vector<RequestId> requests = all ? context.live.all() : context.live.of(rid);
  for (const RequestId id : requests) context.engine.cancel(id);
  Json out;
  out.set("aborted", Json(requests.size()));
  return HttpResponse{.body = out.dump()};
}

Reply show_metrics(ServerContext& context, const Call&) {
  const int page_size = context.engine.info().memory.page_size;
  return HttpResponse{.content_type = "text/plain; version=0.0.4; charset=utf-8",
                      .body = context.metrics.text(context.engine.stats(), page_size)};
}

}  // namespace lamina::server
