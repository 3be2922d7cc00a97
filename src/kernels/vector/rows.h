#pragma once
// Operations on rows. A row's result never depends on other rows; its sums use one chain a lane, then V's fixed tree of lanes.

#include "kernels/vector/lanes.h"
#include "kernels/vector/math.h"

namespace lamina::kernels::vec {

/// Calls f(pointer of the output row's element type, typed) with out's row r.
template <class V, class F>
void with_row(const MutableActivation& out, int64_t r, F&& f) {
  if (out.dtype == DType::kF32)
    f(static_cast<float*>(out.data) + r * out.stride);
  else
    f(static_cast<uint16_t*>(out.data) + r * out.stride);
}

template <class V>
float inverse_rms(typename V::F squares, int64_t cols, float eps) {
  return 1.0F / __builtin_sqrtf(V::sum(squares) / static_cast<float>(cols) + eps);
}

template <class V>
auto sum_of_squares(const float* x, int64_t cols) {
  typename V::F sum = V::zero();
  each_vector<V>(cols, [&](int64_t c, auto lanes) {
    const auto v = load<V>(x + c, lanes);
    sum = V::fma(v, v, sum);
  });
  return sum;
}

/// out = x * scale * weight; out may be x.
template <class V, class Out>
void scale_row(const float* x, float scale, const float* weight, int64_t cols, Out* out) {
  const typename V::F s = V::set1(scale);
  each_vector<V>(
      cols, [&](int64_t c, auto lanes) { store<V>(out + c, V::mul(V::mul(load<V>(x + c, lanes), s), load<V>(weight + c, lanes)), lanes); });
}

template <class V>
void rms_norm(ConstF32View x, const RmsNormArgs& args, MutableActivation out) {
  for (int64_t r = 0; r < x.rows; ++r) {
    const float* row = x.data + r * x.stride;
    const float scale = inverse_rms<V>(sum_of_squares<V>(row, x.cols), x.cols, args.eps);
    with_row<V>(out, r, [&](auto* o) { scale_row<V>(row, scale, args.weight, x.cols, o); });
  }
}

template <class V>
void add_rms_norm(F32View residual, const Addends& addends, const RmsNormArgs& args, MutableActivation out) {
  const int64_t cols = residual.cols;
  const auto part_row = [&](int64_t part, int64_t r) {
    return addends.parts[part].data + (addends.first_row + r) * addends.parts[part].stride;
  };
  for (int64_t r = 0; r < residual.rows; ++r) {
    float* row = residual.data + r * residual.stride;
    const float* first = part_row(0, r);
    typename V::F sum = V::zero();
    each_vector<V>(cols, [&](int64_t c, auto lanes) {
      auto total = load<V>(first + c, lanes);
      for (int64_t p = 1; p < addends.count; ++p) total = V::add(total, load<V>(part_row(p, r) + c, lanes));
      const auto v = V::add(load<V>(row + c, lanes), total);
      store<V>(row + c, v, lanes);
      sum = V::fma(v, v, sum);
    });
    const float scale = inverse_rms<V>(sum, cols, args.eps);
    with_row<V>(out, r, [&](auto* o) { scale_row<V>(row, scale, args.weight, cols, o); });
  }
}

template <class V>
void add_rows(F32View residual, ConstF32View x) {
  for (int64_t r = 0; r < x.rows; ++r) {
    float* row = residual.data + r * residual.stride;
    const float* add = x.data + r * x.stride;
    each_vector<V>(x.cols,
                   [&](int64_t c, auto lanes) { store<V>(row + c, V::add(load<V>(row + c, lanes), load<V>(add + c, lanes)), lanes); });
  }
}

template <class V>
void head_rms_norm(F32View x, int heads, int head_dim, const RmsNormArgs& args) {
  for (int64_t r = 0; r < x.rows; ++r)
    for (int h = 0; h < heads; ++h) {
      float* head = x.data + r * x.stride + static_cast<int64_t>(h) * head_dim;
      const float scale = inverse_rms<V>(sum_of_squares<V>(head, head_dim), head_dim, args.eps);
      scale_row<V>(head, scale, args.weight, head_dim, head);
    }
}

template <class V>
void rope_neox(float* head, const float* cosines, const float* sines, int64_t half) {
  each_vector<V>(half, [&](int64_t i, auto lanes) {
    const auto c = load<V>(cosines + i, lanes);
    const auto s = load<V>(sines + i, lanes);
    const auto a = load<V>(head + i, lanes);
    const auto b = load<V>(head + half + i, lanes);
    store<V>(head + i, V::fnma(b, s, V::mul(a, c)), lanes);
    store<V>(head + half + i, V::fma(a, s, V::mul(b, c)), lanes);
  });
}

template <class V>
void rope_gptj(float* head, const float* cosines, const float* sines, int64_t half) {
  for (int64_t i = 0; i < half; ++i) {
    const float a = head[2 * i];
    const float b = head[2 * i + 1];
    head[2 * i] = a * cosines[i] - b * sines[i];
    head[2 * i + 1] = b * cosines[i] + a * sines[i];
  }
}

template <class V>
void rope(F32View x, int heads, const RopeArgs& args) {
  const int64_t half = args.rotary_dim / 2;
  for (int64_t r = 0; r < x.rows; ++r) {
    const float* cosines = args.cos_sin.data + r * args.cos_sin.stride;
    for (int h = 0; h < heads; ++h) {
      float* head = x.data + r * x.stride + static_cast<int64_t>(h) * args.head_dim;
      if (args.neox)
        rope_neox<V>(head, cosines, cosines + half, half);
      else
        rope_gptj<V>(head, cosines, cosines + half, half);
    }
  }
}

template <class V>
void silu_and_mul(ConstF32View gate_up, MutableActivation out) {
  const int64_t inner = gate_up.cols / 2;
  for (int64_t r = 0; r < gate_up.rows; ++r) {
    const float* gate = gate_up.data + r * gate_up.stride;
    with_row<V>(out, r, [&](auto* o) {
      each_vector<V>(inner, [&](int64_t c, auto lanes) {
        const auto g = load<V>(gate + c, lanes);
        const auto silu = V::div(g, V::add(V::set1(1.0F), exp<V>(V::sub(V::zero(), g))));
        store<V>(o + c, V::mul(silu, load<V>(gate + inner + c, lanes)), lanes);
      });
    });
  }
}

/// Copies n floats, rounded when To is bf16.
template <class V, class To>
void copy_row(const float* x, int64_t n, To* out) {
  each_vector<V>(n, [&](int64_t c, auto lanes) { store<V>(out + c, load<V>(x + c, lanes), lanes); });
}

template <class V>
void round_to_bf16(ConstF32View x, MutableActivation out) {
  for (int64_t r = 0; r < x.rows; ++r) with_row<V>(out, r, [&](auto* o) { copy_row<V>(x.data + r * x.stride, x.cols, o); });
}

/// The largest value, NaN aside; -inf when there is none.
template <class V>
float maximum(Run<float> values) {
  typename V::F best = V::set1(-__builtin_inff());
  int64_t i = 0;
  for (; i + V::kWidth <= values.size; i += V::kWidth) best = V::max(V::load(values.data + i), best);  // keeps `best` on NaN
  float result = V::max_lane(best);
  for (; i < values.size; ++i)
    if (values.data[i] > result) result = values.data[i];
  return result;
}

template <class V>
int64_t argmax(Run<float> values) {
  const float best = maximum<V>(values);
  int64_t i = 0;
  for (; i + V::kWidth <= values.size && !V::any_equal(V::load(values.data + i), V::set1(best)); i += V::kWidth) {
  }
  for (; i < values.size; ++i)
    if (values.data[i] == best) return i;
  return -1;
}

template <class V>
double log_sum_exp(Run<float> values) {
  const float best = maximum<V>(values);
  if (__builtin_isinf(best)) return static_cast<double>(best);
  constexpr int64_t kRun = 16 * V::kWidth;  // short f32 chains, summed in f64
  double total = 0.0;
  for (int64_t begin = 0; begin < values.size; begin += kRun) {
    typename V::F sum = V::zero();
    each_vector<V>(least<V>(kRun, values.size - begin), [&](int64_t c, auto lanes) {
      const auto e = exp<V>(V::sub(load<V>(values.data + begin + c, lanes), V::set1(best)));
      if constexpr (requires { lanes.n; })
        sum = V::add(sum, V::first(e, lanes.n));
      else
        sum = V::add(sum, e);
    });
    total += static_cast<double>(V::sum(sum));
  }
  return static_cast<double>(best) + __builtin_log(total);
}

}  // namespace lamina::kernels::vec
