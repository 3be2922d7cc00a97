#pragma once
// Weights to codes. A lane works through a group (int4) or rounds an element (8 bits) by itself, without fused multiply-adds, so that all
// paths give the same bits.

#include "kernels/quantise_weights.h"
#include "kernels/vector/quantise.h"

namespace lamina::kernels::vec {

template <class V>
typename V::F magnitude(typename V::F v) {
  return V::as_floats(V::both(V::as_words(v), V::set1_word(0x7FFFFFFF)));
}

/// A finite scale in the type it is kept in.
template <class V>
typename V::F round_scale(typename V::F scale, DType dtype) {
  if (dtype == DType::kF32) return scale;
  const typename V::I bits = V::as_words(scale);
  const typename V::I odd = V::both(V::template shift_right<16>(bits), V::set1_word(1));
  return V::as_floats(V::both(V::add_words(bits, V::add_words(odd, V::set1_word(0x7FFF))), V::set1_word(0xFFFF0000)));
}

/// 1 for a group without weights above kLeastWeight; a value that is not finite for a group that holds one.
template <class V>
typename V::F settle_scale(typename V::F largest, typename V::F scale) {
  const typename V::I size = V::as_words(magnitude<V>(largest));
  scale = V::select_less(size, V::as_words(V::set1(kLeastWeight)), V::set1(1.0F), scale);
  return V::select_less(V::set1_word(0x7F7FFFFF), size, largest, scale);
}

// --- 8 bits: a row or group at a time ----------------------------------------------------------------------------------------------

template <class V>
typename V::I int8_codes(typename V::F v) {
  return V::to_nearest(V::max(V::min(v, V::set1(127.0F)), V::set1(-127.0F)));
}

template <class V>
typename V::I e4m3_codes(typename V::F v) {
  constexpr uint32_t kLeastNormal = 0x3C800000;  // 2^-6
  const typename V::F rounded = round_e4m3<V>(v);
  const typename V::F size = magnitude<V>(rounded);
  const typename V::I normal = V::sub_words(V::template shift_right<20>(V::as_words(size)), V::set1_word((127 - 7) << 3));
  const typename V::I small = V::to_nearest(V::mul(size, V::set1(512.0F)));
  const typename V::F code = V::select_less(V::as_words(size), V::set1_word(kLeastNormal), V::as_floats(small), V::as_floats(normal));
  const typename V::I sign = V::both(V::template shift_right<24>(V::as_words(rounded)), V::set1_word(0x80));
  return V::either(V::as_words(code), sign);
}

/// Calls code(c, v) -> words for the vectors of x and stores the lowest byte of each word.
template <class V, class F>
void store_codes(const float* x, int64_t count, uint8_t* out, F&& code) {
  for (int64_t c = 0; c < count; c += V::kWidth) {
    const int64_t n = least<V>(V::kWidth, count - c);
    const typename V::F v = n == V::kWidth ? V::load(x + c) : V::load_n(x + c, n);
    V::store_bytes(out + c, V::both(code(v), V::set1_word(0xFF)), n);
  }
}

template <class V>
float quantise_8_bits(const WeightQuant& rule, const float* x, int64_t count, uint8_t* out) {
  const typename V::F largest = V::set1(run_maximum<V>(x, count));
  const typename V::F steps = V::set1(rule.code == Code::kInt8 ? 127.0F : 448.0F);
  const typename V::F scale = settle_scale<V>(largest, round_scale<V>(V::div(largest, steps), rule.scale_dtype));
  if (rule.code == Code::kInt8)
    store_codes<V>(x, count, out, [&](typename V::F v) { return int8_codes<V>(V::div(v, scale)); });
  else
    store_codes<V>(x, count, out, [&](typename V::F v) { return e4m3_codes<V>(V::div(v, scale)); });
  return V::lane0(scale);
}

// --- int4: a group a lane ------------------------------------------------------------------------------------------------------------

/// Weights of kWidth groups: [k, lane], zeros where a group is short, which change no sum.
template <class V>
struct GroupTile {
  alignas(64) float w[kMostInt4Group * V::kWidth];
  int64_t length = 0;

