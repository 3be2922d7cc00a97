#pragma once
// A block of keys and values: where it lies behind the page table, and its copy as words.

#include "kernels/vector/attention_kv.h"
#include "kernels/vector/math.h"

namespace lamina::kernels::vec {

template <class V>
int64_t round_up(int64_t n, int64_t unit) {
  return (n + unit - 1) / unit * unit;
}

/// Transposes kWidth rows of kWidth words: load(r) gives a row, store(j, v) takes column j of all rows. For whole squares; pack.h has
/// another for those with edges.
template <class V, class Load, class Store>
[[gnu::always_inline]] inline void transpose_square(Load load, Store store) {
  typename V::I block[V::kWidth];
#pragma GCC unroll 16
  for (int64_t r = 0; r < V::kWidth; ++r) block[r] = load(r);
  V::transpose(block);
#pragma GCC unroll 16
  for (int64_t j = 0; j < V::kWidth; ++j) store(j, block[j]);
}

/// What a row's weighted values are multiplied by: the scale of the layer's values over the weights' total; a row without keys is zero.
template <class V>
typename V::F inverse_total(typename V::F total, float scale) {
  const typename V::F some = V::select_less(V::as_words(total), V::set1_word(1), V::set1(1.0F), total);  // no total is negative
  return V::div(V::set1(scale), some);
}
template <class V>
typename V::F weighted_mean(typename V::F sum, typename V::F inverse) {
  return V::add(V::mul(sum, inverse), V::zero());  // a zero loses its sign
}

/// Hands out pieces of a thread's scratch, each on a cache line of its own. (A template on V like all code here: no ISA's copy serves
/// another.)
template <class V>
struct ScratchCursor {
  char* next = nullptr;
  template <class T>
  void take(T*& pointer, int64_t count) {
    pointer = reinterpret_cast<T*>(next);
    next += (count * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 64;
  }
};

/// Keys of a block that a token sees: [begin, end) of 0..kAttentionBlock; none when begin >= end.
struct KeyRange {
  int64_t begin = 0;
  int64_t end = 0;
};

inline constexpr float kLog2E = 1.44269504F;
/// The score of a key that a row does not see: no sum with another score is infinite.
inline constexpr float kUnseen = -1e30F;

/// An item's rows: token * group + q head, for each of its kv heads. A weight is 2^(unit * score - maximum).
template <class V>
struct ItemRows {
  const AttentionArgs& args;
  const AttentionItem& item;
  int64_t group;  // q heads of a kv head
  int64_t rows;   // of one kv head
  float scale;    // of a product of a query and a key as stored
  float unit;     // of a score, which is that product or, with a cap, the capped one

  ItemRows(const AttentionArgs& a, const AttentionItem& i)
      : args(a),
        item(i),
        group(a.q_heads / a.kv_heads),
        rows(i.row_count * (a.q_heads / a.kv_heads)),
        scale(a.scale * a.keys.scale),
        unit(a.logit_cap > 0.0F ? kLog2E : scale * kLog2E) {}

  typename V::F capped(typename V::F product) const {
    const typename V::F cap = V::set1(args.logit_cap);
    return V::mul(cap, tanh<V>(V::div(V::mul(product, V::set1(scale)), cap)));
  }

  /// Positions that a token of the item sees. Both ends grow with the token.
  KeyRange seen(int64_t token) const {
    const AttentionSequence& sequence = *item.sequence;
    const int64_t position = sequence.query_position + item.row_begin + token;
    KeyRange range{0, sequence.kv_len};
    if (args.window >= 0) range.begin = most<V>(int64_t{0}, position - args.window + 1);
    if (args.mask == AttentionMask::kCausal)
      range.end = least<V>(range.end, position + 1);
    else if (args.window >= 0)
      range.end = least<V>(range.end, position + args.window);
    return range;
  }
  /// Keys of the block that at least one of rows [first, last] sees.
  KeyRange seen_in_block(int64_t block, int64_t first, int64_t last) const {
    return {most<V>(seen(first / group).begin - block, int64_t{0}), least<V>(seen(last / group).end - block, kAttentionBlock)};
  }
  /// Whether each of rows [first, last] sees all `keys` first keys of the block.
  bool all_see(int64_t block, int64_t first, int64_t last, int64_t keys) const {
    return seen(last / group).begin <= block && seen(first / group).end >= block + keys;
  }

