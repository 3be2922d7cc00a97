#include "plan/inspect.h"

#include <algorithm>

#include "base/strings.h"

namespace lamina {
namespace {

Json shape_json(const std::vector<int64_t>& shape) {
  Json out = Json::array();
  for (const int64_t size : shape) out.push(Json(size));
  return out;
}

const char* rule_name(ShardRule rule) {
  switch (rule) {
    case ShardRule::kReplicate:
      return "replicate";
    case ShardRule::kSplit:
      return "split";
    case ShardRule::kHeads:
      return "heads";
    case ShardRule::kKvHeads:
      return "kv_heads";
    case ShardRule::kVocab:
      return "vocab";
  }
  return "";
}

/// "heads | kv_heads | kv_heads" over dim 0, then " x split" when dim 1 is cut.
std::string rule_string(const Param& param) {
  std::vector<std::string> parts;
  for (const ParamPart& part : param.parts) parts.emplace_back(rule_name(part.rows.rule));
  std::string out = join(parts, " | ");
  if (!param.is_vector() && param.cols.rule != ShardRule::kReplicate) out += cat(" x ", rule_name(param.cols.rule));
  return out;
}

/// Tensors that fill a parameter: with file and byte range when there are files, else the names that will be looked for.
Json sources_json(const ParamLoad& load, const Checkpoint* checkpoint) {
  Json out = Json::array();
  const Param& param = *load.param;
  if (checkpoint == nullptr) {
    for (size_t p = 0; p < param.parts.size(); ++p) out.push(Json(param.part_name(static_cast<int>(p))));
    return out;
  }
  const TensorInfo* last = nullptr;
  for (const LoadPiece& piece : load.pieces) {
    if (piece.tensor == last) continue;
    last = piece.tensor;
    const std::string& path = checkpoint->file_path(last->file);
    Json source;
    source.set("tensor", last->name);
    source.set("dtype", dtype_name(last->dtype));
    source.set("file", path.substr(path.find_last_of('/') + 1));
    source.set("bytes", Json(Json::Array{Json(static_cast<int64_t>(last->begin)), Json(static_cast<int64_t>(last->end))}));
    out.push(std::move(source));
  }
  return out;
}

Result<Json> parameter_json(const ParamLoad& load, const Checkpoint* checkpoint) {
  const Param& param = *load.param;
  Json out, on_disk = Json::array();
  for (size_t p = 0; p < param.parts.size(); ++p) on_disk.push(shape_json(param.on_disk_shape(static_cast<int>(p))));
  LAMINA_ASSIGN(const std::vector<int64_t> global, param.global_shape());
  LAMINA_ASSIGN(const std::vector<int64_t> local, param.local_shape());
  out.set("name", param.name);
  out.set("rule", rule_string(param));
  out.set("on_disk", std::move(on_disk));
  out.set("global", shape_json(global));
  out.set("local", shape_json(local));
  out.set("dtype", torch_dtype_name(param.store->storage_dtype()));
  out.set("bytes", param.store->bytes());
  out.set("sources", sources_json(load, checkpoint));
  return out;
}

Json kv_json(const ModelPlan& plan, const MemoryPlan& memory) {
  const std::vector<KvLayerShape> shapes = plan.built.model->kv_shapes();
  Json out;
  out.set("layers", shapes.size());
  out.set("kv_heads", shapes.empty() ? 0 : shapes.front().kv_heads);
  out.set("k_dim", shapes.empty() ? 0 : shapes.front().k_dim);
  out.set("v_dim", shapes.empty() ? 0 : shapes.front().v_dim);
  out.set("dtype", torch_dtype_name(plan.source->kv_dtype));
  out.set("bytes_per_token", memory.kv_bytes_per_token);
  return out;
}

Json memory_json(const MemoryPlan& memory) {
  Json out;
  out.set("weights", memory.weight_bytes);
  out.set("step", memory.step_bytes);
  out.set("stages", 2 * memory.stage_bytes);
  out.set("kv_tokens", memory.kv_tokens());
  out.set("kv", memory.kv_bytes());
  return out;
}

Json skipped_json(const AuditReport& report) {
  Json out = Json::array();
  for (const AuditReport::Skipped& skipped : report.skipped) {
    Json line;
    line.set("tensor", skipped.tensor);
    line.set("reason", skipped.reason);
    out.push(std::move(line));
  }
  return out;
}

std::string shape_text(const Json& shape) {
  std::vector<std::string> sizes;
  for (const Json& size : shape.as_array()) sizes.push_back(cat(size.as_integer()));
  return cat("[", join(sizes, ", "), "]");
}

std::string source_text(const Json& source) {
  if (source.is_string()) return source.as_string();
  const Json::Array& bytes = source.find("bytes")->as_array();
  return cat(source.find("tensor")->as_string(), " ", source.find("dtype")->as_string(), " ", source.find("file")->as_string(), ":",
             bytes[0].as_integer(), "-", bytes[1].as_integer());
}

/// Opens the module path of `name` below the modules that are open already: one line a new module, two spaces a level.
void open_modules(std::string& out, std::vector<std::string>& open, const std::vector<std::string>& path) {
  size_t common = 0;
  while (common < open.size() && common + 1 < path.size() && open[common] == path[common]) ++common;
  open.resize(common);
  for (size_t level = common; level + 1 < path.size(); ++level) {
    out += cat(std::string(2 * level + 2, ' '), path[level], "\n");
    open.push_back(path[level]);
  }
}

void append_parameters(std::string& out, const Json& plan) {
  std::vector<std::string> open;
  for (const Json& param : plan.find("parameters")->as_array()) {
    const std::vector<std::string> path = split(param.find("name")->as_string(), '.');
    open_modules(out, open, path);
    std::vector<std::string> sources;
    for (const Json& source : param.find("sources")->as_array()) sources.push_back(source_text(source));
    out += cat(std::string(2 * path.size(), ' '), path.back(), "  local ", shape_text(*param.find("local")), " of ",
               shape_text(*param.find("global")), "  ", param.find("dtype")->as_string(), "  ", param.find("rule")->as_string(), "  <- ",
               join(sources, ", "), "\n");
  }
}

}  // namespace

Result<Json> inspect_json(const ModelPlan& plan, const MemoryPlan& memory) {
  Json out, parameters = Json::array(), stages = Json::array();
  int64_t total = 0;
  for (const ParamLoad& load : plan.load.loads) {
    LAMINA_ASSIGN(Json parameter, parameter_json(load, plan.source->checkpoint ? &*plan.source->checkpoint : nullptr));
    parameters.push(std::move(parameter));
    total += load.param->on_disk_elements();
  }
  for (const BoundarySummary& summary : plan.built.stack->summaries()) {
    Json line;
    line.set("stage", summary.stage);
    line.set("plan", summary.plan);
    stages.push(std::move(line));
  }
  out.set("class", plan.built.architecture);
  out.set("ranks", 1);
  out.set("layers", plan.source->config.num_hidden_layers);
  out.set("context_length", plan.source->context_length);
  out.set("dtype", torch_dtype_name(plan.source->dtype));
  out.set("tied", plan.source->config.tie_word_embeddings);
  out.set("parameter_total", total);
  out.set("parameters", std::move(parameters));
  out.set("skipped", skipped_json(plan.load.report));
  out.set("stages", std::move(stages));
  out.set("kv", kv_json(plan, memory));
  out.set("memory", memory_json(memory));
  return out;
}

std::string inspect_text(const Json& plan) {
  const Json& kv = *plan.find("kv");
  const Json& memory = *plan.find("memory");
  const auto size = [&](const char* key) { return size_string(static_cast<uint64_t>(memory.find(key)->as_integer())); };
  std::string out = cat(plan.find("class")->as_string(), ", 1 rank, ", plan.find("layers")->as_integer(), " layers, context ",
                        plan.find("context_length")->as_integer(), ", ", plan.find("dtype")->as_string(),
                        plan.find("tied")->as_bool() ? ", head tied to model.embed_tokens" : "",
                        "\n\nparameters: ", plan.find("parameter_total")->as_integer(), "\n");
  append_parameters(out, plan);
  if (!plan.find("skipped")->as_array().empty()) out += "\nskipped tensors\n";
  for (const Json& skipped : plan.find("skipped")->as_array()) {
    out += cat("  ", skipped.find("tensor")->as_string(), ": ", skipped.find("reason")->as_string(), "\n");
  }
  out += "\nboundaries\n";
  for (const Json& stage : plan.find("stages")->as_array()) {
    out += cat("  ", stage.find("stage")->as_string(), ": ", stage.find("plan")->as_string(), "\n");
  }
  out += cat("\nKV: ", kv.find("kv_heads")->as_integer(), " heads a layer, ", kv.find("bytes_per_token")->as_integer(),
             " bytes a token in ", kv.find("dtype")->as_string(), "\nmemory: weights ", size("weights"), ", step ", size("step"),
             ", stages ", size("stages"), ", KV ", size("kv"), " (", memory.find("kv_tokens")->as_integer(), " tokens)\n");
  return out;
}

}  // namespace lamina
