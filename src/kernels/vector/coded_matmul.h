#pragma once
// Blocking of the matmul over codes.

#include "kernels/quantised.h"
#include "kernels/vector/coded_tile.h"

namespace lamina::kernels::vec {

template <class V, class P, Code kCode>
class CodedMatmul {
 public:
  using X = typename P::X;
  CodedMatmul(const CodedActivation& x, const CodedMatrix& w, const float* bias, F32View out)
      : x_(x), w_(w), bias_(bias), out_(out), run_scales_(x.scales.cols > 1) {
    for (int64_t run = 0, begin = 0; run < w.runs; begin = w.run_end[run++]) panel_words_ += words_of(w.run_end[run] - begin);
  }

  void run(int64_t panel_begin, int64_t panel_end) {
    if (x_.rows <= V::kFewRows) return few_rows<V::kFewRows>(panel_begin, panel_end);
    for (int64_t row = 0; row < x_.rows; row += kRowBlock) {
      const int64_t rows = least<V>(kRowBlock, x_.rows - row);
      for (int64_t panel = panel_begin; panel < panel_end; ++panel) many_rows(panel, row, rows);
    }
  }

 private:
  using Decoder = typename P::template Decoder<kCode>;
  static constexpr int64_t kUnit = word_codes(kCode);
  static constexpr int64_t kRowBlock = 96;    // rows whose totals and sums stay in the first-level cache
  static constexpr int64_t kMostSteps = 128;  // 16 KiB of decoded words
  static constexpr int64_t kMostWords = kMostSteps / Decoder::kSteps;
  static constexpr int64_t kMostPieces = 32;

  static int64_t words_of(int64_t length) { return (length + kUnit - 1) / kUnit; }
  const X* x_row(int64_t row) const { return static_cast<const X*>(x_.data) + row * x_.stride; }
  const float* run_scales(int64_t row, int64_t run) const { return run_scales_ ? x_.scales.data + row * x_.scales.stride + run : nullptr; }

  // --- few rows
  template <int R>
  void few_rows(int64_t panel, int64_t end) {
    if constexpr (R > 1)
      if (x_.rows < R) return few_rows<R - 1>(panel, end);
    if constexpr (V::kFewPanels > 1)
      for (; panel + V::kFewPanels <= end; panel += V::kFewPanels) few_rows_of<R, V::kFewPanels>(panel);
    for (; panel < end; ++panel) few_rows_of<R, 1>(panel);
  }
  template <int R, int kPanels>
  void few_rows_of(int64_t panel) {
    const FewRows<P> rows{
        .x = x_row(0), .x_stride = x_.stride, .x_scales = run_scales(0, 0), .x_scale_stride = x_.scales.stride, .totals = totals_};
    FewRowsTile<V, P, kCode, R, kPanels>(w_, rows, panel, panel_words_).run();
    for (int p = 0; p < kPanels; ++p) store_out(totals_ + p * R * kPanelRows, panel + p, 0, R);
  }

  // --- many rows
  void many_rows(int64_t panel, int64_t row, int64_t rows) {
    const uint32_t* words = static_cast<const uint32_t*>(w_.codes) + panel * panel_words_ * kPanelRows;
    int64_t run = 0;
    int64_t k = 0;
    part_.breaks_off = false;
    while (run < w_.runs) {
      const int64_t first_run = run;
      const int64_t first_k = k;
      words += cut_part(run, k) * kPanelRows;
      decode_part(panel, first_run, words - part_words_ * kPanelRows);
      part_.first = first_run == 0;
      multiply_part(row, rows, first_k, first_run);
    }
    store_out(totals_, panel, row, rows);
  }

  /// Lengths of the next part's pieces from `k`, in `run`; leaves both where the part ends. Returns its words of codes.
  int64_t cut_part(int64_t& run, int64_t& k) {
    part_.continues = part_.breaks_off;
    part_.breaks_off = false;
    part_.pieces = 0;
    part_words_ = 0;
    while (run < w_.runs && part_.pieces < kMostPieces && part_words_ < kMostWords) {
      const int64_t length = least<V>(w_.run_end[run] - k, (kMostWords - part_words_) * kUnit);
      lengths_[part_.pieces++] = length;
      part_words_ += words_of(length);
      k += length;
      part_.breaks_off = k < w_.run_end[run];
      if (!part_.breaks_off) ++run;
    }
    return part_words_;
  }