  /// Where a token's q head of the item's first kv head lies in q, and in out (elements). The next kv head's lies group heads further.
  const float* query(int64_t token, int64_t q_head) const {
    return args.q.data + batch_row(token) * args.q.stride + (item.kv_head * group + q_head) * args.qk_dim;
  }
  int64_t out_index(int64_t token, int64_t q_head) const {
    return batch_row(token) * args.out.stride + (item.kv_head * group + q_head) * args.v_dim;
  }

 private:
  int64_t batch_row(int64_t token) const { return item.sequence->query_begin + item.row_begin + token; }
};

/// Where the rows of two blocks lie, this one and the next, from the item's first head on.
template <class V>
class BlockRows {
 public:
  BlockRows(const AttentionArgs& args, const AttentionItem& item, ScratchCursor<V>& scratch)
      : args_(args), sequence_(*item.sequence), item_(item), bytes_(dtype_bytes(args.keys.dtype)) {
    scratch.take(keys_, 2 * kAttentionBlock);
    scratch.take(values_, 2 * kAttentionBlock);
    scratch.take(key_scales_, kAttentionBlock);
    scratch.take(value_scales_, kAttentionBlock);
  }

  /// Finds the rows of a block; those from `end` on are not wanted. Keys are filled up to a whole vector by the last one (its scores are
  /// masked), values by nullptr.
  void find(int64_t block, int64_t end) {
    const char* keys = static_cast<const char*>(args_.keys.base) + int64_t{item_.kv_head} * args_.qk_dim * bytes_;
    const char* values = static_cast<const char*>(args_.values.base) + int64_t{item_.kv_head} * args_.v_dim * bytes_;
    const int64_t wanted = most<V>(int64_t{0}, least<V>(least<V>(end, sequence_.kv_len) - block, kAttentionBlock));
    const int64_t key_step = args_.keys.slot_stride * bytes_;
    const int64_t value_step = args_.values.slot_stride * bytes_;
    const char** key = keys_ + block % (2 * kAttentionBlock);
    const char** value = values_ + block % (2 * kAttentionBlock);
    for (int64_t i = 0; i < wanted;) {  // a page at a time
      const int64_t slot = sequence_.pages[(block + i) / args_.page_size] * args_.page_size + (block + i) % args_.page_size;
      const int64_t last = least<V>(wanted, i + args_.page_size - (block + i) % args_.page_size);
      const char* k = keys + slot * key_step;
      const char* v = values + slot * value_step;
      for (; i < last; ++i, k += key_step, v += value_step) key[i] = k, value[i] = v;
    }
    for (int64_t i = wanted; i < round_up<V>(wanted, V::kWidth); ++i) key[i] = key[wanted - 1], value[i] = nullptr;
    wanted_[block / kAttentionBlock % 2] = wanted;
  }
  /// The block to work on, found before; the one after it is what prefetch_lines asks for.
  void enter(int64_t block) {
    block_ = block, offset_ = 0;
    ahead_ = wanted_[(block / kAttentionBlock + 1) % 2] > 0 ? 0 : 2 * kAttentionBlock;
  }

  /// Sets the scales of the block's keys and values of one head.
  void find_scales(int head) {
    const int64_t kv_head = item_.kv_head + head;
    int64_t page = block_ / args_.page_size;
    int64_t offset = block_ % args_.page_size;
    for (int64_t i = 0; i < kAttentionBlock; ++i) {
      key_scales_[i] = value_scales_[i] = 1.0F;
      if (i >= wanted()) continue;
      const int64_t slot = sequence_.pages[page] * args_.page_size + offset;
      if (args_.keys.scales != nullptr) key_scales_[i] = args_.keys.scales[slot * args_.keys.scale_stride + kv_head];
      if (args_.values.scales != nullptr) value_scales_[i] = args_.values.scales[slot * args_.values.scale_stride + kv_head];
      if (++offset == args_.page_size) offset = 0, ++page;
    }
  }

  /// Keys of the block that are wanted, its first ones.
  int64_t wanted() const { return wanted_[block_ / kAttentionBlock % 2]; }
  const char* const* keys() const { return keys_ + block_ % (2 * kAttentionBlock); }
  const char* const* values() const { return values_ + block_ % (2 * kAttentionBlock); }
  const float* key_scales() const { return key_scales_; }
  const float* value_scales() const { return value_scales_; }

