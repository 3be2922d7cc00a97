#pragma once
// Attention of many rows: a vector's lanes are query rows. Keys and values are the broadcast operand, so keys stay as they lie in the pool;
// maxima, exponentials and sums need no work across lanes.

#include "kernels/vector/attention_block.h"
#include "kernels/vector/rows.h"

namespace lamina::kernels::vec {

template <class V, class Kv>
class LaneAttention {
 public:
  using F = typename V::F;
  using Words = typename Kv::Words;
  static constexpr bool kTransposedKeys = false;

  LaneAttention(const ItemRows<V>& item, const BlockWords<V>& words, ScratchCursor<V>& scratch)
      : item_(item), args_(item.args), words_(words), lanes_(round_up<V>(item.rows, V::kWidth)) {
    const int64_t heads = item.item.kv_head_count;
    scratch.take(queries_, heads * words.key_steps * lanes_);
    scratch.take(sums_, heads * columns() * lanes_);
    scratch.take(maximum_, heads * lanes_);
    scratch.take(total_, heads * lanes_);
    scratch.take(query_, lanes_);
    scratch.take(out_, lanes_);
    scratch.take(begin_, lanes_);
    scratch.take(end_, lanes_);
    scratch.take(factor_, kGroupLanes);
    scratch.take(scores_, kAttentionBlock * kGroupLanes);
    scratch.take(weights_, kAttentionBlock / Words::kDepth * kGroupLanes);
    int64_t row = 0;
    for (int64_t token = 0; token < item.item.row_count; ++token) {
      const KeyRange range = item.seen(token);
      for (int64_t q_head = 0; q_head < item.group; ++q_head, ++row) {
        begin_[row] = static_cast<uint32_t>(range.begin);
        end_[row] = static_cast<uint32_t>(most<V>(range.end, int64_t{0}));
        query_[row] = item.query(token, q_head), out_[row] = item.out_index(token, q_head);
      }
    }
    for (; row < lanes_; ++row) begin_[row] = end_[row] = 0, query_[row] = query_[0];  // padding: what comes out is dropped
  }

  void begin(int head) {
    constexpr int64_t kWhole = V::kWidth * Words::kDepth;
    const int64_t skip = head * item_.group * args_.qk_dim, dim = args_.qk_dim, steps = words_.key_steps, stride = lanes_;
    for (int64_t lane = 0; lane < lanes_; lane += V::kWidth) {
      const float* const* query = query_ + lane;
      uint32_t* out = queries_ + head * steps * stride + lane;
      int64_t step = 0;
      for (; step < dim / kWhole * V::kWidth; step += V::kWidth)
        transpose_square<V>(
            [=](int64_t r)
                __attribute__((always_inline)) { return Kv::query_words(query[r] + skip + step * Words::kDepth, kWhole, 0, V::kWidth); },
            [=](int64_t j, typename V::I v) __attribute__((always_inline)) { V::store_words(out + (step + j) * stride, v, V::kWidth); });
      if (step < steps)
        transpose_square<V>([=](int64_t r) { return Kv::query_words(query[r] + skip, dim, step, steps - step); },
                            [=](int64_t j, typename V::I v) {
                              if (step + j < steps) V::store_words(out + (step + j) * stride, v, V::kWidth);
                            });
    }
    float* sums = sums_ + head * columns() * lanes_;
    for (int64_t i = 0; i < columns() * lanes_; i += V::kWidth) V::store(sums + i, V::zero());
    for (int64_t i = head * lanes_; i < (head + 1) * lanes_; i += V::kWidth) {
      V::store(maximum_ + i, V::set1(kUnseen));
      V::store(total_ + i, V::zero());
    }
  }

  void add_block(int64_t block, int head, BlockRows<V>&) {
    const int64_t vectors = lanes_ / V::kWidth;
    for (int64_t vector = 0; vector < vectors;) {
      const int64_t count = even_share<V>(vectors - vector, kGroup);
      add_group(block, head, vector * V::kWidth, count);
      vector += count;
    }
  }

  void store_out(int head) {
    with_row<V>(args_.out, 0, [&](auto* out) { store_rows(head, out + head * item_.group * args_.v_dim); });
  }

 private:
  static constexpr int kRows = V::kRegisters < 32 ? 4 : 8;  // keys of a tile of scores, columns of a tile of values; divides a panel
  static constexpr int64_t kGroup = kTileColumns<V, kRows>;
  static constexpr int64_t kGroupLanes = kGroup * V::kWidth;

