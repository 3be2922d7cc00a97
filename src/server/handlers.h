#pragma once
// The endpoints. Each takes the parsed body (an object; null for GET) and what followed the route's prefix, and never blocks on the model.

#include <string>

#include "base/json.h"
#include "server/context.h"
#include "server/http.h"

namespace lamina::server {

struct Call {
  Json body;
  std::string tail;  // of the path, for a route that ends with '/'
};

Reply list_models(ServerContext& context, const Call& call);
Reply get_model(ServerContext& context, const Call& call);
Reply completions(ServerContext& context, const Call& call);
Reply chat_completions(ServerContext& context, const Call& call);
Reply embeddings(ServerContext& context, const Call& call);
Reply tokenize(ServerContext& context, const Call& call);
Reply detokenize(ServerContext& context, const Call& call);
Reply generate(ServerContext& context, const Call& call);
Reply get_model_info(ServerContext& context, const Call& call);
Reply flush_cache(ServerContext& context, const Call& call);
Reply abort_request(ServerContext& context, const Call& call);
Reply show_metrics(ServerContext& context, const Call& call);

}  // namespace lamina::server