  /// Reads a byte of every line of the block, keys and values in turn, in the order in which they lie in memory: the CPU's own prefetchers
  /// follow, and bring a block that nobody asked for before three times as fast as requests for lines do.
  void touch() const {
    const int64_t key_bytes = item_.kv_head_count * args_.qk_dim * bytes_;
    const int64_t value_bytes = item_.kv_head_count * args_.v_dim * bytes_;
    for (int64_t i = 0; i < wanted(); ++i)
      for (int64_t offset = 0; offset < most<V>(key_bytes, value_bytes); offset += 64) {
        if (offset < key_bytes) static_cast<void>(*static_cast<const volatile char*>(keys()[i] + offset));
        if (offset < value_bytes) static_cast<void>(*static_cast<const volatile char*>(values()[i] + offset));
      }
  }

  /// Asks for one key and value of the next block, to come into the second cache while this one is worked on: what many rows multiply must
  /// keep the first. Inlined by force, see V::prefetch.
  [[gnu::always_inline]] void ask_for_next(int64_t i, int head) const {
    const int64_t next = (block_ + kAttentionBlock) % (2 * kAttentionBlock);
    if (i >= wanted_[next / kAttentionBlock]) return;
    const int64_t key_bytes = args_.qk_dim * bytes_, value_bytes = args_.v_dim * bytes_;
    for (int64_t o = 0; o < key_bytes; o += 64) __builtin_prefetch(keys_[next + i] + head * key_bytes + o, 0, 2);
    for (int64_t o = 0; o < value_bytes; o += 64) __builtin_prefetch(values_[next + i] + head * value_bytes + o, 0, 2);
  }

  /// Asks the memory for a few more lines of the next block, row by row, all heads of a row at once: they are neighbours. Called between
  /// the pieces of work on this block, so that the memory works while the CPU computes; many at once would only fill its queue of misses,
  /// and what this block reads out of the second cache would wait behind them.
  void prefetch_lines(int64_t lines) {
    constexpr int64_t kRun = 8;  // rows of keys, then as many of values: longer runs of neighbours than one row
    const int64_t next = (block_ + kAttentionBlock) % (2 * kAttentionBlock);
    while (lines > 0 && ahead_ < 2 * kAttentionBlock) {
      const bool key = ahead_ / kRun % 2 == 0;
      const int64_t place = next + ahead_ / (2 * kRun) * kRun + ahead_ % kRun;  // by itself: gcc 12 at -O1 lost it in the choice of a table
      const char* row = key ? keys_[place] : values_[place];
      const bool wanted = place - next < wanted_[next / kAttentionBlock];
      const int64_t bytes = wanted ? item_.kv_head_count * (key ? args_.qk_dim : args_.v_dim) * bytes_ : 0;
      for (; lines > 0 && offset_ < bytes; --lines, offset_ += 64) V::prefetch(row + offset_);
      if (offset_ >= bytes) offset_ = 0, ++ahead_;
    }
  }
  /// Lines of keys and values of a head and block: what to ask for in the time of one.
  int64_t lines() const { return kAttentionBlock * (args_.qk_dim + args_.v_dim) * bytes_ / 64; }

 private:
  const AttentionArgs& args_;
  const AttentionSequence& sequence_;
  const AttentionItem& item_;
  int64_t bytes_;
  int64_t block_ = 0;
  int64_t offset_ = 0;             // bytes of row ahead_ that were asked for
  int64_t ahead_ = 0;              // rows of the next block that were asked for
  int64_t wanted_[2] = {0, 0};     // rows of the two blocks
  const char** keys_ = nullptr;    // [2, 64]
  const char** values_ = nullptr;  // [2, 64]
  float* key_scales_ = nullptr;    // [64], of one head
  float* value_scales_ = nullptr;  // [64]
};

/// The words of a block of one head.
template <class V>
struct BlockWords {
  int64_t key_steps = 0;
  int64_t key_stride = 0;      // of rows of keys
  int64_t value_stride = 0;    // kWidth ones, then the values: a column of ones sums the weights
  uint32_t* keys = nullptr;    // [64, key_stride], or transposed: [key_steps, 64]
  uint32_t* values = nullptr;  // [64 / depth, value_stride]
  uint32_t* spoilt = nullptr;  // like values: those that are infinite or NaN, where a row must not multiply them
  bool any_spoilt = false;

