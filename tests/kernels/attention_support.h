#pragma once
// A paged pool for one layer, full of NaN where nothing was stored, and the float64 oracle.

#include "tests/kernels/support.h"

namespace lamina::kernels::testing {

/// Options and sizes of one attention problem. `tokens` keys exist; the last `queries` of them are asked.
struct AttentionCase {
  int q_heads = 4, kv_heads = 2;
  int qk_dim = 64, v_dim = 64;
  DType kv_dtype = DType::kBF16;
  bool head_scales = false;  // kI8: a scale for each head of each slot, else those below
  bool exact = false;
  int64_t page_size = 16;
  int64_t tokens = 100, queries = 100;
  int64_t window = -1;
  float cap = 0.0F;
  AttentionMask mask = AttentionMask::kCausal;
};
inline constexpr float kKeyScale = 0.0117F, kValueScale = 0.0293F;  // of the layer, in 8 bits
std::string describe(const AttentionCase& c);

/// Queries, keys and values of one request (the same for every paging of it), in the precision the kernel is given.
struct AttentionData {
  AttentionData(Random& random, const AttentionCase& c);
  std::vector<float> q;  // [tokens, q_heads * qk_dim]
  std::vector<float> k;  // [tokens, kv_heads * qk_dim]
  std::vector<float> v;  // [tokens, kv_heads * v_dim]
};

/// Queries [begin, end) and the number of keys they may see.
struct Ask {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t kv_len = 0;
};

/// Pages of one request in a random order; slots are NaN until stored.
class PagedRequest {
 public:
  PagedRequest(Random& random, const AttentionCase& c);
  /// Stores the keys and values of tokens [begin, end).
  void store(const Kernels& kernels, const AttentionData& data, int64_t begin, int64_t end);
  /// Attention of the queries of `ask` into out [tokens, q_heads * v_dim].
  void attend(const Kernels& kernels, ThreadTeam& team, const AttentionData& data, Ask ask, std::vector<float>& out) const;

 private:
  AttentionCase case_;
  std::vector<int32_t> pages_;
  KvTarget target(Buffer& buffer, Buffer& scales, int dim, float scale) const;
  KvSource source(const Buffer& buffer, const Buffer& scales, int dim, float scale) const;
  Buffer keys_, values_;
  Buffer key_scales_, value_scales_;
};

/// The oracle's answer for one query row and head, and how far rounding may lead from it.
struct AttentionRow {
  std::vector<double> out;    // [v_dim]
  std::vector<double> bound;  // [v_dim]
};
/// `operand_rounding`: relative rounding of queries and softmax weights (0 or 2^-8).
AttentionRow exact_attention(const AttentionCase& c, const AttentionData& data, int64_t token, int head, double operand_rounding);

}  // namespace lamina::kernels::testing
