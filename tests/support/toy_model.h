#pragma once
// T0: a small random LLaMA as a checkpoint folder, ready to be changed, and the oracle that belongs to it.

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "tests/support/oracle.h"
#include "tests/support/safetensors_writer.h"

namespace lamina::fixture {

struct ToyShape {
  int64_t vocab = 259, hidden = 64, heads = 4, kv_heads = 2, head_dim = 16, inner = 128, layers = 2;
  bool qkv_bias = false, o_bias = false, mlp_bias = false;
  bool qk_norm = false;
  bool tied = false;  // no lm_head.weight
};

/// A file's content by name; a tensor's values depend on its name and element alone, so that models of different shapes share weights.
struct ToyModel {
  Json config;
  Tensors tensors;

  /// config.json and the weights.
  void write(const TempFolder& folder, int shards = 1) const;
  /// Removes a key of the config.
  void drop(std::string_view key);
  /// Renames a tensor.
  void rename(const std::string& from, const std::string& to);
};

/// LlamaForCausalLM in f32 with rope_theta 10000 and max_position_embeddings 512; the config's flags follow the shape.
ToyModel toy_model(const ToyShape& shape = {});
/// The oracle's model of toy_model(shape).
oracle::Model toy_oracle(const ToyShape& shape = {});
/// Random tensor of deviation `deviation` around `mean`; the same for the same name.
Tensor random_tensor(std::string_view name, std::vector<int64_t> shape, double deviation, double mean = 0);
Tensor constant_tensor(std::vector<int64_t> shape, float value);

/// Token ids below `vocab` that look random, the same for every length.
std::vector<int32_t> toy_prompt(int length, int64_t vocab = 259);

/// tokenizer.json of `tokens` ids: byte-level, the ids 0 to 255 are the bytes, those above are added tokens "<256>", "<257>", ...
std::string toy_tokenizer(int tokens);

/// The largest absolute difference; infinite when sizes differ or a value is NaN.
double worst_difference(const std::vector<double>& wanted, const std::vector<float>& got);

}  // namespace lamina::fixture