  template <class Words>
  static BlockWords take(const AttentionArgs& args, ScratchCursor<V>& scratch, Words) {
    BlockWords words;
    words.key_steps = (args.qk_dim + Words::kDepth - 1) / Words::kDepth;
    words.key_stride = round_up<V>(words.key_steps, V::kWidth);
    words.value_stride = V::kWidth + round_up<V>(args.v_dim, kPanelRows);
    scratch.take(words.keys, kAttentionBlock * words.key_stride);
    scratch.take(words.values, kAttentionBlock / Words::kDepth * words.value_stride);
    scratch.take(words.spoilt, kAttentionBlock / Words::kDepth * words.value_stride);
    for (int64_t step = 0; step < kAttentionBlock / Words::kDepth; ++step)
      V::store_words(words.values + step * words.value_stride, V::set1_word(Words::kOnes), V::kWidth);
    return words;
  }
};

/// Copies keys as rows.
template <class V, class Kv>
void load_key_rows(const AttentionArgs& args, BlockRows<V>& rows, int head, const BlockWords<V>& words) {
  constexpr int64_t kWhole = V::kWidth * Kv::Words::kDepth;  // values of a vector
  const int64_t dim = args.qk_dim, steps = words.key_steps, stride = words.key_stride;
  const char* const* from = rows.keys();
  const float* scales = rows.key_scales();
  uint32_t* out = words.keys;
  for (int64_t key = 0; key < round_up<V>(rows.wanted(), V::kWidth); ++key, out += stride) {
    rows.ask_for_next(key, head);
    const auto* p = reinterpret_cast<const typename Kv::Kv*>(from[key]) + head * dim;
    const int64_t whole = dim / kWhole * V::kWidth;
    for (int64_t step = 0; step < whole; step += V::kWidth, p += kWhole)
      V::store_words(out + step, Kv::load_words(p, scales[key], kWhole, 0, V::kWidth), V::kWidth);
    if (whole < steps) V::store_words(out + whole, Kv::load_words(p, scales[key], dim % kWhole, 0, steps - whole), V::kWidth);
  }
}

/// Copies keys as columns.
template <class V, class Kv>
void load_key_columns(const AttentionArgs& args, BlockRows<V>& rows, int head, const BlockWords<V>& words) {
  constexpr int64_t kWhole = V::kWidth * Kv::Words::kDepth;
  const int64_t dim = args.qk_dim, skip = head * dim, steps = words.key_steps;
  for (int64_t key = 0; key < rows.wanted(); key += V::kWidth) {
    const char* const* from = rows.keys() + key;
    const float* scales = rows.key_scales() + key;
    uint32_t* const out = words.keys + key;
    const auto row = [=](int64_t r) __attribute__((always_inline)) { return reinterpret_cast<const typename Kv::Kv*>(from[r]) + skip; };
    int64_t step = 0;
    for (; step < dim / kWhole * V::kWidth; step += V::kWidth) {
      rows.prefetch_lines(V::kWidth / 2);
      transpose_square<V>(
          [=](int64_t r)
              __attribute__((always_inline)) { return Kv::load_words(row(r) + step * Kv::Words::kDepth, scales[r], kWhole, 0, V::kWidth); },
          [=](int64_t j, typename V::I v)
              __attribute__((always_inline)) { V::store_words(out + (step + j) * kAttentionBlock, v, V::kWidth); });
    }
    if (step < steps)
      transpose_square<V>([=](int64_t r) { return Kv::load_words(row(r), scales[r], dim, step, steps - step); },
                          [=](int64_t j, typename V::I v) {
                            if (step + j < steps) V::store_words(out + (step + j) * kAttentionBlock, v, V::kWidth);
                          });
  }
}

inline constexpr int64_t kPanelKeys = 8;

/// 32 columns of values, or the last `count`, of kPanelKeys keys. kAll: every key is there.
template <class V, class Kv, bool kAll>
void load_value_panel(const char* const* from, const float* scales, int64_t skip, int64_t count, uint32_t* out, int64_t stride) {
  constexpr int64_t kDepth = Kv::Words::kDepth;
  for (int64_t key = 0; key < kPanelKeys; key += kDepth, out += stride) {
    const typename Kv::Kv* p[kDepth];
    for (int64_t i = 0; i < kDepth; ++i) {
      p[i] = reinterpret_cast<const typename Kv::Kv*>(from[key + i]) + skip;
      if (kAll && p[i] == nullptr) __builtin_unreachable();
      if (!kAll && from[key + i] == nullptr) p[i] = nullptr;
    }
    Kv::store_values(out, p, scales + key, count);
  }
}

template <class V, class Kv, bool kPrefetch>
void load_values(const AttentionArgs& args, BlockRows<V>& rows, int head, const BlockWords<V>& words) {
  const int64_t dim = args.v_dim, stride = words.value_stride;
  for (int64_t key = 0; key < rows.wanted(); key += kPanelKeys) {
    const bool all = key + kPanelKeys <= rows.wanted();
    if (kPrefetch) rows.prefetch_lines(rows.lines() * 3 / 8 * kPanelKeys / kAttentionBlock);
    const char* const* from = rows.values() + key;
    const float* scales = rows.value_scales() + key;
    uint32_t* out = words.values + key / Kv::Words::kDepth * stride + V::kWidth;
    int64_t column = 0;
    for (; all && column + kPanelRows <= dim; column += kPanelRows)
      load_value_panel<V, Kv, true>(from, scales, head * dim + column, kPanelRows, out + column, stride);
    for (; column < dim; column += kPanelRows)
      load_value_panel<V, Kv, false>(from, scales, head * dim + column, least<V>(kPanelRows, dim - column), out + column, stride);
  }
}

// A weight of zero does not keep out a value that is infinite or NaN. Where some row does not see all keys of the block, such values are
// taken out before all rows multiply the rest, and added to the rows that see them.

/// The bits of a word that belong to infinite or NaN values.
template <class Words>
uint32_t spoilt_bits(uint32_t word) {
  constexpr uint32_t kExponent = 0x7F800000;
  if (Words::kDepth == 1) return (word & kExponent) == kExponent ? 0xFFFFFFFF : 0;
  return ((word & kExponent) == kExponent ? 0xFFFF0000 : 0) | (((word << 16) & kExponent) == kExponent ? 0xFFFF : 0);
}

/// Whether there were any among the first `keys`.
template <class V, class Words>
bool take_out_spoilt(const BlockWords<V>& words, int64_t keys) {
  const int64_t count = round_up<V>(keys, kPanelKeys) / Words::kDepth * words.value_stride;
  const typename V::I exponent = V::set1_word(0x7F800000);
  typename V::I largest = V::zero_words();
  for (int64_t i = 0; i < count; i += V::kWidth) {
    const typename V::I word = V::load_words(words.values + i);
    largest = V::max_words(largest, V::both(word, exponent));
    if (Words::kDepth == 2) largest = V::max_words(largest, V::both(V::template shift_left<16>(word), exponent));
  }
  uint32_t lanes[V::kWidth];
  V::store_words(lanes, largest, V::kWidth);
  bool any = false;
  for (const uint32_t lane : lanes) any |= lane == 0x7F800000;
  if (!any) return false;
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = spoilt_bits<Words>(words.values[i]);
    words.spoilt[i] = words.values[i] & bits;
    words.values[i] &= ~bits;
  }
  return true;
}

/// Value `i` of a word.
template <class Words>
float value_of(uint32_t word, int64_t i) {
  return __builtin_bit_cast(float, Words::kDepth == 1 ? word : i == 0 ? word << 16 : word & 0xFFFF0000);
}

/// What the spoilt values of a column add to a row: the sum over the keys it sees. weights: the row's word of each step, `stride` apart.
template <class V, class Words>
float spoilt_sum(const BlockWords<V>& words, int64_t column, KeyRange range, const uint32_t* weights, int64_t stride) {
  float sum = 0.0F;
  for (int64_t key = range.begin; key < range.end; ++key) {
    const int64_t step = key / Words::kDepth;
    const uint32_t word = words.spoilt[step * words.value_stride + V::kWidth + column];
    const float value = value_of<Words>(word, key % Words::kDepth);
    if (value != 0.0F) sum += value_of<Words>(weights[step * stride], key % Words::kDepth) * value;
  }
  return sum;
}

}  // namespace lamina::kernels::vec
