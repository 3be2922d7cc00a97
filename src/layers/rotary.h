#pragma once
// Rotary position embedding (Su et al. 2021) in every scaling variant of the LLaMA family; formulas as transformers' modeling_rope_utils.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/types.h"
#include "layers/context.h"

namespace lamina {

enum class RopeKind { kDefault, kLinear, kDynamic, kDynamicAlpha, kLlama3, kYarn, kDeepseekYarn, kLongrope };

/// Everything that decides a table; equal specs share one object.
struct RotarySpec {
  RopeKind kind = RopeKind::kDefault;
  double theta = 10000.0;
  int head_dim = 0;
  int rotary_dim = 0;  // first dims of each head that rotate; even
  bool neox = true;
  int64_t max_position = 0;
  double factor = 1.0;
  int64_t original_max_position = 0;
  double low_freq_factor = 1.0, high_freq_factor = 4.0;  // llama3
  double beta_fast = 32.0, beta_slow = 1.0;              // yarn
  double extrapolation_factor = 1.0, attn_factor = 1.0;  // yarn
  bool truncate = true;                                  // yarn
  std::optional<double> attention_factor;                // yarn, longrope: given magnitude of cos and sin
  std::optional<double> mscale, mscale_all_dim;          // yarn as DeepSeek spells it
  double alpha = 1.0;                                    // dynamic with alpha
  std::vector<double> short_factor, long_factor;         // longrope, rotary_dim / 2 each

  friend bool operator==(const RotarySpec&, const RotarySpec&) = default;
};

/// The frequencies of one spec. Immutable.
class RotaryEmbedding {
 public:
  /// Errors name the key that does not fit.
  static Result<RotaryEmbedding> create(RotarySpec spec);

  const RotarySpec& spec() const { return spec_; }
  RopeLengthRule length_rule() const;
  /// The last length that has the plain table; a request that is longer has another. longrope: the original length; dynamic NTK:
  /// max_position; 0 for kinds that do not depend on length.
  int64_t threshold() const;
  /// Writes rotary_dim / 2 inverse frequencies for a request of `rope_length`.
  void inverse_frequencies(int64_t rope_length, double* out) const;
  /// Factor on cos and sin.
  double magnitude() const { return magnitude_; }
  /// cos_sin[t] = magnitude * (cos(p_t * inv_i)..., sin(p_t * inv_i)...) in f64, rounded once. [rows, rotary_dim]; positions has one entry
  /// a row, without an upper limit (tables are computed, not stored).
  void fill(const int64_t* positions, int64_t rope_length, F32View cos_sin) const;

 private:
  explicit RotaryEmbedding(RotarySpec spec);
  /// Inverse frequency `i` for a request longer than threshold().
  double long_frequency(size_t i, int64_t rope_length) const;

  RotarySpec spec_;
  std::vector<double> frequencies_;  // [rotary_dim / 2], of requests up to threshold()
  double magnitude_ = 1.0;
};

/// The distinct embeddings of a model. Tables of a step are computed once and shared by all layers of a kind.
class RotarySet {
 public:
  /// Index of the embedding of `spec`, made at first use. Not after the first prepare(). A request has one rope_length: a second embedding
  /// that depends on length, by another rule or threshold, is an error.
  Result<int> add(const RotarySpec& spec);
  const RotaryEmbedding& at(int index) const { return embeddings_[static_cast<size_t>(index)]; }
  int size() const { return static_cast<int>(embeddings_.size()); }
  /// Of the embeddings that depend on length; kNone and 0 without any.
  RopeLengthRule length_rule() const { return length_rule_; }
  int64_t threshold() const { return threshold_; }

  /// Computes [rows, rotary_dim] of every embedding for the batch into step memory, each sequence by its own rope_length; rows of
  /// padding are zero. Does not allocate.
  void prepare(ForwardContext& ctx);
  /// The step's table of embedding `index`; after prepare().
  ConstF32View table(int index) const { return tables_[static_cast<size_t>(index)]; }
  /// Rotates `heads` heads of each row of x [rows, heads * head_dim] in place by the step's table of embedding `index`.
  void rotate(ForwardContext& ctx, int index, F32View x, int heads) const;
  /// Step memory that prepare() takes for `rows`.
  size_t step_bytes(int64_t rows) const;

 private:
  std::vector<RotaryEmbedding> embeddings_;
  std::vector<F32View> tables_;
  RopeLengthRule length_rule_ = RopeLengthRule::kNone;
  int64_t threshold_ = 0;
};

}  // namespace lamina
