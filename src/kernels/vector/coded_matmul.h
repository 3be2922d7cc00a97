#pragma once
// Blocking of the matmul over codes.

#include "kernels/quantised.h"
#include "kernels/vector/coded_tile.h"

namespace lamina::kernels::vec {

template <class V, class P, Code kCode>
class CodedMatmul {
 public:
  using X = typename P::X;
  CodedMatmul(const Activation& x, const CodedMatrix& w, const float* bias, F32View out)
      : x_(x), w_(w), bias_(bias), out_(out), run_scales_(x.scales.cols > 1) {
    for (int64_t run = 0, begin = 0; run < w.runs; begin = w.run_end[run++]) panel_words_ += words_of(w.run_end[run] - begin);
  }

  void run(int64_t panel_begin, int64_t panel_end) {
    if (x_.rows <= P::kFewRows) return few_rows<P::kFewRows>(0, x_.rows, panel_begin, panel_end);
    if (x_.rows <= 2 * P::kFewRows) {
      const int64_t half = x_.rows / 2;
      few_rows<P::kFewRows>(0, half, panel_begin, panel_end);
      return few_rows<P::kFewRows>(half, x_.rows - half, panel_begin, panel_end);
    }
    for (int64_t row = 0; row < x_.rows; row += kRowBlock) {
      const int64_t rows = least<V>(kRowBlock, x_.rows - row);
      for (int64_t panel = panel_begin; panel < panel_end; ++panel) many_rows(panel, row, rows);
    }
  }

 private:
  using Decoder = typename P::template Decoder<kCode>;
  using Tile = typename P::Tile;
  static constexpr int64_t kUnit = word_codes(kCode);
  static constexpr int64_t kRowBlock = 192;   // rows whose totals and sums stay in the first-level cache
  static constexpr int64_t kMostSteps = 512;  // 16 KiB of decoded words
  static constexpr bool kInPlace = kCode == Code::kInt8 && Decoder::kSteps == 1;  // words of codes are what is multiplied
  static constexpr int64_t kMostWords = kInPlace ? 2048 : kMostSteps / Decoder::kSteps;
  static constexpr int64_t kMostPieces = 128;

  static int64_t words_of(int64_t length) { return (length + kUnit - 1) / kUnit; }
  const X* x_row(int64_t row) const { return static_cast<const X*>(x_.data) + row * x_.stride; }
  const float* run_scales(int64_t row, int64_t run) const { return run_scales_ ? x_.scales.data + row * x_.scales.stride + run : nullptr; }

  // --- few rows
  template <int R>
  void few_rows(int64_t row, int64_t count, int64_t panel, int64_t end) {
    if constexpr (R > 1)
      if (count < R) return few_rows<R - 1>(row, count, panel, end);
    if constexpr (R <= P::kTwoPanelRows)
      for (; panel + 2 <= end; panel += 2) few_rows_of<R, 2>(row, panel);
    for (; panel < end; ++panel) few_rows_of<R, 1>(row, panel);
  }
  template <int R, int kPanels>
  void few_rows_of(int64_t row, int64_t panel) {
    const FewRows<P> rows{
        .x = x_row(row), .x_stride = x_.stride, .x_scales = run_scales(row, 0), .x_scale_stride = x_.scales.stride, .totals = totals_};
    FewRowsTile<V, P, kCode, R, kPanels>(w_, rows, panel, panel_words_).run();
    for (int p = 0; p < kPanels; ++p) store_out(totals_ + p * R * kPanelRows, panel + p, row, R);
  }

  // --- many rows
  void many_rows(int64_t panel, int64_t row, int64_t rows) {
    const uint32_t* words = static_cast<const uint32_t*>(w_.codes) + panel * panel_words_ * kPanelRows;
    part_.continues = false;
    for (int64_t run = 0, k = 0; run < w_.runs;) {
      const int64_t first_run = run;
      const int64_t first_k = k;
      cut_part(run, k);
      decode_part(panel, first_run, words);
      part_.first = first_run == 0;
      multiply_part(row, rows, first_k, first_run);
      part_.continues = !pieces_[part_.count - 1].ends;
    }
    store_out(totals_, panel, row, rows);
  }