  int64_t columns() const { return round_up<V>(args_.v_dim, V::kWidth); }

  template <class Out>
  void store_rows(int head, Out* out) {
    const int64_t stride = lanes_;
    for (int64_t lane = 0; lane < lanes_; lane += V::kWidth) {
      const F inverse = inverse_total<V>(V::load(total_ + head * lanes_ + lane), args_.values.scale);
      const int64_t rows = least<V>(V::kWidth, item_.rows - lane);
      const int64_t* index = out_ + lane;
      each_vector<V>(args_.v_dim, [&](int64_t column, auto width) {
        const float* sums = sums_ + (head * columns() + column) * stride + lane;
        transpose_square<V>(
            [=](int64_t c) __attribute__((always_inline)) { return V::as_words(weighted_mean<V>(V::load(sums + c * stride), inverse)); },
            [=](int64_t r, typename V::I v) __attribute__((always_inline)) {
              if (r < rows) store<V>(out + index[r] + column, V::as_floats(v), width);
            });
      });
    }
  }

  /// `count` vectors of rows from `lane` on.
  void add_group(int64_t block, int head, int64_t lane, int64_t count) {
    const int64_t last = least<V>(lane + count * V::kWidth, item_.rows) - 1;
    const KeyRange range = item_.seen_in_block(block, lane, last);
    if (range.begin >= range.end) return;
    const bool masked = !item_.all_see(block, lane, last, kAttentionBlock);
    const KeyRange keys{range.begin / kRows * kRows, round_up<V>(range.end, kRows)};
    WordTile scores{.x_row = words_.key_stride, .x_step = 1, .w_step = lanes_, .steps = words_.key_steps, .out_row = kGroupLanes};
    scores.w = queries_ + head * words_.key_steps * lanes_ + lane;
    for (int64_t key = keys.begin; key < keys.end; key += kRows) {
      scores.x = words_.keys + key * words_.key_stride;
      scores.out = scores_ + key * kGroupLanes;
      word_columns<V, Words, TileStart::kZero, kRows>(count, scores);
    }
    const int64_t state = head * lanes_ + lane;
    if (masked || args_.logit_cap > 0.0F)
      for (int64_t c = 0; c < count * V::kWidth; c += V::kWidth) adjust(block, lane + c, c, keys, masked);
    find_maxima(state, count, keys);
    if (masked)
      soften_group<true>(block, state, count, keys);
    else
      soften_group<false>(block, state, count, keys);
    WordTile values{.x_row = 1, .x_step = words_.value_stride, .w_step = kGroupLanes, .out_row = lanes_, .factor = factor_};
    values.w = weights_ + keys.begin / Words::kDepth * kGroupLanes;
    values.steps = (keys.end - keys.begin) / Words::kDepth;
    for (int64_t column = 0; column < args_.v_dim; column += kRows) {
      values.x = words_.values + keys.begin / Words::kDepth * words_.value_stride + V::kWidth + column;
      values.out = sums_ + (head * columns() + column) * lanes_ + lane;
      word_columns<V, Words, TileStart::kLaneFactor, kRows>(count, values);
    }
    if (words_.any_spoilt) add_spoilt(block, head, lane, last);
  }

  /// v where a lane's row sees the key at `position`, else `other`.
  F where_seen(int64_t position, int64_t lane, F v, F other) const {
    const typename V::I key = V::set1_word(static_cast<uint32_t>(position));
    return V::select_less(key, V::load_words(end_ + lane), V::select_less(key, V::load_words(begin_ + lane), other, v), other);
  }

  /// Caps and masks the scores of one vector of rows. `lane` counts in the head, `c` in the group.
  void adjust(int64_t block, int64_t lane, int64_t c, KeyRange keys, bool masked) {
    for (int64_t key = keys.begin; key < keys.end; ++key) {
      float* score = scores_ + key * kGroupLanes + c;
      F s = V::load(score);
      if (args_.logit_cap > 0.0F) s = item_.capped(s);
      if (masked) s = where_seen(block + key, lane, s, V::set1(kUnseen));
      V::store(score, s);
    }
  }

