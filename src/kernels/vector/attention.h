#pragma once
// Attention of one item (attention.h): online softmax (Milakov & Gimelshein 2018) over blocks of 64 keys.
//
// A block's keys and values are copied through the page table into panels of the matmul's layout, so that scores and the weighted
// sum of values run in the matmul's tile. Every query row keeps its own chain: scores over the head dimension, softmax over the 64
// lanes of a block, values over the keys the row sees, in order. Hence a row's bits do not depend on the rows that share its tile,
// nor on keys it does not see: a tile covers only rows that see the same keys of the block.

#include "kernels/attention.h"
#include "kernels/vector/math.h"
#include "kernels/vector/pack.h"
#include "kernels/vector/rows.h"
#include "kernels/vector/tile.h"

namespace lamina::kernels::vec {

/// f32 (or expanded) keys and values.
template <class V, class KvType>
struct FloatKv {
  using Kv = KvType;
  using Op = Single<V, float>;
  static constexpr int64_t kDepth = 1;
  static constexpr bool kScaled = false;  // the scale of a head of a slot does not matter
  static int64_t steps(int64_t dim) { return dim; }
  static typename V::I load_steps(const Kv* p, float, int64_t dim, int64_t step, int64_t n) {
    (void)dim;
    if constexpr (sizeof(Kv) == 4)
      return V::as_words(F32Source<V>::load(p + step, n));
    else
      return V::as_words(Bf16Source<V>::load(p + step, n));
  }
  /// One step of a panel of values: n <= 32 columns of the step's keys (nullptr: no such key), zeros beyond.
  static void store_values(float* out, const Kv* const* keys, const float*, int64_t n) {
    for (int64_t c = 0; c < kPanelRows; c += V::kWidth) {
      const int64_t lanes = most<V>(int64_t{0}, least<V, int64_t>(V::kWidth, n - c));
      V::store_words(out + c, *keys != nullptr && lanes > 0 ? load_steps(*keys + c, 1.0F, lanes, 0, lanes) : V::zero_words(), V::kWidth);
    }
  }
  /// Weights of one row from its exponentials; returns what they sum to.
  static typename V::F store_weights(float* out, typename V::F a, typename V::F b) {
    V::store(out, a);
    V::store(out + V::kWidth, b);
    return V::add(a, b);
  }
};

/// bf16 keys and values for the dot-product unit; queries and softmax weights are rounded to bf16 (the sum is of the rounded ones).
template <class V>
struct PairKv {
  using Kv = uint16_t;
  using Op = PairDot<V>;
  static constexpr int64_t kDepth = 2;
  static constexpr bool kScaled = false;
  static int64_t steps(int64_t dim) { return (dim + 1) / 2; }
  static typename V::I load_steps(const Kv* p, float, int64_t dim, int64_t step, int64_t n) {
    return V::load_pairs(p + 2 * step, least<V>(2 * n, dim - 2 * step));
  }
  static void store_values(uint16_t* out, const Kv* const* keys, const float*, int64_t n) {
    const typename V::I even = keys[0] != nullptr ? V::load_pairs(keys[0], n) : V::zero_words();
    const typename V::I odd = keys[1] != nullptr ? V::load_pairs(keys[1], n) : V::zero_words();
    store_interleaved(out, even, odd);
  }
  static void store_interleaved(uint16_t* out, typename V::I even, typename V::I odd) {
    typename V::I low, high;
    V::interleave(even, odd, low, high);
    V::store_words(out, low, V::kWidth);
    V::store_words(out + 2 * V::kWidth, high, V::kWidth);
  }
  static typename V::F store_weights(uint16_t* out, typename V::F a, typename V::F b) {
    const typename V::I words = V::pack_pairs(a, b);
    V::store_words(out, words, V::kWidth);
    return V::add(V::low_half(words), V::high_half(words));
  }
};

/// Keys of the block a token sees: [begin, end) of 0..kAttentionBlock.
struct KeyRange {
  int64_t begin = 0;
  int64_t end = 0;
};

template <class V, class Kv>
class AttentionRun {
 public:
  using Op = typename Kv::Op;
  using X = typename Op::X;
  using W = typename Op::W;
  using KvType = typename Kv::Kv;

