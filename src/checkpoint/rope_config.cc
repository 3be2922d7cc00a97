#include "checkpoint/rope_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/strings.h"

namespace lamina {

namespace {

constexpr int64_t kMaxPositions = int64_t{1} << 30;

struct TypeName {
  std::string_view name;
  RopeType type;
};
// The first spelling of a type is its name; "su" is what the first Phi-3 configs call longrope.
constexpr std::array<TypeName, 8> kTypes = {{{"default", RopeType::kDefault},
                                             {"linear", RopeType::kLinear},
                                             {"dynamic", RopeType::kDynamic},
                                             {"llama3", RopeType::kLlama3},
                                             {"yarn", RopeType::kYarn},
                                             {"deepseek_yarn", RopeType::kDeepseekYarn},
                                             {"longrope", RopeType::kLongRope},
                                             {"su", RopeType::kLongRope}}};

bool is_yarn(RopeType type) { return type == RopeType::kYarn || type == RopeType::kDeepseekYarn; }

/// The model's object and the object that holds the scaling: rope_scaling, rope_parameters or one layer type's part of it.
struct Sources {
  const ConfigReader& config;
  const ConfigReader& rope;
};

Result<RopeType> parse_type(const ConfigReader& rope, bool type_required) {
  LAMINA_ASSIGN(std::optional<std::string> name, rope.optional<std::string>({"rope_type", "type"}));
  if (!name) {
    if (type_required) return rope.fault("rope_type", "is missing, and so is \"type\"");
    return RopeType::kDefault;
  }
  std::vector<std::string> known;
  for (const TypeName& entry : kTypes) {
    if (entry.name == *name) return entry.type;
    known.emplace_back(entry.name);
  }
  return rope.fault(rope.has({"rope_type"}) ? "rope_type" : "type",
                    cat("is \"", *name, "\", which is not supported; supported: ", join(known, ", ")));
}

Status read_rotary_dim(const Sources& from, int64_t head_dim, RopeConfig& out) {
  LAMINA_ASSIGN(std::optional<double> inner, from.rope.optional<double>({"partial_rotary_factor"}));
  LAMINA_ASSIGN(double partial, from.config.value_or<double>({"partial_rotary_factor"}, 1.0));
  partial = inner.value_or(partial);
  if (!(partial > 0 && partial <= 1)) {
    return (inner ? from.rope : from.config).fault("partial_rotary_factor", cat("is ", partial, ", wanted more than 0 and at most 1"));
  }
  out.rotary_dim = static_cast<int64_t>(partial * static_cast<double>(head_dim));
  if (out.rotary_dim < 2 || out.rotary_dim % 2 != 0) {
    return from.config.fault("partial_rotary_factor", cat("times head_dim (", partial, " * ", head_dim, ") gives ", out.rotary_dim,
                                                          " rotated elements, wanted an even number of at least 2"));
  }
  return {};
}

/// Where the original length comes from: the scaling object, else the top level (Phi-3), else nothing.
Result<std::optional<int64_t>> read_original(const Sources& from) {
  LAMINA_ASSIGN(std::optional<int64_t> inner, from.rope.optional_in({"original_max_position_embeddings"}, 1, kMaxPositions));
  if (inner) return inner;
  return from.config.optional_in({"original_max_position_embeddings"}, 1, kMaxPositions);
}

Result<double> read_factor(const ConfigReader& rope) {
  LAMINA_ASSIGN(double factor, rope.required<double>({"factor"}));
  if (!(factor >= 1 && factor <= 1e6)) return rope.fault("factor", cat("is ", factor, ", allowed are 1 to 1000000"));
  return factor;
}

Status read_llama3(const Sources& from, RopeConfig& out) {
  LAMINA_ASSIGN(out.factor, read_factor(from.rope));
  LAMINA_ASSIGN(out.low_freq_factor, from.rope.required<double>({"low_freq_factor"}));
  LAMINA_ASSIGN(out.high_freq_factor, from.rope.required<double>({"high_freq_factor"}));
  if (!(out.low_freq_factor > 0 && out.low_freq_factor <= out.high_freq_factor)) {
    return from.rope.fault("low_freq_factor", cat("is ", out.low_freq_factor, ", wanted more than 0 and at most high_freq_factor (",
                                                  out.high_freq_factor, ")"));
  }
  LAMINA_ASSIGN(std::optional<int64_t> original, read_original(from));
  if (!original) return from.rope.fault("original_max_position_embeddings", "is missing, llama3 needs it");
  out.original_max_position_embeddings = *original;
  return {};
}

Status read_yarn(const Sources& from, RopeConfig& out) {
  const ConfigReader& rope = from.rope;
  LAMINA_ASSIGN(std::optional<int64_t> original, read_original(from));
  out.original_max_position_embeddings = original.value_or(out.max_position_embeddings);
  if (rope.has({"factor"}) || !original) {
    LAMINA_ASSIGN(out.factor, read_factor(rope));
  } else {
    out.factor = static_cast<double>(out.max_position_embeddings) / static_cast<double>(*original);
  }
  LAMINA_ASSIGN(out.beta_fast, rope.positive_or({"beta_fast"}, out.beta_fast));
  LAMINA_ASSIGN(out.beta_slow, rope.positive_or({"beta_slow"}, out.beta_slow));
  if (out.beta_fast < out.beta_slow) {
    return rope.fault("beta_fast", cat("is ", out.beta_fast, ", wanted at least beta_slow (", out.beta_slow, ")"));
  }
  LAMINA_ASSIGN(out.extrapolation_factor, rope.value_or<double>({"extrapolation_factor"}, out.extrapolation_factor));
  LAMINA_ASSIGN(out.attn_factor, rope.positive_or({"attn_factor"}, out.attn_factor));
  LAMINA_ASSIGN(out.truncate, rope.value_or<bool>({"truncate"}, out.truncate));
  LAMINA_ASSIGN(out.mscale, rope.optional<double>({"mscale"}));
  LAMINA_ASSIGN(out.mscale_all_dim, rope.optional<double>({"mscale_all_dim"}));
  return {};
}

Result<std::vector<double>> read_factors(const ConfigReader& rope, std::string_view key, int64_t rotary_dim) {
  LAMINA_ASSIGN(std::vector<double> factors, rope.required<std::vector<double>>({key}));
  if (static_cast<int64_t>(factors.size()) != rotary_dim / 2) {
    return rope.fault(
        key, cat("has ", factors.size(), " numbers, wanted ", rotary_dim / 2, ", half of the ", rotary_dim, " rotated elements of a head"));
  }
  for (double factor : factors) {
    if (!(factor > 0)) return rope.fault(key, cat("holds ", factor, ", wanted numbers greater than 0"));
  }
  return factors;
}

Status read_longrope(const Sources& from, RopeConfig& out) {
  const ConfigReader& rope = from.rope;
  LAMINA_ASSIGN(out.short_factor, read_factors(rope, "short_factor", out.rotary_dim));
  LAMINA_ASSIGN(out.long_factor, read_factors(rope, "long_factor", out.rotary_dim));
  LAMINA_ASSIGN(std::optional<int64_t> original, read_original(from));
  if (!original) return rope.fault("original_max_position_embeddings", "is missing here and at the top level, longrope needs it");
  if (*original < 2) return rope.fault("original_max_position_embeddings", cat("is ", *original, ", wanted at least 2"));
  out.original_max_position_embeddings = *original;
  out.factor = static_cast<double>(out.max_position_embeddings) / static_cast<double>(*original);
  LAMINA_ASSIGN(out.short_mscale, rope.optional<double>({"short_mscale"}));
  LAMINA_ASSIGN(out.long_mscale, rope.optional<double>({"long_mscale"}));
  return {};
}

Status read_linear(const ConfigReader& rope, RopeConfig& out) {
  LAMINA_ASSIGN(out.factor, read_factor(rope));
  return {};
}

Status read_dynamic(const ConfigReader& rope, RopeConfig& out) {
  LAMINA_ASSIGN(std::optional<double> alpha, rope.optional<double>({"alpha"}));
  if (alpha && !(*alpha > 0)) return rope.fault("alpha", cat("is ", *alpha, ", wanted a number greater than 0"));
  out.alpha = alpha;
  if (alpha && !rope.has({"factor"})) return {};
  LAMINA_ASSIGN(out.factor, read_factor(rope));
  return {};
}

Status read_scaling(const Sources& from, RopeConfig& out) {
  switch (out.type) {
    case RopeType::kDefault:
      return {};
    case RopeType::kLinear:
      return read_linear(from.rope, out);
    case RopeType::kDynamic:
      return read_dynamic(from.rope, out);
    case RopeType::kLlama3:
      return read_llama3(from, out);
    case RopeType::kYarn:
    case RopeType::kDeepseekYarn:
      return read_yarn(from, out);
    case RopeType::kLongRope:
      return read_longrope(from, out);
  }
  return {};
}

Result<RopeConfig> parse_one(const Sources& from, const RopeContext& context, bool type_required) {
  RopeConfig out;
  out.max_position_embeddings = context.max_position_embeddings;
  out.original_max_position_embeddings = context.max_position_embeddings;
  LAMINA_ASSIGN(out.type, parse_type(from.rope, type_required));
  LAMINA_ASSIGN(std::optional<double> inner_theta, from.rope.optional<double>({"rope_theta"}));
  LAMINA_ASSIGN(double theta, from.config.value_or<double>({"rope_theta"}, context.default_theta));
  out.theta = inner_theta.value_or(theta);
  if (!(out.theta > 1)) return (inner_theta ? from.rope : from.config).fault("rope_theta", cat("is ", out.theta, ", wanted more than 1"));
  LAMINA_TRY(read_rotary_dim(from, context.head_dim, out));
  LAMINA_TRY(read_scaling(from, out));
  if (is_yarn(out.type) || out.type == RopeType::kLongRope) {
    LAMINA_ASSIGN(std::optional<double> attention_factor, from.rope.optional<double>({"attention_factor"}));
    if (attention_factor && !(*attention_factor > 0)) {
      return from.rope.fault("attention_factor", cat("is ", *attention_factor, ", wanted a number greater than 0"));
    }
    out.attention_factor = attention_factor;
  }
  return out;
}

bool is_nested(const Json& parameters) {
  return std::ranges::any_of(parameters.as_object(), [](const Json::Member& member) { return member.second.is_object(); });
}

}  // namespace

const char* rope_type_name(RopeType type) {
  for (const TypeName& entry : kTypes) {
    if (entry.type == type) return entry.name.data();
  }
  return "";
}

int64_t RopeConfig::context_length() const {
  const auto scaled = [this](int64_t length) { return static_cast<int64_t>(static_cast<double>(length) * factor); };
  if (is_yarn(type)) return std::max(max_position_embeddings, scaled(original_max_position_embeddings));
  if (type == RopeType::kDynamic && !alpha) return scaled(max_position_embeddings);
  return max_position_embeddings;
}

Result<std::map<std::string, RopeConfig>> parse_rope(const ConfigReader& config, const RopeContext& context) {
  std::map<std::string, RopeConfig> out;
  LAMINA_ASSIGN(std::optional<ConfigReader> parameters, config.object({"rope_parameters"}));
  LAMINA_ASSIGN(std::optional<ConfigReader> scaling, config.object({"rope_scaling"}));
  const auto is_empty = [](const std::optional<ConfigReader>& reader) { return !reader || reader->json().as_object().empty(); };
  if (!is_empty(parameters) && is_nested(parameters->json())) {
    for (const auto& [layer_type, value] : parameters->json().as_object()) {
      LAMINA_ASSIGN(std::optional<ConfigReader> rope, parameters->object({layer_type}));
      if (!rope) return parameters->fault(layer_type, "is null, wanted an object");
      LAMINA_ASSIGN(out[layer_type], parse_one({config, *rope}, context, false));
    }
    return out;
  }
  const bool v5 = !is_empty(parameters);
  const Json none = Json::object();
  const ConfigReader absent(none, "");
  const ConfigReader& rope = v5 ? *parameters : is_empty(scaling) ? absent : *scaling;
  LAMINA_ASSIGN(out[""], parse_one({config, rope}, context, !v5 && !is_empty(scaling)));
  return out;
}

}  // namespace lamina
