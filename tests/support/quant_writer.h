#pragma once
// Made-up quantised layers in the layouts that checkpoints are published in, with the matrices they stand for. Shares no code with src/.

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/toy_model.h"

namespace lamina::fixture {

struct QuantRecipe {
  enum class Kind {
    kFp8,        // one scale a tensor
    kFp8Static,  // and one for the inputs
    kFp8Channel,
    kFp8Block,
    kMxfp8,
    kInt8,
    kPacked,  // compressed-tensors, 4 or 8 bits
    kGptq,
    kAwq,
    kMxfp4,
    kNvfp4,
    kNvfp4ModelOpt,
  };
  Kind kind = Kind::kFp8;
  int bits = 4;
  int64_t group = 32;  // 0: one for all inputs; of kFp8Block the columns of a block
  int64_t block_rows = 16;
  bool symmetric = true;
  bool act_order = false;
  bool v2 = false;          // GPTQ: zero points as they are
  int zero = -1;            // this zero point everywhere; -1: by symmetric
  std::string inputs = {};  // compressed-tensors: "int" or "float", in 8 bits with a scale a row; empty: plain

  std::string name() const;  // for test names
};

/// Every kind, and the variants of those that have some.
std::vector<QuantRecipe> all_recipes();

struct QuantLayer {
  Tensors tensors;            // "<name>.qweight", ...
  std::vector<float> values;  // [n, k], what they stand for
};
/// Codes and scales depend on `name` alone. Values are about 1 / sqrt(k) in size.
QuantLayer quant_layer(const QuantRecipe& recipe, const std::string& name, int64_t n, int64_t k);

/// The quantization_config that goes with it; the head stays plain.
Json quant_config(const QuantRecipe& recipe);

struct QuantToy {
  ToyModel model;       // every projection of every layer quantised, config included
  Tensors dequantised;  // the same in f32, for the oracle
};
QuantToy quant_toy(const QuantRecipe& recipe, const ToyShape& shape = {});
/// Replaces <module>.weight of both by a quantised layer and its values.
void quantise_module(QuantToy& toy, const QuantRecipe& recipe, const std::string& module);

/// A tensor of 32-bit words.
Tensor i32_tensor(std::vector<int64_t> shape, const std::vector<uint32_t>& words);

}  // namespace lamina::fixture
