#pragma once
// The inner loops of the matmul over codes. Few rows decode words of codes in registers; many rows share a piece of a panel that was
// decoded once into the first-level cache. Both add the same products in the same order and scale each run the same way, so their bits
// are equal.

#include "kernels/vector/decode.h"
#include "kernels/vector/tile.h"

namespace lamina::kernels::vec {

// --- products: kDepth values of depth a step ------------------------------------------------------------------------------------------

/// x f32 or bf16, weights f32. Tiles of many rows have their inputs expanded before: a broadcast of a bf16 costs as much as a product.
template <class V, class XType>
struct FloatProduct {
  using X = XType;
  using Tile = FloatProduct<V, float>;
  using Sum = typename V::F;
  using Input = typename V::F;
  using Weight = typename V::F;
  template <Code kCode>
  using Decoder = FloatDecoder<V, kCode>;
  static constexpr int kDepth = 1;
  static constexpr int kFewRows = V::kFewRows;
  static constexpr int kTwoPanelRows = V::kTwoPanelRows;  // one panel's chains of additions would wait for each other
  static constexpr int kRows = V::kTileRows;
  static constexpr int kKeptRows = V::kKeptRows;
  static constexpr bool kBiased = false;
  static constexpr X kPad = 0;
  static Input input(const float* x) { return V::broadcast(x); }
  static Input input(const uint16_t* x) { return V::broadcast_bf16(x); }
  static Weight weight(typename V::I word) { return V::as_floats(word); }
  static Sum multiply_add(Sum sum, Input x, Weight w) { return V::fma(x, w, sum); }
  static Sum from_words(typename V::I words) { return V::as_floats(words); }
  static typename V::I words(Sum sum) { return V::as_words(sum); }
  static typename V::F to_float(Sum sum) { return sum; }
};

/// x bf16, weights pairs of bf16.
template <class V>
struct PairProduct {
  using X = uint16_t;
  using Tile = PairProduct;
  using Sum = typename V::F;
  using Input = typename V::I;
  using Weight = typename V::I;
  template <Code kCode>
  using Decoder = PairDecoder<V, kCode>;
  static constexpr int kDepth = 2;
  static constexpr int kFewRows = V::kFewRows;
  static constexpr int kTwoPanelRows = V::kTwoPanelRows;  // one panel's chains of additions would wait for each other
  static constexpr int kRows = V::kTileRows;
  static constexpr int kKeptRows = V::kKeptRows;
  static constexpr bool kBiased = false;
  static constexpr X kPad = 0;
  static Input input(const uint16_t* x) { return V::broadcast_pair(x); }
  static Weight weight(typename V::I word) { return word; }
  static Sum multiply_add(Sum sum, Input x, Weight w) { return V::dot(sum, x, w); }
  static Sum from_words(typename V::I words) { return V::as_floats(words); }
  static typename V::I words(Sum sum) { return V::as_words(sum); }
  static typename V::F to_float(Sum sum) { return sum; }
};

/// x bytes that stand for x - 128, weights four signed bytes. Where V multiplies unsigned bytes (kBiasedBytes), 128 times the sum of the
/// weights must be taken off a sum.
template <class V>
struct ByteProduct {
  using X = uint8_t;
  using Tile = ByteProduct;
  using Sum = typename V::I;
  using Input = typename V::ByteInput;
  using Weight = typename V::ByteWeight;
  template <Code kCode>
  using Decoder = ByteDecoder<V, kCode>;
  static constexpr int kDepth = 4;
  static constexpr int kFewRows = V::kFewByteRows;
  static constexpr int kTwoPanelRows = 0;
  static constexpr int kRows = V::kByteRows;
  static constexpr int kKeptRows = V::kKeptByteRows;
  static constexpr bool kBiased = V::kBiasedBytes;
  static constexpr X kPad = 128;
  static Input input(const uint8_t* x) { return V::byte_input(x); }
  static Input input_of_128() { return V::bytes_of_128(); }
  static Weight weight(typename V::I word) { return V::byte_weight(word); }
  static Sum multiply_add(Sum sum, Input x, Weight w) { return V::dot_bytes(sum, x, w); }
  static Sum from_words(typename V::I words) { return words; }
  static typename V::I words(Sum sum) { return sum; }
  static typename V::F to_float(Sum sum) { return V::to_float(sum); }
};

/// The same for weights of int4 less zeros up to 16, where dot products of bytes are made of sums of pairs in 16 bits: these fit.
template <class V>
struct NibbleProduct : ByteProduct<V> {
  using Tile = NibbleProduct;
  using Sum = typename V::I;
  using Input = typename V::I;
  using Weight = typename V::I;
  static constexpr int kKeptRows = V::kKeptNibbleRows;
  static Input input(const uint8_t* x) { return V::broadcast_bytes(x); }
  static Input input_of_128() { return V::set1_word(0x80808080); }
  static Weight weight(typename V::I word) { return word; }
  static Sum multiply_add(Sum sum, Input x, Weight w) { return V::dot_nibbles(sum, x, w); }
};

// --- many rows ------------------------------------------------------------------------------------------------------------------------

/// Consecutive k of one run. What does not fill a unit, the k of a word of codes, is a piece of its own.
struct CodedPiece {
  int64_t length = 0;
  int64_t run = 0;    // counted from the part's first
  bool ends = false;  // the run ends here
};

/// A part of a panel, decoded. `totals` and `sums` of its rows keep what their 32 outputs have come to between pieces: the runs that are
/// done, and the run that goes on.
template <class P>
struct CodedPart {
  const uint32_t* words = nullptr;   // [steps][kPanelRows]
  const float* scales = nullptr;     // [runs][kPanelRows]
  const uint32_t* starts = nullptr;  // [runs][kPanelRows], what a sum begins with
  const CodedPiece* pieces = nullptr;
  int64_t count = 0;
  int64_t steps = 0;
  int64_t unit = 0;
  bool continues = false;  // the first piece goes on with `sums`
  bool first = false;      // no totals yet
};

template <class P>
struct CodedRows {
  const typename P::X* x = nullptr;  // at the part's first k
  int64_t x_stride = 0;
  const float* x_scales = nullptr;  // of the part's runs; null: a row has one scale or none
  int64_t x_scale_stride = 0;
  float* totals = nullptr;   // [rows][kPanelRows]
  uint32_t* sums = nullptr;  // likewise
};

/// The last n < kUnit values of a run of R rows, made up to kUnit by values that stand for 0.
template <class V, class P, int R>
struct PaddedInput {
  static constexpr int64_t kUnit = 8;
  typename P::X x[R * kUnit];
  void fill(const typename P::X* from, int64_t stride, int64_t n) {
    for (int64_t r = 0; r < R; ++r)
      for (int64_t i = 0; i < kUnit; ++i) x[r * kUnit + i] = i < n ? from[r * stride + i] : P::kPad;
  }
};

/// Totals of a tile: in memory, or in registers while the tile walks a part, which halves the rows it can have.
template <class V, class P, int R, int C, bool kKeep>
struct TileTotals {
  const CodedPart<P>& part;
  const CodedRows<P>& rows;
  typename V::F kept[R][C];

