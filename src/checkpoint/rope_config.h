#pragma once
// The rotary settings of a config, resolved: v4 (rope_theta, rope_scaling) and v5 (rope_parameters) spellings, defaults filled in.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/config_reader.h"

namespace lamina {

enum class RopeType { kDefault, kLinear, kDynamic, kLlama3, kYarn, kDeepseekYarn, kLongRope };
/// The spelling in configs: "default", "linear", ...
const char* rope_type_name(RopeType type);

/// The settings of one rotary table. Fields have the meaning of their Hugging Face keys; which ones count depends on `type`.
struct RopeConfig {
  RopeType type = RopeType::kDefault;
  double theta = 10000.0;
  int64_t rotary_dim = 0;  // leading elements of a head that rotate: int(partial_rotary_factor * head_dim), even; the factor is used up
  int64_t max_position_embeddings = 0;
  double factor = 1.0;                           // longrope: max_position_embeddings / original_max_position_embeddings
  int64_t original_max_position_embeddings = 0;  // max_position_embeddings where the config gives none
  double low_freq_factor = 1.0;                  // llama3
  double high_freq_factor = 4.0;                 // llama3
  double beta_fast = 32.0;                       // yarn, as the next lines
  double beta_slow = 1.0;
  double extrapolation_factor = 1.0;
  double attn_factor = 1.0;
  bool truncate = true;
  std::optional<double> attention_factor;  // yarn, longrope: the factor on cos and sin, instead of the computed one
  std::optional<double> mscale;            // yarn
  std::optional<double> mscale_all_dim;    // yarn
  std::optional<double> alpha;             // dynamic: fixed NTK base instead of one that grows
  std::vector<double> short_factor;        // longrope, [rotary_dim / 2]
  std::vector<double> long_factor;         // longrope, [rotary_dim / 2]
  std::optional<double> short_mscale;      // longrope
  std::optional<double> long_mscale;       // longrope

  /// Positions the model was made for: max_position_embeddings, which already holds a scaled length, except that yarn reaches
  /// original * factor where that is more, and dynamic reaches max_position_embeddings * factor.
  int64_t context_length() const;
  friend bool operator==(const RopeConfig&, const RopeConfig&) = default;
};

/// What a rope needs to know of the model it belongs to.
struct RopeContext {
  int64_t head_dim = 0;
  int64_t max_position_embeddings = 0;
  double default_theta = 10000.0;
};

/// All rope settings of a config: `config` reads the model's object. One entry under the key "" when every layer shares it, else one
/// for each layer type of a nested rope_parameters. Errors: an unknown type (lists the known), missing or impossible values.
Result<std::map<std::string, RopeConfig>> parse_rope(const ConfigReader& config, const RopeContext& context);

}  // namespace lamina
