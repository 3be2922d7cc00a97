#include "checkpoint/quant_block.h"

#include "base/check.h"

namespace lamina {

namespace {

using Layout = QuantScheme::Layout;

/// How weights or inputs become numbers of `bits` bits.
Json numbers(int64_t bits, const char* type, const char* strategy, bool dynamic) {
  Json out;
  out.set("num_bits", bits);
  out.set("type", type);
  out.set("symmetric", true);
  out.set("strategy", strategy);
  out.set("group_size", nullptr);
  out.set("block_structure", nullptr);
  out.set("dynamic", dynamic);
  out.set("actorder", nullptr);
  return out;
}

const char* format_of(const QuantScheme& scheme) {
  const bool by_row = scheme.scale_rows == 1 && scheme.scale_cols == 0;
  if (scheme.layout == Layout::kInt8 && by_row) return "int-quantized";
  if (scheme.layout == Layout::kFp8 && by_row) return "float-quantized";
  LAMINA_CHECK(scheme.layout == Layout::kPacked && scheme.bits == 4 && scheme.symmetric && scheme.scale_cols > 0,
               "a scheme that is written");
  return "pack-quantized";
}

}  // namespace

Json compressed_tensors_block(const QuantScheme& scheme, const std::vector<std::string>& ignore) {
  LAMINA_CHECK(!scheme.input.from_checkpoint && scheme.input.run == 0, "scales of inputs are computed from rows");
  const char* const format = format_of(scheme);
  const char* const type = scheme.layout == Layout::kFp8 ? "float" : "int";
  Json weights = numbers(scheme.bits, type, scheme.scale_cols > 0 ? "group" : "channel", false);
  if (scheme.scale_cols > 0) weights.set("group_size", scheme.scale_cols);
  Json group;
  group.set("targets", Json::Array{"Embedding", "Linear"});
  group.set("weights", std::move(weights));
  const bool plain_inputs = scheme.input.type == InputQuant::Type::kNone;
  group.set("input_activations", plain_inputs ? Json() : numbers(8, type, "token", true));
  group.set("output_activations", nullptr);
  Json names = Json::array();
  for (const std::string& name : ignore) names.push(name);
  Json out;
  out.set("quant_method", "compressed-tensors");
  out.set("format", format);
  out.set("quantization_status", "compressed");
  out.set("config_groups", Json::Object{{"group_0", std::move(group)}});
  out.set("ignore", std::move(names));
  out.set("kv_cache_scheme", nullptr);
  return out;
}

}  // namespace lamina
