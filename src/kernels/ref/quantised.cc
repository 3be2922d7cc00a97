#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/float8.h"
#include "kernels/ref/ref.h"
#include "kernels/tables.h"
#include "kernels/words.h"

namespace lamina::kernels::ref {
namespace {

/// x[row, k] in f32: of codes plus 128 the code.
float element(const Activation& x, int64_t row, int64_t k) {
  const int64_t i = row * x.stride + k;
  if (x.dtype == DType::kF32) return static_cast<const float*>(x.data)[i];
  if (x.dtype == DType::kBF16) return bf16_to_f32(static_cast<const uint16_t*>(x.data)[i]);
  return static_cast<float>(static_cast<const uint8_t*>(x.data)[i]) - 128.0F;
}

/// The sum over one run of one output. Products of codes are integers and their sums exact in i32.
class RunSum {
 public:
  RunSum(const Activation& x, const CodedMatrix& w, const CodeRow& codes) : x_(x), w_(w), codes_(codes) {}
  float run(int64_t row, int64_t begin, int64_t length, int64_t word, int zero) const {
    if (x_.dtype == DType::kU8) {
      int32_t sum = 0;
      for (int64_t i = 0; i < length; ++i)
        sum += static_cast<int>(element(x_, row, begin + i)) * (static_cast<int>(decode(w_.code, codes_.at(word, i))) - zero);
      return static_cast<float>(sum);
    }
    float sum = 0.0F;
    for (int64_t i = 0; i < length; ++i)
      sum += element(x_, row, begin + i) * (decode(w_.code, codes_.at(word, i)) - static_cast<float>(zero));
    return sum;
  }

 private:
  const Activation& x_;
  const CodedMatrix& w_;
  const CodeRow& codes_;
};

float one_output(const Activation& x, const CodedMatrix& w, int64_t row, int64_t n) {
  const CodeRow codes(w, n);
  const RunSum sums(x, w, codes);
  const bool scaled_runs = x.scales.cols > 1;
  float total = 0.0F;
  for (int64_t run = 0, begin = 0, word = 0; run < w.runs; ++run) {
    const int64_t length = w.run_end[run] - begin;
    const RunFactors factors = run_factors(w, n, run);
    const float scale = scaled_runs ? factors.scale * x.scales.at(row, run) : factors.scale;
    total += sums.run(row, begin, length, word, factors.zero) * scale;
    begin += length;
    word += run_words(w.code, length);
  }
  if (x.scales.data != nullptr && !scaled_runs) total *= x.scales.at(row, 0);
  return w.row_scales != nullptr ? total * w.row_scales[n] : total;
}

void coded_panels(const Activation& x, const CodedMatrix& w, const float* bias, F32View out, int64_t panel_begin, int64_t panel_end) {
  for (int64_t n = panel_begin * kPanelRows; n < std::min(w.n, panel_end * kPanelRows); ++n)
    for (int64_t row = 0; row < x.rows; ++row) out.at(row, n) = one_output(x, w, row, n) + (bias != nullptr ? bias[n] : 0.0F);
}

void run_maxima(ConstF32View x, Run<int32_t> run_end, F32View maxima) {
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t run = 0, c = 0; run < run_end.size; ++run) {
      float best = 0.0F;
      for (; c < run_end.data[run]; ++c)
        best = std::isnan(x.at(r, c)) ? std::numeric_limits<float>::quiet_NaN()
               : std::isnan(best)     ? best
                                      : std::max(best, std::fabs(x.at(r, c)));
      maxima.at(r, run) = best;
    }
}

void quantise(ConstF32View x, Run<int32_t> run_end, ConstF32View scales, MutableActivation out) {
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t run = 0, c = 0; run < run_end.size; ++run)
      for (; c < run_end.data[run]; ++c) {
        const float value = x.at(r, c) / scales.at(r, run);
        if (out.dtype == DType::kBF16)
          out.store(r, c, e4m3_to_f32(f32_to_e4m3(value)));
        else
          static_cast<uint8_t*>(out.data)[r * out.stride + c] =
              static_cast<uint8_t>(128.0F + std::nearbyint(std::fmin(std::fmax(value, -128.0F), 127.0F)));
      }
}

}  // namespace
}  // namespace lamina::kernels::ref

namespace lamina::kernels {

constinit const QuantisedKernels kRefQuantised{
    .matmul_panels = ref::coded_panels, .run_maxima = ref::run_maxima, .quantise = ref::quantise};

}  // namespace lamina::kernels
