#pragma once
// Attention of few rows, as in decoding: a vector's lanes are keys for the scores and columns for the values. The chains of additions are
// those of attention_lanes.h, so a row has the same bits here and there.

#include "kernels/vector/attention_block.h"
#include "kernels/vector/rows.h"

namespace lamina::kernels::vec {

template <class V, class Kv>
class RowAttention {
 public:
  using F = typename V::F;
  using Words = typename Kv::Words;
  static constexpr bool kTransposedKeys = true;

  RowAttention(const ItemRows<V>& item, const BlockWords<V>& words, ScratchCursor<V>& scratch)
      : item_(item), args_(item.args), words_(words) {
    const int64_t rows = item.item.kv_head_count * item.rows;
    scratch.take(queries_, rows * words.key_stride);
    scratch.take(sums_, rows * words.value_stride);
    scratch.take(maximum_, rows);
    scratch.take(scores_, kRows * kAttentionBlock);
    scratch.take(weights_, kRows * kWeightStride);
  }

  void begin(int head) {
    for (int64_t row = 0; row < item_.rows; ++row) {
      const int64_t state = head * item_.rows + row;
      const float* query = item_.query(row / item_.group, row % item_.group) + head * item_.group * args_.qk_dim;
      for (int64_t step = 0; step < words_.key_steps; step += V::kWidth)
        V::store_words(queries_ + state * words_.key_stride + step,
                       Kv::query_words(query, args_.qk_dim, step, least<V>(V::kWidth, words_.key_steps - step)), V::kWidth);
      for (int64_t c = 0; c < words_.value_stride; c += V::kWidth) V::store(sums_ + state * words_.value_stride + c, V::zero());
      maximum_[state] = kUnseen;
    }
  }

  void add_block(int64_t block, int head, BlockRows<V>& rows) {
    for (int64_t row = 0; row < item_.rows;) {
      const int64_t count = even_share<V>(item_.rows - row, kRows);
      add_tile(block, head, row, count, rows);
      row += count;
    }
  }

  void store_out(int head) {
    for (int64_t row = 0; row < item_.rows; ++row) {
      const float* sums = sums_ + (head * item_.rows + row) * words_.value_stride;
      const F inverse = inverse_total<V>(V::load(sums), args_.values.scale);
      with_row<V>(args_.out, 0, [&](auto* base) {
        auto* out = base + item_.out_index(row / item_.group, row % item_.group) + head * item_.group * args_.v_dim;
        each_vector<V>(args_.v_dim,
                       [&](int64_t c, auto width) { store<V>(out + c, weighted_mean<V>(V::load(sums + V::kWidth + c), inverse), width); });
      });
    }
  }

 private:
  static constexpr int kRows = 6;
  static constexpr int64_t kWeightStride = kAttentionBlock / Words::kDepth;

  void add_tile(int64_t block, int head, int64_t row, int64_t count, BlockRows<V>& rows) {
    const KeyRange range = item_.seen_in_block(block, row, row + count - 1);
    if (range.begin >= range.end) return;
    const int64_t state = head * item_.rows + row;
    const int64_t key = range.begin / V::kWidth * V::kWidth;
    word_rows<V, Words, TileStart::kZero, kRows>(count, (range.end - key + V::kWidth - 1) / V::kWidth,
                                                 {.x = queries_ + state * words_.key_stride,
                                                  .x_row = words_.key_stride,
                                                  .x_step = 1,
                                                  .w = words_.keys + key,
                                                  .w_step = kAttentionBlock,
                                                  .steps = words_.key_steps,
                                                  .out = scores_ + key,
                                                  .out_row = kAttentionBlock});
    rows.prefetch_lines(rows.lines() / 16 * count / item_.rows);
    float factor[kRows];
    for (int64_t r = 0; r < count; ++r) {
      rows.prefetch_lines(rows.lines() * 3 / 16 / item_.rows);
      factor[r] = soften(item_.seen_in_block(block, row + r, row + r), state + r, r);
    }
    rows.prefetch_lines(rows.lines() / 16 * count / item_.rows);
    const int64_t step = range.begin / Words::kDepth;
    word_rows<V, Words, TileStart::kRowFactor, kRows>(count, 1 + (args_.v_dim + V::kWidth - 1) / V::kWidth,
                                                      {.x = weights_ + step,
                                                       .x_row = kWeightStride,
                                                       .x_step = 1,
                                                       .w = words_.values + step * words_.value_stride,
                                                       .w_step = words_.value_stride,
                                                       .steps = (range.end + Words::kDepth - 1) / Words::kDepth - step,
                                                       .out = sums_ + state * words_.value_stride,
                                                       .out_row = words_.value_stride,
                                                       .factor = factor});
    rows.prefetch_lines(rows.lines() / 16 * count / item_.rows);
    if (words_.any_spoilt) add_spoilt(block, state, row, count);
  }

