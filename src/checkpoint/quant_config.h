#pragma once
// What a checkpoint says about its quantisation: quantization_config of config.json, or quantize_config.json or hf_quant_config.json beside
// it. Everything that no format here carries out is refused with the file, the key, the value and what is allowed.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "checkpoint/config.h"

namespace lamina {

/// How a layer's input is rounded before it is multiplied.
struct InputQuant {
  enum class Type { kNone, kInt8, kFp8E4m3 };
  Type type = Type::kNone;
  bool from_checkpoint = false;  // one scale a tensor, input_scale; else computed from each row
  int64_t run = 0;               // computed: neighbouring inputs that share a scale; 0: the whole row
  bool power_of_two = false;     // computed: scales are rounded up to a power of two (UE8M0)

  friend bool operator==(const InputQuant&, const InputQuant&) = default;
};

/// How the weights of a module are stored.
struct QuantScheme {
  enum class Layout {
    kFp8,     // weight e4m3 [N, K]
    kInt8,    // weight int8 [N, K]
    kPacked,  // compressed-tensors pack-quantized: weight_packed [N, ceil(K * bits / 32)] words of 32 bits
    kGptq,    // qweight [ceil(K * bits / 32), N] words of 32 bits
    kAwq,     // qweight [K, N / 8] words of eight 4-bit codes
    kFp4,     // e2m1 pairs, weight_packed [N, ceil(K / 2)]; ModelOpt calls it weight
  };
  enum class Scale {
    kFloat,  // f32, f16 or bf16; where the file's type says so, F8_E8M0
    kE8m0,   // one byte, 2^(s - 127), of type U8 or F8_E8M0
    kE4m3,   // e4m3, times one f32 a tensor
  };
  Layout layout = Layout::kFp8;
  int bits = 8;
  int64_t scale_rows = 1;  // rows that share a scale; 0: all of the tensor
  int64_t scale_cols = 0;  // neighbouring inputs that share a scale; 0: all
  Scale scale = Scale::kFloat;
  bool symmetric = true;          // no zero points but the middle of the range
  bool act_order = false;         // inputs are assigned to groups by g_idx
  bool zero_is_less_one = false;  // GPTQ v1: a stored zero point is one less than it is
  bool modelopt = false;          // tensor names of ModelOpt: weight_scale_2 multiplies; else weight_global_scale divides
  InputQuant input;

  /// "gptq 4 bit, groups of 128", "fp8, one scale"
  std::string describe() const;
  friend bool operator==(const QuantScheme&, const QuantScheme&) = default;
};

/// Modules a rule is about. Names are those of the checkpoint, whole components; alternatives are the names one module may go by.
struct ModulePattern {
  enum class Kind {
    kComponents,  // a run of whole components: "self_attn.q_proj"
    kExact,
    kRegex,  // matches from the start of the name on, as Python's re.match
    kGlob,   // * stands for any characters; the whole name
    kClass,  // "Linear" or "Embedding"
  };
  Kind kind = Kind::kComponents;
  std::string text;
};

class QuantConfig {
 public:
  struct Module {
    std::vector<std::string> names;  // alternatives
    bool embedding = false;
    bool head = false;
  };
  enum class Answer { kPlain, kQuantised, kUndecided };  // kUndecided: the files say (heads and embeddings)
  struct Decision {
    Answer answer = Answer::kPlain;
    const QuantScheme* scheme = nullptr;  // unless kPlain; lives in the config
  };
  Decision decide(const Module& module) const;

  const std::string& method() const { return method_; }  // "gptq"
  const std::string& source() const { return source_; }  // the file, for messages
  /// Whether any scheme rounds inputs.
  bool rounds_inputs() const;
  /// The checkpoint's KV cache was calibrated for FP8 with scales of its own.
  bool fp8_kv_cache() const { return fp8_kv_cache_; }

  struct Rule {
    std::vector<ModulePattern> targets;
    std::optional<QuantScheme> scheme;  // none: plain
  };
  /// Of parse_quant_config only: rules by falling precedence, names before classes.
  struct Parts {
    std::string method, source;
    std::vector<Rule> rules;
    bool fp8_kv_cache = false;
  };
  explicit QuantConfig(Parts parts);

 private:
  std::string method_, source_;
  std::vector<Rule> rules_;
  bool fp8_kv_cache_ = false;
};

/// Reads a quantisation block. `what` names its file, `prefix` ("quantization_config.") goes before keys in messages.
Result<QuantConfig> parse_quant_config(const Json& block, std::string_view what, std::string_view prefix);

/// The block of `config`, or else of quantize_config.json or hf_quant_config.json in `folder`; nothing for a plain checkpoint.
Result<std::optional<QuantConfig>> load_quant_config(const ModelConfig& config, const std::string& folder);

/// An error when `pattern` is a regular expression that cannot be read.
Status check_pattern(const ModulePattern& pattern);
/// Whether any of the module's names (or its class) matches. The pattern has passed check_pattern.
bool matches(const ModulePattern& pattern, const QuantConfig::Module& module);

}  // namespace lamina