  void decode_part(int64_t panel, int64_t run, const uint32_t* words) {
    for (int64_t c = 0; c < kPanelRows; c += V::kWidth) {
      const uint32_t* from = words + c;
      uint32_t* to = decoded_ + c;
      for (int64_t piece = 0; piece < part_.pieces; ++piece) {
        const int64_t i = (panel * w_.runs + run + piece) * kPanelRows + c;
        V::store(scales_ + piece * kPanelRows + c, load_scales<V>(w_, i));
        const typename V::I zero = Decoder::prepare(load_zeros<V>(w_, i));
        auto bias = V::zero_words();
        for (int64_t n = words_of(lengths_[piece]); n > 0; --n, from += kPanelRows) {
          typename V::I steps[Decoder::kSteps];
          Decoder::decode(V::load_words(from), zero, steps);
#pragma GCC unroll 8
          for (int s = 0; s < Decoder::kSteps; ++s, to += kPanelRows) {
            V::store_words(to, steps[s], V::kWidth);
            if constexpr (P::kBiased) bias = P::multiply_add(bias, V::bytes_of_128(), P::weight(steps[s]));
          }
        }
        if (P::kBiased) V::store_words(biases_ + piece * kPanelRows + c, V::sub_words(V::zero_words(), bias), V::kWidth);
      }
    }
  }

  void multiply_part(int64_t row, int64_t rows, int64_t k, int64_t run) {
    part_.words = decoded_, part_.scales = scales_, part_.biases = biases_, part_.lengths = lengths_, part_.unit = kUnit;
    for (int64_t r = 0; r < rows;) {
      const int64_t count = tile_share<V, P>(rows - r);
      const CodedRows<P> tile{.x = x_row(row + r) + k,
                              .x_stride = x_.stride,
                              .x_scales = run_scales(row + r, run),
                              .x_scale_stride = x_.scales.stride,
                              .totals = totals_ + r * kPanelRows,
                              .sums = sums_ + r * kPanelRows};
      coded_panel_tile<V, P>(count, part_, tile);
      r += count;
    }
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

  const CodedActivation& x_;
  const CodedMatrix& w_;
  const float* bias_;
  F32View out_;
  bool run_scales_;
  int64_t panel_words_ = 0;
  int64_t part_words_ = 0;
  CodedPart<P> part_;
  int64_t lengths_[kMostPieces];
  alignas(64) uint32_t decoded_[kMostSteps * kPanelRows];
  alignas(64) float scales_[kMostPieces * kPanelRows];
  alignas(64) int32_t biases_[kMostPieces * kPanelRows];
  alignas(64) float totals_[kRowBlock * kPanelRows];
  alignas(64) uint32_t sums_[kRowBlock * kPanelRows];
};

template <class V, class P, Code kCode>
void coded_panels_of(const CodedActivation& x, const CodedMatrix& w, const float* bias, F32View out, int64_t begin, int64_t end) {
  CodedMatmul<V, P, kCode>(x, w, bias, out).run(begin, end);
}

template <class V, class P>
void coded_panels_of(const CodedActivation& x, const CodedMatrix& w, const float* bias, F32View out, int64_t begin, int64_t end) {
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
void coded_panels(const CodedActivation& x, const CodedMatrix& w, const float* bias, F32View out, int64_t begin, int64_t end) {
  if (x.dtype == DType::kF32) return coded_panels_of<V, FloatProduct<V, float>>(x, w, bias, out, begin, end);
  if (x.dtype == DType::kBF16) return coded_panels_of<V, typename V::Bf16Product>(x, w, bias, out, begin, end);
  if (w.code == Code::kInt8) return coded_panels_of<V, ByteProduct<V>, Code::kInt8>(x, w, bias, out, begin, end);
  LAMINA_CHECK(w.code == Code::kInt4, "int8 activations multiply int8 and int4 codes");
  coded_panels_of<V, ByteProduct<V>, Code::kInt4>(x, w, bias, out, begin, end);
}

}  // namespace lamina::kernels::vec
