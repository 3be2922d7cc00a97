#pragma once
// A decoder of the LLaMA family in double precision: one sequence, nothing cached, every position computed from scratch. It reads the
// tensors of a checkpoint by their Hugging Face names and shares no code with src/.

#include <cstdint>
#include <vector>

#include "tests/support/safetensors_writer.h"

namespace lamina::oracle {

/// The rotation of one layer: elements i and i + n of a head form pair i, n = frequencies.size(); elements from 2n on do not turn.
struct Rope {
  std::vector<double> frequencies;
  double magnitude = 1.0;  // factor on cos and sin
};
/// theta^(-2i / rotary_dim)
Rope plain_rope(double theta, int rotary_dim);
/// Positions divided by `factor`.
Rope linear_rope(double theta, int rotary_dim, double factor);
/// NTK-aware: the base for a sequence of `length` tokens, plain up to `max_position`.
Rope dynamic_rope(double theta, int rotary_dim, double factor, double max_position, double length);
/// Llama 3.1 with low_freq_factor 1 and high_freq_factor 4.
Rope llama3_rope(double theta, int rotary_dim, double factor, double original);
/// YaRN (Peng et al. 2023) with beta 32 and 1 and the magnitude 0.1 ln(factor) + 1.
Rope yarn_rope(double theta, int rotary_dim, double factor, double original);
/// Each frequency divided by its factor; magnitude sqrt(1 + ln(max_position / original) / ln(original)).
Rope long_rope(double theta, const std::vector<double>& factors, double max_position, double original);

struct Model {
  int64_t layers = 0, heads = 0, kv_heads = 0, head_dim = 0;
  double eps = 0;
  bool tied = false;             // logits by model.embed_tokens.weight
  std::vector<Rope> ropes;       // one for all layers, or one each
  std::vector<int64_t> windows;  // likewise: keys a query sees, itself included; 0: all of the past
};

/// Logits [tokens, vocab], row by row. Biases and q/k norms count where the checkpoint has them; q, k, v, gate and up are separate tensors.
std::vector<double> logits(const Model& model, const fixture::Tensors& checkpoint, const std::vector<int32_t>& tokens);

}  // namespace lamina::oracle