  [[gnu::always_inline]] TileTotals(const CodedPart<P>& p, const CodedRows<P>& r) : part(p), rows(r) {
    if constexpr (kKeep) each([&](int row, int c, float* total) { kept[row][c] = part.first ? V::zero() : V::load(total); });
  }
  [[gnu::always_inline]] void save() const {
    if constexpr (kKeep) each([&](int row, int c, float* total) { V::store(total, kept[row][c]); });
  }
  /// total + sum * scale for one run.
  [[gnu::always_inline]] void add(int64_t run, const typename P::Sum (&sum)[R][C]) {
    const bool first = part.first && run == 0;
    each([&](int row, int c, float* total) {
      typename V::F s = V::load(part.scales + run * kPanelRows + c * V::kWidth);
      if (rows.x_scales != nullptr) s = V::mul(s, V::broadcast(rows.x_scales + row * rows.x_scale_stride + run));
      if constexpr (kKeep)
        kept[row][c] = V::fma(P::to_float(sum[row][c]), s, kept[row][c]);
      else
        V::store(total, V::fma(P::to_float(sum[row][c]), s, first ? V::zero() : V::load(total)));
    });
  }

 private:
  template <class Body>
  [[gnu::always_inline]] void each(Body&& body) const {
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) body(r, c, rows.totals + r * kPanelRows + c * V::kWidth);
  }
};

/// Where the sums of R rows come from and where they go to.
struct SumMemory {
  const uint32_t* from = nullptr;
  int64_t from_stride = 0;  // 0: all rows begin alike
};