  AttentionRun(const AttentionArgs& args, const AttentionItem& item, void* scratch)
      : args_(args), item_(item), sequence_(*item.sequence), group_(args.q_heads / args.kv_heads), rows_(item.row_count * group_) {
    char* next = static_cast<char*>(scratch);
    take(next, keys_, key_steps() * kStepWidth * 2);
    take(next, values_, value_panels() * kValueSteps * kStepWidth);
    const int64_t all_rows = item.kv_head_count * rows_;
    take(next, queries_, all_rows * query_stride());
    take(next, sums_, all_rows * sum_stride());
    take(next, maximum_, all_rows);
    take(next, total_, all_rows);
    take(next, scores_, Op::kRows * kAttentionBlock);
    take(next, weights_, Op::kRows * kAttentionBlock);
    take(next, edge_, kStepWidth);
    take(next, key_rows_, 2 * kAttentionBlock);
    take(next, value_rows_, 2 * kAttentionBlock);
    take(next, key_scales_, kAttentionBlock);
    take(next, value_scales_, kAttentionBlock);
  }

  void run() {
    for (int head = 0; head < item_.kv_head_count; ++head) load_queries(head);
    const KeyRange first = seen(item_.row_begin);
    const KeyRange last = seen(item_.row_begin + item_.row_count - 1);  // both ends of `seen` grow with the token
    const int64_t begin = most<V>(first.begin, int64_t{0}) / kAttentionBlock * kAttentionBlock;
    find_rows(begin, last.end);
    for (int64_t block = begin; block < last.end; block += kAttentionBlock) {
      find_rows(block + kAttentionBlock, last.end);
      next_key_rows_ = key_rows(block + kAttentionBlock);
      next_value_rows_ = value_rows(block + kAttentionBlock);
      ahead_ = 0;
      for (int head = 0; head < item_.kv_head_count; ++head) run_block(block, head);
    }
    for (int head = 0; head < item_.kv_head_count; ++head) store_out(head);
  }

 private:
  static constexpr int64_t kStepWidth = kPanelRows * Kv::kDepth;  // elements of a step of a panel
  static constexpr int64_t kValueSteps = kAttentionBlock / Kv::kDepth;