  /// The next part's pieces from `k`, in `run`; leaves both where the part ends.
  void cut_part(int64_t& run, int64_t& k) {
    const int64_t first_run = run;
    int64_t room = kMostWords;
    part_.count = 0;
    while (run < w_.runs && room > 0 && part_.count + 2 <= kMostPieces) {
      const int64_t length = least<V>(w_.run_end[run] - k, room * kUnit);
      room -= words_of(length);
      k += length;
      const bool ends = k == w_.run_end[run];
      const int64_t rest = length % kUnit;
      if (length > rest) pieces_[part_.count++] = {.length = length - rest, .run = run - first_run, .ends = ends && rest == 0};
      if (rest > 0) pieces_[part_.count++] = {.length = rest, .run = run - first_run, .ends = ends};
      if (ends) ++run;
    }
  }

  /// Decodes the part that begins at `words`, in `run`; leaves `words` behind it.
  void decode_part(int64_t panel, int64_t run, const uint32_t*& words) {
    const uint32_t* from = words;
    uint32_t* to = decoded_;
    part_.words = kInPlace ? from : decoded_;
    for (int64_t piece = 0; piece < part_.count;) {
      const int64_t part_run = pieces_[piece].run;
      int64_t count = 0;
      for (; piece < part_.count && pieces_[piece].run == part_run; ++piece) count += words_of(pieces_[piece].length);
      for (int64_t c = 0; c < kPanelRows; c += V::kWidth) {
        const int64_t factors = (panel * w_.runs + run + part_run) * kPanelRows + c;
        V::store(scales_ + part_run * kPanelRows + c, load_scales<V>(w_, factors));
        decode_run(from + c, count, Decoder::prepare(load_zeros<V>(w_, factors)), to + c, starts_ + part_run * kPanelRows + c);
      }
      from += count * kPanelRows;
      to += count * Decoder::kSteps * kPanelRows;
    }
    part_.steps = (from - words) / kPanelRows * Decoder::kSteps;
    words = from;
  }

  void decode_run(const uint32_t* from, int64_t count, typename V::I zero, uint32_t* to, uint32_t* start) {
    typename V::I bias = V::zero_words();
    for (; count > 0; --count, from += kPanelRows) {
      V::prefetch(from + 32 * kPanelRows);
      typename V::I steps[Decoder::kSteps];
      Decoder::decode(V::load_words(from), zero, steps);
#pragma GCC unroll 8
      for (int s = 0; s < Decoder::kSteps; ++s, to += kPanelRows) {
        if constexpr (!kInPlace) V::store_words(to, steps[s], V::kWidth);
        if constexpr (P::kBiased) bias = P::multiply_add(bias, P::input_of_128(), P::weight(steps[s]));
      }
    }
    V::store_words(start, V::sub_words(V::zero_words(), bias), V::kWidth);
  }

  /// Sums that go on begin again with what this part's codes are biased by.
  void correct_sums(int64_t rows) {
    for (int64_t c = 0; c < kPanelRows; c += V::kWidth)
      for (int64_t r = 0; r < rows; ++r) {
        uint32_t* sum = sums_ + r * kPanelRows + c;
        V::store_words(sum, V::add_words(V::load_words(sum), V::load_words(starts_ + c)), V::kWidth);
      }
  }

  void multiply_part(int64_t row, int64_t rows, int64_t k, int64_t run) {
    if (P::kBiased && part_.continues) correct_sums(rows);
    part_.scales = scales_, part_.starts = starts_, part_.pieces = pieces_, part_.unit = kUnit;
    const int64_t limit = coded_tile_limit<V, Tile>(part_);
    for (int64_t r = 0; r < rows;) {
      const int64_t tiles = (rows - r + limit - 1) / limit;  // even shares, as tile_share
      const int64_t count = (rows - r + tiles - 1) / tiles;
      CodedRows<Tile> tile{.x_scales = run_scales(row + r, run),
                           .x_scale_stride = x_.scales.stride,
                           .totals = totals_ + r * kPanelRows,
                           .sums = sums_ + r * kPanelRows};
      set_input(x_row(row + r) + k, count, tile);
      coded_panel_tile<V, Tile>(count, part_, tile);
      r += count;
    }
  }

