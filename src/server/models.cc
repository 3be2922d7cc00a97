// /v1/models, /v1/models/{id}, /get_model_info
#include "base/strings.h"
#include "server/errors.h"
#include "server/generation.h"
#include "server/handlers.h"

namespace lamina::server {
namespace {

Json model_card(const ServerContext& context) {
  Json out;
  out.set("id", context.model_id);
  out.set("object", "model");
  out.set("created", context.created);
  out.set("owned_by", "lamina");
  out.set("root", context.engine.info().model);
  out.set("max_model_len", context.context_length());
  return out;
}

}  // namespace

Reply list_models(ServerContext& context, const Call&) {
  Json out;
  out.set("object", "list");
  out.set("data", Json(Json::Array{model_card(context)}));
  return HttpResponse{.body = out.dump()};
}

Reply get_model(ServerContext& context, const Call& call) {
  if (Fault fault = check_model(context, call.tail)) return error_response(*fault);
  return HttpResponse{.body = model_card(context).dump()};
}

Reply get_model_info(ServerContext& context, const Call&) {
  const EngineInfo& info = context.engine.info();
  Json out;
  out.set("model_path", info.model);
  out.set("tokenizer_path", info.model);
  out.set("is_generation", true);
  out.set("preferred_sampling_params", Json());
  out.set("weight_version", "default");
  out.set("architecture", info.architecture);
  out.set("dtype", torch_dtype_name(info.dtype));
  out.set("quantization", info.quantization.empty() ? Json() : Json(info.quantization));
  out.set("kv_cache_dtype", torch_dtype_name(info.kv_dtype));
  out.set("context_length", info.context_length);
  out.set("max_total_num_tokens", info.memory.kv_tokens());
  return HttpResponse{.body = out.dump()};
}

}  // namespace lamina::server