  template <class T>
  static void take(char*& next, T*& pointer, int64_t count) {
    pointer = reinterpret_cast<T*>(next);
    next += (count * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 64;
  }
  int64_t key_steps() const { return Kv::steps(args_.qk_dim); }
  int64_t query_stride() const { return key_steps() * Kv::kDepth; }
  int64_t value_panels() const { return (args_.v_dim + kPanelRows - 1) / kPanelRows; }
  int64_t sum_stride() const { return value_panels() * kPanelRows; }

  /// Positions token `token` of the sequence sees.
  KeyRange seen(int64_t token) const {
    const int64_t position = sequence_.query_position + token;
    KeyRange range{0, sequence_.kv_len};
    if (args_.window >= 0) range.begin = most<V>(int64_t{0}, position - args_.window + 1);
    if (args_.mask == AttentionMask::kCausal)
      range.end = least<V>(range.end, position + 1);
    else if (args_.window >= 0)
      range.end = least<V>(range.end, position + args_.window);
    return range;
  }
  KeyRange seen_in_block(int64_t block, int64_t token) const {
    const KeyRange range = seen(item_.row_begin + token);
    return {most<V>(range.begin - block, int64_t{0}), least<V>(range.end - block, kAttentionBlock)};
  }

  void load_queries(int head) {
    for (int64_t r = 0; r < rows_; ++r) {
      const int64_t row = head * rows_ + r;
      const int64_t q_head = (item_.kv_head + head) * group_ + r % group_;
      const float* q = args_.q.data + (sequence_.query_begin + item_.row_begin + r / group_) * args_.q.stride + q_head * args_.qk_dim;
      X* out = queries_ + row * query_stride();
      out[query_stride() - 1] = X{};  // an odd head dimension leaves half a pair
      copy_row<V>(q, args_.qk_dim, out);
      maximum_[row] = -__builtin_inff();
      total_[row] = 0.0F;
      for (int64_t c = 0; c < sum_stride(); ++c) sums_[row * sum_stride() + c] = 0.0F;
    }
  }

  // Where the keys and values of two blocks lie, the present one and the next.
  const KvType** key_rows(int64_t block) const { return key_rows_ + block % (2 * kAttentionBlock); }
  const KvType** value_rows(int64_t block) const { return value_rows_ + block % (2 * kAttentionBlock); }

  /// Sets the block's rows, from the item's first head on; nullptr where no key exists or none from `end` on is wanted.
  void find_rows(int64_t block, int64_t end) {
    const KvType* keys = static_cast<const KvType*>(args_.keys.base) + static_cast<int64_t>(item_.kv_head) * args_.qk_dim;
    const KvType* values = static_cast<const KvType*>(args_.values.base) + static_cast<int64_t>(item_.kv_head) * args_.v_dim;
    int64_t page = block / args_.page_size;
    int64_t offset = block % args_.page_size;
    for (int64_t i = 0; i < kAttentionBlock; ++i) {
      const bool exists = block < end && block + i < sequence_.kv_len;
      const int64_t slot = exists ? sequence_.pages[page] * args_.page_size + offset : 0;
      key_rows(block)[i] = exists ? keys + slot * args_.keys.slot_stride : nullptr;
      value_rows(block)[i] = exists ? values + slot * args_.values.slot_stride : nullptr;
      if (++offset == args_.page_size) offset = 0, ++page;
    }
  }

  /// Sets the scales of the block's keys and values of one head.
  void find_scales(int64_t block, int head) {
    const int64_t kv_head = item_.kv_head + head;
    int64_t page = block / args_.page_size;
    int64_t offset = block % args_.page_size;
    for (int64_t i = 0; i < kAttentionBlock; ++i) {
      key_scales_[i] = value_scales_[i] = 1.0F;
      if (key_rows(block)[i] != nullptr) {
        const int64_t slot = sequence_.pages[page] * args_.page_size + offset;
        if (args_.keys.scales != nullptr) key_scales_[i] = args_.keys.scales[slot * args_.keys.scale_stride + kv_head];
        if (args_.values.scales != nullptr) value_scales_[i] = args_.values.scales[slot * args_.values.scale_stride + kv_head];
      }
      if (++offset == args_.page_size) offset = 0, ++page;
    }
  }

  void run_block(int64_t block, int head) {
    if (Kv::kScaled) find_scales(block, head);
    load_keys(block, head);
    load_values(block, head);
    for (int64_t token = 0; token < item_.row_count;) token = run_tokens(block, head, token);
  }

  /// Asks the memory for a few more rows of the next block, all heads of a row at once: they are neighbours. Called between the pieces of
  /// work on this block, so that the memory works while the CPU computes; all at once would only fill its queue of misses.
  void prefetch_some() {
    constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(KvType));
    constexpr int64_t kCalls = 16;  // about as many a block and head when the rows are few
    const int64_t heads = item_.kv_head_count;
    const int64_t last = least<V>(ahead_ + (2 * kAttentionBlock + kCalls * heads - 1) / (kCalls * heads), 2 * kAttentionBlock);
    for (; ahead_ < last; ++ahead_) {
      const bool key = ahead_ % 2 == 0;
      const KvType* row = (key ? next_key_rows_ : next_value_rows_)[ahead_ / 2];
      if (row == nullptr) return;
      for (int64_t i = 0; i < heads * (key ? args_.qk_dim : args_.v_dim); i += kLine) V::prefetch(row + i);
    }
  }

  /// Keys as two panels [key_steps, 32 keys]; keys that do not exist are zeros.
  void load_keys(int64_t block, int head) {
    const KvType* const* rows = key_rows(block);
    const int64_t count = least<V>(kAttentionBlock, sequence_.kv_len - block);
    const int64_t offset = static_cast<int64_t>(head) * args_.qk_dim;
    for (int64_t key = 0; key < kAttentionBlock; key += V::kWidth) {
      prefetch_some();
      W* out = keys_ + key / kPanelRows * key_steps() * kStepWidth + key % kPanelRows * Kv::kDepth;
      transpose_rows<V>(
          most<V>(int64_t{0}, least<V, int64_t>(V::kWidth, count - key)), key_steps(),
          [&](int64_t r, int64_t step, int64_t n) {
            return Kv::load_steps(rows[key + r] + offset, key_scales_[key + r], args_.qk_dim, step, n);
          },
          [&](int64_t step, typename V::I v) { V::store_words(out + step * kStepWidth, v, V::kWidth); });
    }
  }