/// R rows times C vectors of columns of one piece: one loop, so that the sums stay in registers.
template <class V, class P, int R, int C>
[[gnu::always_inline]] inline void multiply_piece(typename P::Sum (&sum)[R][C], SumMemory memory, const typename P::X* x, int64_t stride,
                                                  const uint32_t* w, int64_t steps) {
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) sum[r][c] = P::from_words(V::load_words(memory.from + r * memory.from_stride + c * V::kWidth));
  for (const uint32_t* end = w + steps * kPanelRows; w != end; w += kPanelRows, x += P::kDepth) {
    typename P::Weight b[C];
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) b[c] = P::weight(V::load_words(w + c * V::kWidth));
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      const typename P::Input a = P::input(x + r * stride);
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) sum[r][c] = P::multiply_add(sum[r][c], a, b[c]);
    }
  }
}

/// R rows times C vectors of columns of a part.
template <class V, class P, int R, int C, bool kKeep>
[[gnu::noinline]] void coded_tile(const CodedPart<P>& part, const CodedRows<P>& rows) {
  const typename P::X* x = rows.x;
  const uint32_t* w = part.words;
  bool continues = part.continues;
  PaddedInput<V, P, R> padded;
  TileTotals<V, P, R, C, kKeep> totals(part, rows);
  for (const CodedPiece* piece = part.pieces; piece != part.pieces + part.count; ++piece) {
    const int64_t steps = (piece->length + part.unit - 1) / part.unit * part.unit / P::kDepth;
    const bool whole = piece->length % part.unit == 0;
    if (!whole) padded.fill(x, rows.x_stride, piece->length);
    const SumMemory memory{.from = continues ? rows.sums : part.starts + piece->run * kPanelRows,
                           .from_stride = continues ? kPanelRows : 0};
    typename P::Sum sum[R][C];
    multiply_piece<V, P, R, C>(sum, memory, whole ? x : padded.x, whole ? rows.x_stride : padded.kUnit, w, steps);
    w += steps * kPanelRows;
    x += piece->length;
    continues = !piece->ends;
    if (piece->ends) {
      totals.add(piece->run, sum);
      continue;
    }
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) V::store_words(rows.sums + r * kPanelRows + c * V::kWidth, P::words(sum[r][c]), V::kWidth);
  }
  totals.save();
}

template <class V, class P, int R, int C, bool kKeep>
void coded_tile_rows(int64_t count, const CodedPart<P>& part, const CodedRows<P>& rows) {
  if (count == R)
    coded_tile<V, P, R, C, kKeep>(part, rows);
  else if constexpr (R > 1)
    coded_tile_rows<V, P, R - 1, C, kKeep>(count, part, rows);
}

/// Whether tiles keep totals in registers: runs are so short that totals in memory cost more than the rows do that then fit.
template <class P>
bool keeps_totals(const CodedPart<P>& part) {
  constexpr int64_t kShort = 100;  // steps
  return part.count * kShort > part.steps;
}
template <class V, class P>
int64_t coded_tile_limit(const CodedPart<P>& part) {
  return keeps_totals(part) ? P::kKeptRows : P::kRows;
}

/// All columns of the panel for `count` <= coded_tile_limit rows.
template <class V, class P>
void coded_panel_tile(int64_t count, CodedPart<P> part, CodedRows<P> rows) {
  constexpr int64_t kColumns = V::kTileVectors * V::kWidth;
  for (int64_t c = 0; c < kPanelRows; c += kColumns) {
    if (keeps_totals(part))
      coded_tile_rows<V, P, P::kKeptRows, V::kTileVectors, true>(count, part, rows);
    else
      coded_tile_rows<V, P, P::kRows, V::kTileVectors, false>(count, part, rows);
    part.words += kColumns;
    part.scales += kColumns;
    part.starts += kColumns;
    rows.totals += kColumns;
    rows.sums += kColumns;
  }
}

// --- few rows -------------------------------------------------------------------------------------------------------------------------

template <class P>
struct FewRows {
  const typename P::X* x = nullptr;
  int64_t x_stride = 0;
  const float* x_scales = nullptr;  // of the runs; null: a row has one scale or none
  int64_t x_scale_stride = 0;
  float* totals = nullptr;  // [panels][rows][kPanelRows], written
};

/// R rows times kPanels neighbouring panels, whose words are read side by side.
template <class V, class P, Code kCode, int R, int kPanels>
class FewRowsTile {
 public:
  FewRowsTile(const CodedMatrix& w, const FewRows<P>& rows, int64_t panel, int64_t panel_words)
      : w_(w), rows_(rows), panel_(panel), panel_words_(panel_words) {}