  /// Scores of row `r` of the tile to weights; sets its maximum and returns the factor by which its older sums shrink.
  float soften(KeyRange range, int64_t state, int64_t r) {
    F s[kAttentionBlock / V::kWidth];
    const bool masked = range.begin > 0 || range.end < kAttentionBlock;
#pragma GCC unroll 8
    for (int64_t i = 0; i < kAttentionBlock / V::kWidth; ++i) {
      s[i] = V::load(scores_ + r * kAttentionBlock + i * V::kWidth);
      if (args_.logit_cap > 0.0F) s[i] = item_.capped(s[i]);
      if (masked) s[i] = where_seen(range, i, s[i], V::set1(kUnseen));
    }
    F largest = s[0];
#pragma GCC unroll 8
    for (int64_t i = 1; i < kAttentionBlock / V::kWidth; ++i) largest = V::max(s[i], largest);
    const float before = maximum_[state];
    const float after = most<V>(before, V::max_lane(largest) * item_.unit);
    maximum_[state] = after;
#pragma GCC unroll 8
    for (int64_t i = 0; i < kAttentionBlock / V::kWidth; ++i) s[i] = V::fma(s[i], V::set1(item_.unit), V::set1(-after));
    exp2<V, Words>(s);
    if (masked)
#pragma GCC unroll 8
      for (int64_t i = 0; i < kAttentionBlock / V::kWidth; ++i) s[i] = where_seen(range, i, s[i], V::zero());
#pragma GCC unroll 8
    for (int64_t i = 0; i < kAttentionBlock / V::kWidth; i += 2)
      Kv::store_weights(weights_ + r * kWeightStride + i * V::kWidth / Words::kDepth, s[i], s[i + 1]);
    return V::lane0(exp2<V, Words>(V::set1(before - after)));
  }

  /// v in the lanes of vector `i` of the block's keys that lie in `range`, else `other`.
  static F where_seen(KeyRange range, int64_t i, F v, F other) {
    uint32_t lanes[V::kWidth];
    for (int64_t lane = 0; lane < V::kWidth; ++lane) lanes[lane] = static_cast<uint32_t>(i * V::kWidth + lane);
    const typename V::I key = V::load_words(lanes);
    const auto begin = V::set1_word(static_cast<uint32_t>(range.begin));
    const auto end = V::set1_word(static_cast<uint32_t>(most<V>(range.end, int64_t{0})));
    return V::select_less(key, end, V::select_less(key, begin, other, v), other);
  }

  void add_spoilt(int64_t block, int64_t state, int64_t row, int64_t count) {
    for (int64_t r = 0; r < count; ++r)
      for (int64_t column = 0; column < args_.v_dim; ++column)
        sums_[(state + r) * words_.value_stride + V::kWidth + column] +=
            spoilt_sum<V, Words>(words_, column, item_.seen_in_block(block, row + r, row + r), weights_ + r * kWeightStride, 1);
  }

  const ItemRows<V>& item_;
  const AttentionArgs& args_;
  const BlockWords<V>& words_;
  uint32_t* queries_ = nullptr;  // [heads, rows, key_stride]
  float* sums_ = nullptr;        // [heads, rows, value_stride]: the total of the weights, in each of kWidth lanes, then weighted values
  float* maximum_ = nullptr;     // [heads, rows]
  float* scores_ = nullptr;      // [kRows, 64]
  uint32_t* weights_ = nullptr;  // [kRows, 64 / depth]
};

}  // namespace lamina::kernels::vec
