#pragma once
// Embeddings of requests from hidden states.

#include "layers/context.h"

namespace lamina {

enum class PoolingType { kLast, kCls, kMean };

/// Pools each sequence's real rows. `dimensions` > 0 truncates before normalising (matryoshka).
class Pooler {
 public:
  Pooler(PoolingType type, bool normalize) : type_(type), normalize_(normalize) {}
  /// hidden [rows, width] after the final norm, rows as in the batch -> out[i] for the i-th sequence with `pool` set: the first
  /// min(width, dimensions) values (all of them when dimensions is 0), of length 1 when normalised (zero stays zero). Sums in f64.
  /// CLS and MEAN need all rows of a request in one step (a CHECK); LAST only the last.
  void forward(const ForwardBatch& batch, ConstF32View hidden, F32View out, int64_t dimensions = 0) const;

 private:
  PoolingType type_;
  bool normalize_;
};

}  // namespace lamina