  /// The part's values of `count` rows, as the tile takes them.
  void set_input(const typename Tile::X* x, int64_t, CodedRows<Tile>& tile) { tile.x = x, tile.x_stride = x_.stride; }
  void set_input(const uint16_t* x, int64_t count, CodedRows<FloatProduct<V, float>>& tile) {
    int64_t length = 0;  // less than the part's steps where a piece ends within a word of codes
    for (int64_t piece = 0; piece < part_.count; ++piece) length += pieces_[piece].length;
    for (int64_t r = 0; r < count; ++r)
      for (int64_t i = 0; i < length; i += V::kWidth) {
        const int64_t n = least<V>(V::kWidth, length - i);
        V::store(expanded_ + r * kMostSteps + i,
                 n == V::kWidth ? V::load_bf16(x + r * x_.stride + i) : V::load_bf16_n(x + r * x_.stride + i, n));
      }
    tile.x = expanded_, tile.x_stride = kMostSteps;
  }

  /// Totals of `rows` rows times what scales whole rows, plus the bias.
  void store_out(const float* totals, int64_t panel, int64_t row, int64_t rows) const {
    const int64_t column = panel * kPanelRows;
    for (int64_t c = 0; c < least<V>(kPanelRows, w_.n - column); c += V::kWidth) {
      const int64_t n = w_.n - column - c;
      const auto bias = bias_ == nullptr ? V::zero() : load_columns<V>(bias_ + column + c, n);
      for (int64_t r = 0; r < rows; ++r) {
        auto v = V::load(totals + r * kPanelRows + c);
        if (x_.scales.data != nullptr && !run_scales_) v = V::mul(v, V::set1(x_.scales.data[(row + r) * x_.scales.stride]));
        if (w_.row_scales != nullptr) v = V::mul(v, V::load(w_.row_scales + column + c));
        if (bias_ != nullptr) v = V::add(v, bias);
        float* out = out_.data + (row + r) * out_.stride + column + c;
        if (n >= V::kWidth)
          V::store(out, v);
        else
          V::store_n(out, v, n);
      }
    }
  }

  const Activation& x_;
  const CodedMatrix& w_;
  const float* bias_;
  F32View out_;
  bool run_scales_;
  int64_t panel_words_ = 0;
  CodedPart<Tile> part_;
  CodedPiece pieces_[kMostPieces];
  alignas(64) uint32_t decoded_[kMostSteps * kPanelRows];
  alignas(64) float scales_[kMostPieces * kPanelRows];
  alignas(64) uint32_t starts_[kMostPieces * kPanelRows];
  alignas(64) float totals_[kRowBlock * kPanelRows];
  alignas(64) uint32_t sums_[kRowBlock * kPanelRows];
  static constexpr bool kExpands = sizeof(X) < sizeof(typename Tile::X);
  alignas(64) float expanded_[kExpands ? Tile::kRows * kMostSteps : 1];
};

template <class V, class P, Code kCode>
void coded_panels_of(const Activation& x, const CodedMatrix& w, const float* bias, F32View out, int64_t begin, int64_t end) {
  CodedMatmul<V, P, kCode>(x, w, bias, out).run(begin, end);
}

template <class V, class P>
void coded_panels_of(const Activation& x, const CodedMatrix& w, const float* bias, F32View out, int64_t begin, int64_t end) {
  switch (w.code) {
    case Code::kInt8:
      return coded_panels_of<V, P, Code::kInt8>(x, w, bias, out, begin, end);
    case Code::kUInt8:
      return coded_panels_of<V, P, Code::kUInt8>(x, w, bias, out, begin, end);
    case Code::kInt4:
      return coded_panels_of<V, P, Code::kInt4>(x, w, bias, out, begin, end);
    case Code::kFp8E4m3:
      return coded_panels_of<V, P, Code::kFp8E4m3>(x, w, bias, out, begin, end);
    case Code::kFp4E2m1:
      return coded_panels_of<V, P, Code::kFp4E2m1>(x, w, bias, out, begin, end);
  }
}

template <class V>
void coded_panels(const Activation& x, const CodedMatrix& w, const float* bias, F32View out, int64_t begin, int64_t end) {
  if (x.dtype == DType::kF32) return coded_panels_of<V, FloatProduct<V, float>>(x, w, bias, out, begin, end);
  if (x.dtype == DType::kBF16) return coded_panels_of<V, typename V::Bf16Product>(x, w, bias, out, begin, end);
  if (w.code == Code::kInt8) return coded_panels_of<V, ByteProduct<V>, Code::kInt8>(x, w, bias, out, begin, end);
  LAMINA_CHECK(w.code == Code::kInt4, "int8 activations multiply int8 and int4 codes");
  coded_panels_of<V, typename V::Int4Product, Code::kInt4>(x, w, bias, out, begin, end);
}

}  // namespace lamina::kernels::vec