  [[gnu::noinline]] void run() const {
    typename V::F total[R][C];
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) total[r][c] = V::zero();
    const typename P::X* x = rows_.x;
    Stream words(static_cast<const uint32_t*>(w_.codes) + panel_ * panel_words_ * kPanelRows, panel_words_);
    for (int64_t run = 0, begin = 0; run < w_.runs; begin = w_.run_end[run++]) {
      Sums sums;
      sums.clear();
      typename V::I zeros[C];
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) zeros[c] = Decoder::prepare(load_zeros<V>(w_, factor_index(run, c)));
      const int64_t length = w_.run_end[run] - begin;
      for (int64_t k = 0; k + kUnit <= length; k += kUnit, x += kUnit, words.next()) multiply_word(sums, words, zeros, x, rows_.x_stride);
      if (const int64_t rest = length % kUnit; rest > 0) {
        PaddedInput<V, P, R> padded;
        padded.fill(x, rows_.x_stride, rest);
        multiply_word(sums, words, zeros, padded.x, padded.kUnit);
        x += rest;
        words.next();
      }
      add_run(sums, run, total);
    }
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) V::store(rows_.totals + (c / kVectors * R + r) * kPanelRows + c % kVectors * V::kWidth, total[r][c]);
  }

 private:
  using Decoder = typename P::template Decoder<kCode>;
  static constexpr int kVectors = kPanelRows / V::kWidth;
  static constexpr int C = kPanels * kVectors;
  static constexpr int64_t kUnit = word_codes(kCode);

  struct Sums {
    typename P::Sum sum[R][C];
    typename P::Sum bias[C];
    void clear() {
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) {
        if (P::kBiased) bias[c] = P::from_words(V::zero_words());
#pragma GCC unroll 6
        for (int r = 0; r < R; ++r) sum[r][c] = P::from_words(V::zero_words());
      }
    }
  };

  /// The words of the first panel, and what is asked of the memory meanwhile: where a panel ends, the one after those walked now goes on.
  struct Stream {
    static constexpr int64_t kAhead = 32;  // times 128 bytes
    const uint32_t* at;
    const uint32_t* ahead;
    const uint32_t* end;
    int64_t skip;
    Stream(const uint32_t* words, int64_t count)
        : at(words), ahead(words + kAhead * kPanelRows), end(words + count * kPanelRows), skip((kPanels - 1) * count * kPanelRows) {
      if (count <= kAhead) ahead += skip;
    }
    void next() {
      at += kPanelRows;
      ahead += kPanelRows;
      if (kPanels > 1 && ahead == end) ahead += skip;
    }
  };

  int64_t factor_index(int64_t run, int c) const {
    return ((panel_ + c / kVectors) * w_.runs + run) * kPanelRows + c % kVectors * V::kWidth;
  }

  [[gnu::always_inline]] void multiply_word(Sums& sums, const Stream& words, const typename V::I (&zeros)[C], const typename P::X* x,
                                            int64_t stride) const {
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) {
      const int64_t offset = c / kVectors * panel_words_ * kPanelRows + c % kVectors * V::kWidth;
      V::prefetch(words.ahead + offset);
      typename V::I steps[Decoder::kSteps];
      Decoder::decode(V::load_words(words.at + offset), zeros[c], steps);
#pragma GCC unroll 8
      for (int s = 0; s < Decoder::kSteps; ++s) {
        const typename P::Weight b = P::weight(steps[s]);
        if constexpr (P::kBiased) sums.bias[c] = P::multiply_add(sums.bias[c], P::input_of_128(), b);
#pragma GCC unroll 6
        for (int r = 0; r < R; ++r) sums.sum[r][c] = P::multiply_add(sums.sum[r][c], P::input(x + r * stride + s * P::kDepth), b);
      }
    }
  }

  void add_run(const Sums& sums, int64_t run, typename V::F (&total)[R][C]) const {
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) {
      const typename V::F scale = load_scales<V>(w_, factor_index(run, c));
#pragma GCC unroll 6
      for (int r = 0; r < R; ++r) {
        typename V::F s = scale;
        if (rows_.x_scales != nullptr) s = V::mul(s, V::broadcast(rows_.x_scales + r * rows_.x_scale_stride + run));
        typename P::Sum sum = sums.sum[r][c];
        if constexpr (P::kBiased) sum = V::sub_words(sum, sums.bias[c]);
        total[r][c] = V::fma(P::to_float(sum), s, total[r][c]);
      }
    }
  }

  const CodedMatrix& w_;
  const FewRows<P>& rows_;
  int64_t panel_;
  int64_t panel_words_;
};

}  // namespace lamina::kernels::vec