  typename V::F at(int64_t k) const { return V::load(w + k * V::kWidth); }
};

/// The value of largest size of each group.
template <class V>
typename V::F extremes(const GroupTile<V>& tile) {
  typename V::F best = V::zero();
  for (int64_t k = 0; k < tile.length; ++k) {
    const typename V::F v = tile.at(k);
    best = V::select_less(V::as_words(magnitude<V>(best)), V::as_words(magnitude<V>(v)), v, best);
  }
  return best;
}

template <class V>
typename V::F int4_level(typename V::F w, typename V::F inverse) {
  return V::max(V::min(V::round(V::mul(w, inverse)), V::set1(7.0F)), V::set1(-8.0F));
}

template <class V>
typename V::F squared_error(const GroupTile<V>& tile, typename V::F scale) {
  const typename V::F inverse = V::div(V::set1(1.0F), scale);
  typename V::F sum = V::zero();
  for (int64_t k = 0; k < tile.length; ++k) {
    const typename V::F v = tile.at(k);
    const typename V::F error = V::sub(v, V::mul(int4_level<V>(v, inverse), scale));
    sum = V::add(sum, V::mul(error, error));
  }
  return magnitude<V>(sum);  // a NaN is above all numbers
}

/// The scale for which the codes of `scale` come closest.
template <class V>
typename V::F fitted_scale(const GroupTile<V>& tile, typename V::F scale) {
  const typename V::F inverse = V::div(V::set1(1.0F), scale);
  typename V::F product = V::zero(), square = V::zero();
  for (int64_t k = 0; k < tile.length; ++k) {
    const typename V::F v = tile.at(k);
    const typename V::F level = int4_level<V>(v, inverse);
    product = V::add(product, V::mul(v, level));
    square = V::add(square, V::mul(level, level));
  }
  return V::div(product, square);
}

template <class V>
typename V::F int4_scales(const GroupTile<V>& tile, DType dtype) {
  const typename V::F extreme = extremes<V>(tile);
  const typename V::F unit = V::div(extreme, V::set1(-7.0F));
  typename V::F best = round_scale<V>(unit, dtype);
  typename V::F least_error = squared_error<V>(tile, best);
  const auto attempt = [&](typename V::F scale) {
    const typename V::F error = squared_error<V>(tile, scale);
    best = V::select_less(V::as_words(error), V::as_words(least_error), scale, best);
    least_error = V::select_less(V::as_words(error), V::as_words(least_error), error, least_error);
  };
  for (const float step : kInt4Steps) attempt(round_scale<V>(V::mul(unit, V::set1(step)), dtype));
  for (int i = 0; i < kInt4Refinements; ++i) attempt(round_scale<V>(fitted_scale<V>(tile, best), dtype));
  return settle_scale<V>(extreme, best);
}

/// One group of a matrix; none beyond the last row.
template <class V>
struct Group {
  const float* w = nullptr;
  int64_t count = 0;
  int64_t row = 0, col = 0;
};

template <class V>
Group<V> group_at(const WeightQuant& rule, ConstF32View rows, int64_t index) {
  const int64_t groups = (rows.cols + rule.group - 1) / rule.group;
  const int64_t row = index / groups, col = index % groups * rule.group;
  if (row >= rows.rows) return {};
  return {.w = rows.data + row * rows.stride + col, .count = least<V>(rule.group, rows.cols - col), .row = row, .col = col};
}

template <class V>
void fill(GroupTile<V>& tile, int64_t lane, const Group<V>& group) {
  for (int64_t k = 0; k < group.count; ++k) tile.w[k * V::kWidth + lane] = group.w[k];
  for (int64_t k = group.count; k < tile.length; ++k) tile.w[k * V::kWidth + lane] = 0.0F;
}

template <class V>
void quantise_int4(const WeightQuant& rule, ConstF32View rows, uint8_t* codes, F32View scales) {
  GroupTile<V> tile;
  tile.length = least<V>(rule.group, rows.cols);
  for (int64_t first = 0; group_at<V>(rule, rows, first).count > 0; first += V::kWidth) {
    for (int64_t lane = 0; lane < V::kWidth; ++lane) fill<V>(tile, lane, group_at<V>(rule, rows, first + lane));
    float found[V::kWidth];
    V::store(found, int4_scales<V>(tile, rule.scale_dtype));
    for (int64_t lane = 0; lane < V::kWidth; ++lane) {
      const Group<V> group = group_at<V>(rule, rows, first + lane);
      if (group.count == 0) break;
      scales.data[group.row * scales.stride + group.col / rule.group] = found[lane];
      const typename V::F inverse = V::set1(1.0F / found[lane]);
      store_codes<V>(group.w, group.count, codes + group.row * rows.cols + group.col,
                     [&](typename V::F v) { return V::add_words(V::to_nearest(int4_level<V>(v, inverse)), V::set1_word(8)); });
    }
  }
}

template <class V>
void quantise_weights(const WeightQuant& rule, ConstF32View rows, uint8_t* codes, F32View scales) {
  if (rule.code == Code::kInt4) return quantise_int4<V>(rule, rows, codes, scales);
  const int64_t group = rule.group == 0 ? rows.cols : rule.group;
  for (int64_t r = 0; r < rows.rows; ++r)
    for (int64_t c = 0; c < rows.cols; c += group) {
      const int64_t count = least<V>(group, rows.cols - c);
      scales.data[r * scales.stride + c / group] =
          quantise_8_bits<V>(rule, rows.data + r * rows.stride + c, count, codes + r * rows.cols + c);
    }
}

}  // namespace lamina::kernels::vec