  /// Values as panels [64 keys, 32 columns]; keys that do not exist are zeros.
  void load_values(int64_t block, int head) {
    const KvType* const* rows = value_rows(block);
    for (int64_t step = 0; step < kValueSteps; ++step) {
      if (step % 8 == 0) prefetch_some();
      for (int64_t panel = 0; panel < value_panels(); ++panel) {
        const int64_t column = panel * kPanelRows;
        const KvType* keys[Kv::kDepth];
        for (int64_t i = 0; i < Kv::kDepth; ++i) {
          const KvType* row = rows[step * Kv::kDepth + i];
          keys[i] = row == nullptr ? nullptr : row + static_cast<int64_t>(head) * args_.v_dim + column;
        }
        Kv::store_values(values_ + (panel * kValueSteps + step) * kStepWidth, keys, value_scales_ + step * Kv::kDepth,
                         least<V>(kPanelRows, args_.v_dim - column));
      }
    }
  }

  /// The run of tokens from `token` on that see the same keys of the block; returns the token after it.
  int64_t run_tokens(int64_t block, int head, int64_t token) {
    const KeyRange range = seen_in_block(block, token);
    int64_t end = token + 1;
    for (; end < item_.row_count; ++end) {
      const KeyRange other = seen_in_block(block, end);
      if (other.begin != range.begin || other.end != range.end) break;
    }
    if (range.begin >= range.end) return end;
    const int64_t last = head * rows_ + end * group_;
    for (int64_t row = head * rows_ + token * group_; row < last;) {
      const int64_t count = tile_share<V, Op>(last - row);
      run_tile(row, count, range);
      row += count;
    }
    return end;
  }

  void run_tile(int64_t row, int64_t count, KeyRange range) {
    TileArgs<Op> args;
    args.x = queries_ + row * query_stride();
    args.x_stride = query_stride();
    args.steps = key_steps();
    args.out_stride = kAttentionBlock;
    for (int64_t key = range.begin / kPanelRows * kPanelRows; key < range.end; key += kPanelRows) {
      args.w = keys_ + key / kPanelRows * key_steps() * kStepWidth;
      args.out = scores_ + key;
      panel_tile<V, Op>(count, args);
      prefetch_some();
    }
    for (int64_t r = 0; r < count; ++r) {
      softmax(scores_ + r * kAttentionBlock, weights_ + r * kAttentionBlock, row + r, range);
      prefetch_some();
    }
    for (int64_t panel = 0; panel < value_panels(); ++panel) {
      add_values(row, count, range, panel);
      prefetch_some();
    }
  }

  /// Exponentials of one row's scores, and the row's running maximum and sum; rescales its sums when the maximum grows.
  void softmax(float* scores, X* weights, int64_t row, KeyRange range) {
    using F = typename V::F;
    const F scale = V::set1(args_.scale * args_.keys.scale);
    for (int64_t i = 0; i < kAttentionBlock; i += V::kWidth) {
      F s = V::mul(V::load(scores + i), scale);
      if (args_.logit_cap > 0.0F) s = V::mul(V::set1(args_.logit_cap), tanh<V>(V::div(s, V::set1(args_.logit_cap))));
      V::store(scores + i, s);
    }
    for (int64_t i = 0; i < range.begin; ++i) scores[i] = -__builtin_inff();
    for (int64_t i = range.end; i < kAttentionBlock; ++i) scores[i] = -__builtin_inff();
    F best = V::load(scores);
    for (int64_t i = V::kWidth; i < kAttentionBlock; i += V::kWidth) best = V::max(V::load(scores + i), best);
    const float before = maximum_[row];
    const float after = most<V>(before, V::max_lane(best));
    F sum = V::zero();
    for (int64_t i = 0; i < kAttentionBlock; i += 2 * V::kWidth) {
      const F a = exp<V>(V::sub(V::load(scores + i), V::set1(after)));
      const F b = exp<V>(V::sub(V::load(scores + i + V::kWidth), V::set1(after)));
      sum = V::add(sum, Kv::store_weights(weights + i, a, b));
    }
    const float factor = before == after ? 1.0F : V::lane0(exp<V>(V::set1(before - after)));
    total_[row] = total_[row] * factor + V::sum(sum);
    maximum_[row] = after;
    if (factor == 1.0F) return;
    float* sums = sums_ + row * sum_stride();
    for (int64_t c = 0; c < sum_stride(); c += V::kWidth) V::store(sums + c, V::mul(V::load(sums + c), V::set1(factor)));
  }

