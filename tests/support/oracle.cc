#include "tests/support/oracle.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lamina::oracle {
namespace {

using Rows = std::vector<std::vector<double>>;  // [tokens][width]

double power_of_two(int exponent) { return std::ldexp(1.0, exponent); }

double element(const fixture::Tensor& tensor, size_t i) {
  if (tensor.dtype == "F32") {
    float value;
    std::memcpy(&value, tensor.bytes.data() + 4 * i, sizeof value);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, tensor.bytes.data() + 2 * i, sizeof bits);
  const bool half = tensor.dtype == "F16";
  const int mantissa_bits = half ? 10 : 7, bias = half ? 15 : 127;
  const int mantissa = bits & ((1 << mantissa_bits) - 1), exponent = (bits & 0x7FFF) >> mantissa_bits;
  const double unit = power_of_two(std::max(exponent, 1) - bias - mantissa_bits);
  const double value = unit * (mantissa + (exponent > 0 ? 1 << mantissa_bits : 0));
  return bits & 0x8000 ? -value : value;
}

/// A tensor as doubles.
struct Matrix {
  std::vector<double> values;
  size_t rows = 0, cols = 0;
};

class Checkpoint {
 public:
  explicit Checkpoint(const fixture::Tensors& tensors) : tensors_(tensors) {}

  bool has(const std::string& name) const { return tensors_.contains(name); }
  Matrix matrix(const std::string& name) const {
    const fixture::Tensor& tensor = tensors_.at(name);
    Matrix out;
    out.rows = static_cast<size_t>(tensor.shape.at(0));
    out.cols = tensor.shape.size() > 1 ? static_cast<size_t>(tensor.shape[1]) : 1;
    for (size_t i = 0; i < out.rows * out.cols; ++i) out.values.push_back(element(tensor, i));
    return out;
  }
  std::vector<double> vector(const std::string& name) const { return matrix(name).values; }