  /// New maxima of the group's rows, and the factors by which their older sums shrink. `state` counts over heads.
  void find_maxima(int64_t state, int64_t count, KeyRange keys) {
    F largest[kGroup];
    for (int64_t i = 0; i < kGroup; ++i) largest[i] = V::set1(kUnseen);
    for (int64_t key = keys.begin; key < keys.end; key += 2) {
      const float* s = scores_ + key * kGroupLanes;
#pragma GCC unroll 8
      for (int64_t i = 0; i < kGroup; ++i)
        largest[i] = V::max(V::max(V::load(s + i * V::kWidth), V::load(s + kGroupLanes + i * V::kWidth)), largest[i]);
    }
    for (int64_t i = 0; i < count; ++i) {
      const F before = V::load(maximum_ + state + i * V::kWidth);
      const F after = V::max(V::mul(largest[i], V::set1(item_.unit)), before);
      V::store(maximum_ + state + i * V::kWidth, after);
      V::store(factor_ + i * V::kWidth, exp2<V, Words>(V::sub(before, after)));
    }
  }

  /// Scores of `kCount` vectors of rows to weights, and their sums; the vectors go in step, as their sums are long chains.
  template <bool kMasked, int kCount>
  void soften(int64_t block, int64_t state, KeyRange keys) {
    constexpr int kDepth = Words::kDepth;
    const typename V::I ones = V::set1_word(Words::kOnes);
    const F unit = V::set1(item_.unit);
    F minus_maximum[kCount], total[kCount];
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) {
      minus_maximum[i] = V::sub(V::zero(), V::load(maximum_ + state + i * V::kWidth));
      total[i] = V::mul(V::load(total_ + state + i * V::kWidth), V::load(factor_ + i * V::kWidth));
    }
    const float* scores = scores_ + keys.begin * kGroupLanes;
    uint32_t* out = weights_ + keys.begin / kDepth * kGroupLanes;
    for (int64_t key = keys.begin; key < keys.end; key += kDepth, scores += kDepth * kGroupLanes, out += kGroupLanes) {
      F weights[kCount * kDepth];
#pragma GCC unroll 8
      for (int i = 0; i < kCount * kDepth; ++i)
        weights[i] = V::fma(V::load(scores + i % kDepth * kGroupLanes + i / kDepth * V::kWidth), unit, minus_maximum[i / kDepth]);
      exp2<V, Words>(weights);
      if (kMasked)
#pragma GCC unroll 8
        for (int i = 0; i < kCount * kDepth; ++i)
          weights[i] = where_seen(block + key + i % kDepth, state % lanes_ + i / kDepth * V::kWidth, weights[i], V::zero());
#pragma GCC unroll 4
      for (int i = 0; i < kCount; ++i) {
        const typename V::I word = Kv::step_word(weights + i * kDepth);
        V::store_words(out + i * V::kWidth, word, V::kWidth);
        total[i] = Words::multiply_add(total[i], word, ones);
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) V::store(total_ + state + i * V::kWidth, total[i]);
  }

  template <bool kMasked, int kCount = kGroup>
  void soften_group(int64_t block, int64_t state, int64_t count, KeyRange keys) {
    if (count == kCount)
      soften<kMasked, kCount>(block, state, keys);
    else if constexpr (kCount > 1)
      soften_group<kMasked, kCount - 1>(block, state, count, keys);
  }

  void add_spoilt(int64_t block, int head, int64_t lane, int64_t last) {
    for (int64_t row = lane; row <= last; ++row)
      for (int64_t column = 0; column < args_.v_dim; ++column)
        sums_[(head * columns() + column) * lanes_ + row] +=
            spoilt_sum<V, Words>(words_, column, item_.seen_in_block(block, row, row), weights_ + row - lane, kGroupLanes);
  }

  const ItemRows<V>& item_;
  const AttentionArgs& args_;
  const BlockWords<V>& words_;
  int64_t lanes_;                  // rows of a head, padded to whole vectors
  uint32_t* queries_ = nullptr;    // [heads, key_steps, lanes]
  float* sums_ = nullptr;          // [heads, columns, lanes] weighted values, not yet divided
  float* maximum_ = nullptr;       // [heads, lanes] in units
  float* total_ = nullptr;         // [heads, lanes]
  const float** query_ = nullptr;  // [lanes] of the item's first head
  int64_t* out_ = nullptr;         // [lanes] index of its output
  uint32_t* begin_ = nullptr;      // [lanes] first position a row sees
  uint32_t* end_ = nullptr;        // [lanes] one past its last
  float* factor_ = nullptr;        // [group lanes]
  float* scores_ = nullptr;        // [64, group lanes]
  uint32_t* weights_ = nullptr;    // [64 / depth, group lanes]
};

}  // namespace lamina::kernels::vec