  /// Adds weights times values of one panel of columns, keys [range.begin, range.end) only.
  void add_values(int64_t row, int64_t count, KeyRange range, int64_t panel) {
    const W* values = values_ + panel * kValueSteps * kStepWidth;
    TileArgs<Op> args;
    args.x_stride = kAttentionBlock;
    args.resume = true;
    args.out = sums_ + row * sum_stride() + panel * kPanelRows;
    args.out_stride = sum_stride();
    const auto add_steps = [&](const W* w, int64_t key, int64_t steps) {
      if (steps <= 0) return;
      args.x = weights_ + key;
      args.w = w;
      args.steps = steps;
      panel_tile<V, Op>(count, args);
    };
    if constexpr (Kv::kDepth == 1) {
      add_steps(values + range.begin * kStepWidth, range.begin, range.end - range.begin);
    } else {
      // A pair of which the row sees one key: the other's value must not be multiplied, not even by zero (it may be infinite).
      int64_t begin = range.begin;
      int64_t end = range.end;
      if (begin % 2 != 0) {
        add_steps(edge_of(values, begin - 1, true), begin - 1, 1);
        ++begin;
      }
      const bool half = end % 2 != 0 && end > begin;
      if (half) --end;
      add_steps(values + begin / 2 * kStepWidth, begin, (end - begin) / 2);
      if (half) add_steps(edge_of(values, end, false), end, 1);
    }
  }

  /// A copy of the step that holds `key` and its successor, with only one of the two left.
  const W* edge_of(const W* values, int64_t key, bool keep_odd) {
    const W* step = values + key / 2 * kStepWidth;
    for (int64_t c = 0; c < kStepWidth; ++c) edge_[c] = (c % 2 != 0) == keep_odd ? step[c] : W{};
    return edge_;
  }

  void store_out(int head) {
    for (int64_t r = 0; r < rows_; ++r) {
      const int64_t row = head * rows_ + r;
      const float* sums = sums_ + row * sum_stride();
      const int64_t column = ((item_.kv_head + head) * group_ + r % group_) * args_.v_dim;
      const bool empty = maximum_[row] == -__builtin_inff() && total_[row] == 0.0F;
      const auto total = V::set1(empty ? 1.0F : total_[row]);
      with_row<V>(args_.out, sequence_.query_begin + item_.row_begin + r / group_, [&](auto* out) {
        each_vector<V>(args_.v_dim, [&](int64_t c, auto lanes) {
          const auto mean = V::div(load<V>(sums + c, lanes), total);
          store<V>(out + column + c, V::mul(mean, V::set1(args_.values.scale)), lanes);
        });
      });
    }
  }

  const AttentionArgs& args_;
  const AttentionItem& item_;
  const AttentionSequence& sequence_;
  int64_t group_;  // q heads of the kv head
  int64_t rows_;   // query rows of one kv head: token * group + q head

  W* keys_ = nullptr;                    // [2, key_steps, 32 keys, depth]
  W* values_ = nullptr;                  // [value_panels, 64 / depth, 32 columns, depth]
  X* queries_ = nullptr;                 // [rows, query_stride]
  float* sums_ = nullptr;                // [rows, sum_stride] weighted values, not yet divided
  float* maximum_ = nullptr;             // [rows]
  float* total_ = nullptr;               // [rows]
  float* scores_ = nullptr;              // [Op::kRows, 64]
  X* weights_ = nullptr;                 // [Op::kRows, 64]
  W* edge_ = nullptr;                    // one step
  const KvType** key_rows_ = nullptr;    // [2, 64]
  const KvType** value_rows_ = nullptr;  // [2, 64]
  float* key_scales_ = nullptr;          // [64], of one head
  float* value_scales_ = nullptr;        // [64]
  const KvType* const* next_key_rows_ = nullptr;
  const KvType* const* next_value_rows_ = nullptr;
  int64_t ahead_ = 0;  // rows of the next block that were asked for, keys and values in turn
};

}  // namespace lamina::kernels::vec