 private:
  const fixture::Tensors& tensors_;
};

Rows product(const Matrix& weight, const Rows& x) {
  Rows out;
  for (const auto& row : x) {
    std::vector<double> y(weight.rows, 0.0);
    for (size_t n = 0; n < weight.rows; ++n) {
      for (size_t k = 0; k < weight.cols; ++k) y[n] += weight.values[n * weight.cols + k] * row[k];
    }
    out.push_back(std::move(y));
  }
  return out;
}

/// `prefix`.weight times x, plus `prefix`.bias when there is one.
Rows linear(const Checkpoint& checkpoint, const std::string& prefix, const Rows& x) {
  Rows out = product(checkpoint.matrix(prefix + ".weight"), x);
  if (!checkpoint.has(prefix + ".bias")) return out;
  const std::vector<double> bias = checkpoint.vector(prefix + ".bias");
  for (auto& row : out) {
    for (size_t n = 0; n < row.size(); ++n) row[n] += bias[n];
  }
  return out;
}

/// RMSNorm of `weight.size()` elements from `x` on.
void norm_in_place(double* x, const std::vector<double>& weight, double eps) {
  double squares = 0;
  for (size_t i = 0; i < weight.size(); ++i) squares += x[i] * x[i];
  const double scale = 1.0 / std::sqrt(squares / static_cast<double>(weight.size()) + eps);
  for (size_t i = 0; i < weight.size(); ++i) x[i] *= scale * weight[i];
}

Rows normed(const Checkpoint& checkpoint, const std::string& name, Rows x, double eps) {
  const std::vector<double> weight = checkpoint.vector(name);
  for (auto& row : x) norm_in_place(row.data(), weight, eps);
  return x;
}

void norm_heads(const Checkpoint& checkpoint, const std::string& name, Rows& x, double eps) {
  if (!checkpoint.has(name)) return;
  const std::vector<double> weight = checkpoint.vector(name);
  for (auto& row : x) {
    for (size_t head = 0; head < row.size(); head += weight.size()) norm_in_place(row.data() + head, weight, eps);
  }
}

void rotate(Rows& x, const Rope& rope, size_t head_dim) {
  const size_t half = rope.frequencies.size();
  for (size_t t = 0; t < x.size(); ++t) {
    for (size_t head = 0; head < x[t].size(); head += head_dim) {
      for (size_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(t) * rope.frequencies[i];
        const double c = rope.magnitude * std::cos(angle), s = rope.magnitude * std::sin(angle);
        double &a = x[t][head + i], &b = x[t][head + half + i];
        const double turned = a * c - b * s;
        b = b * c + a * s;
        a = turned;
      }
    }
  }
}

/// Keys and values of one head: elements [begin, begin + width) of rows [first, last].
struct Past {
  const Rows& k;
  const Rows& v;
  size_t begin, width, first, last;
};

/// Softmax attention of one query; adds to out[0, width).
void attend(const double* q, const Past& past, double* out) {
  std::vector<double> weights;
  for (size_t j = past.first; j <= past.last; ++j) {
    double dot = 0;
    for (size_t i = 0; i < past.width; ++i) dot += q[i] * past.k[j][past.begin + i];
    weights.push_back(dot / std::sqrt(static_cast<double>(past.width)));
  }
  const double most = *std::max_element(weights.begin(), weights.end());
  double sum = 0;
  for (double& w : weights) sum += w = std::exp(w - most);
  for (size_t j = past.first; j <= past.last; ++j) {
    for (size_t i = 0; i < past.width; ++i) out[i] += weights[j - past.first] / sum * past.v[j][past.begin + i];
  }
}

template <class T>
const T& of_layer(const std::vector<T>& values, size_t layer) {
  return values.size() == 1 ? values[0] : values.at(layer);
}

Rows attention(const Model& model, const Checkpoint& checkpoint, size_t layer, const std::string& prefix, const Rows& x) {
  Rows q = linear(checkpoint, prefix + ".q_proj", x), k = linear(checkpoint, prefix + ".k_proj", x);
  const Rows v = linear(checkpoint, prefix + ".v_proj", x);
  norm_heads(checkpoint, prefix + ".q_norm.weight", q, model.eps);
  norm_heads(checkpoint, prefix + ".k_norm.weight", k, model.eps);
  const auto d = static_cast<size_t>(model.head_dim), heads = static_cast<size_t>(model.heads);
  const size_t group = heads / static_cast<size_t>(model.kv_heads);
  rotate(q, of_layer(model.ropes, layer), d);
  rotate(k, of_layer(model.ropes, layer), d);
  const auto window = static_cast<size_t>(model.windows.empty() ? 0 : of_layer(model.windows, layer));
  Rows out(x.size(), std::vector<double>(heads * d, 0.0));
  for (size_t t = 0; t < x.size(); ++t) {
    const size_t first = window > 0 && t + 1 > window ? t + 1 - window : 0;
    for (size_t h = 0; h < heads; ++h) attend(q[t].data() + h * d, {k, v, h / group * d, d, first, t}, out[t].data() + h * d);
  }
  return linear(checkpoint, prefix + ".o_proj", out);
}

Rows mlp(const Checkpoint& checkpoint, const std::string& prefix, const Rows& x) {
  Rows gate = linear(checkpoint, prefix + ".gate_proj", x);
  const Rows up = linear(checkpoint, prefix + ".up_proj", x);
  for (size_t t = 0; t < gate.size(); ++t) {
    for (size_t i = 0; i < gate[t].size(); ++i) gate[t][i] *= up[t][i] / (1.0 + std::exp(-gate[t][i]));
  }
  return linear(checkpoint, prefix + ".down_proj", gate);
}

void add(Rows& x, const Rows& y) {
  for (size_t t = 0; t < x.size(); ++t) {
    for (size_t i = 0; i < x[t].size(); ++i) x[t][i] += y[t][i];
  }
}

}  // namespace

