#include "layers/pooler.h"

#include <algorithm>
#include <cmath>

namespace lamina {
namespace {

/// The real rows that are averaged: all for MEAN, else one.
ConstF32View pooled_rows(PoolingType type, const BatchSequence& sequence, ConstF32View hidden) {
  LAMINA_CHECK(sequence.row_count > 0, "pooling a sequence without rows");
  if (type == PoolingType::kLast) return hidden.slice(sequence.row_begin + sequence.row_count - 1, 1);
  LAMINA_CHECK(sequence.prefix_len == 0, "CLS and MEAN pooling need all rows of a request in one step");
  return hidden.slice(sequence.row_begin, type == PoolingType::kCls ? 1 : sequence.row_count);
}

double column_mean(ConstF32View rows, int64_t column) {
  double sum = 0;
  for (int64_t r = 0; r < rows.rows; ++r) sum += rows.at(r, column);
  return sum / static_cast<double>(rows.rows);
}

}  // namespace

void Pooler::forward(const ForwardBatch& batch, ConstF32View hidden, F32View out, int64_t dimensions) const {
  const int64_t width = dimensions > 0 ? std::min(dimensions, hidden.cols) : hidden.cols;
  LAMINA_CHECK(out.cols >= width, "pooling: too few output columns");
  int64_t next = 0;
  for (const BatchSequence& sequence : batch.sequences) {
    if (!sequence.pool) continue;
    LAMINA_CHECK(next < out.rows, "pooling: too few output rows");
    const ConstF32View rows = pooled_rows(type_, sequence, hidden);
    float* pooled = out.row(next++);
    double scale = 1.0;
    if (normalize_) {
      double squares = 0;
      for (int64_t c = 0; c < width; ++c) squares += column_mean(rows, c) * column_mean(rows, c);
      constexpr double kSmallestLength = 1e-12;  // as torch.nn.functional.normalize
      scale = 1.0 / std::max(std::sqrt(squares), kSmallestLength);
    }
    for (int64_t c = 0; c < width; ++c) pooled[c] = static_cast<float>(column_mean(rows, c) * scale);
  }
}

}  // namespace lamina