Rope plain_rope(double theta, int rotary_dim) {
  Rope rope;
  for (int i = 0; i < rotary_dim / 2; ++i) rope.frequencies.push_back(std::pow(theta, -2.0 * i / rotary_dim));
  return rope;
}

Rope linear_rope(double theta, int rotary_dim, double factor) {
  Rope rope = plain_rope(theta, rotary_dim);
  for (double& f : rope.frequencies) f /= factor;
  return rope;
}

Rope dynamic_rope(double theta, int rotary_dim, double factor, double max_position, double length) {
  if (length <= max_position) return plain_rope(theta, rotary_dim);
  const double stretch = factor * length / max_position - (factor - 1);
  return plain_rope(theta * std::pow(stretch, rotary_dim / (rotary_dim - 2.0)), rotary_dim);
}

Rope llama3_rope(double theta, int rotary_dim, double factor, double original) {
  constexpr double kLow = 1, kHigh = 4;
  Rope rope = plain_rope(theta, rotary_dim);
  for (double& f : rope.frequencies) {
    const double wavelength = 2 * std::numbers::pi / f;
    const double kept = std::clamp((original / wavelength - kLow) / (kHigh - kLow), 0.0, 1.0);
    f = kept * f + (1 - kept) * f / factor;
  }
  return rope;
}

Rope yarn_rope(double theta, int rotary_dim, double factor, double original) {
  Rope rope = plain_rope(theta, rotary_dim);
  const auto dim_of = [&](double turns) {
    return rotary_dim * std::log(original / (turns * 2 * std::numbers::pi)) / (2 * std::log(theta));
  };
  const double low = std::max(std::floor(dim_of(32)), 0.0);
  const double high = std::min(std::ceil(dim_of(1)), rotary_dim - 1.0);
  for (size_t i = 0; i < rope.frequencies.size(); ++i) {
    const double stretched = std::clamp((static_cast<double>(i) - low) / std::max(high - low, 0.001), 0.0, 1.0);
    rope.frequencies[i] *= 1 - stretched + stretched / factor;
  }
  rope.magnitude = 0.1 * std::log(factor) + 1;
  return rope;
}

Rope long_rope(double theta, const std::vector<double>& factors, double max_position, double original) {
  Rope rope = plain_rope(theta, static_cast<int>(2 * factors.size()));
  for (size_t i = 0; i < factors.size(); ++i) rope.frequencies[i] /= factors[i];
  rope.magnitude = std::sqrt(1 + std::log(max_position / original) / std::log(original));
  return rope;
}

std::vector<double> logits(const Model& model, const fixture::Tensors& tensors, const std::vector<int32_t>& tokens) {
  const Checkpoint checkpoint(tensors);
  const Matrix embedding = checkpoint.matrix("model.embed_tokens.weight");
  Rows x;  // the residual stream
  for (const int32_t token : tokens) {
    const auto row = embedding.values.begin() + token * static_cast<std::ptrdiff_t>(embedding.cols);
    x.emplace_back(row, row + static_cast<std::ptrdiff_t>(embedding.cols));
  }
  for (size_t layer = 0; layer < static_cast<size_t>(model.layers); ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer);
    add(x,
        attention(model, checkpoint, layer, prefix + ".self_attn", normed(checkpoint, prefix + ".input_layernorm.weight", x, model.eps)));
    add(x, mlp(checkpoint, prefix + ".mlp", normed(checkpoint, prefix + ".post_attention_layernorm.weight", x, model.eps)));
  }
  const Matrix head = model.tied ? embedding : checkpoint.matrix("lm_head.weight");
  std::vector<double> out;
  for (const auto& row : product(head, normed(checkpoint, "model.norm.weight", x, model.eps)))
    out.insert(out.end(), row.begin(), row.end());
  return out;
}

}  // namespace lamina::oracle
