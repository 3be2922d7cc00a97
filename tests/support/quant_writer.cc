#include "tests/support/quant_writer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace lamina::fixture {
namespace {

using Kind = QuantRecipe::Kind;

double e4m3_value(int code) {
  const int exponent = code >> 3 & 15, fraction = code & 7;
  const double size = exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
  return (code & 0x80) != 0 ? -size : size;
}

double e2m1_value(int code) {
  constexpr double kSizes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return (code & 8) != 0 ? -kSizes[code & 7] : kSizes[code & 7];
}

Tensor bytes_tensor(const char* dtype, std::vector<int64_t> shape, const std::vector<int>& values) {
  Tensor out{dtype, std::move(shape), {}};
  for (const int value : values) out.bytes.push_back(static_cast<char>(value));
  return out;
}

/// A matrix of small integers.
struct Grid {
  int64_t rows = 0, cols = 0;
  std::vector<int> at;
  Grid(int64_t r, int64_t c) : rows(r), cols(c), at(static_cast<size_t>(r * c)) {}
  int& operator()(int64_t r, int64_t c) { return at[static_cast<size_t>(r * cols + c)]; }
  int operator()(int64_t r, int64_t c) const { return at[static_cast<size_t>(r * cols + c)]; }
};

/// Each row of `grid` as one stream of `bits`-bit numbers, low bits first, in 32-bit words.
Tensor pack_rows(const Grid& grid, int bits) {
  const int64_t words = (grid.cols * bits + 31) / 32;
  std::vector<uint32_t> out(static_cast<size_t>(grid.rows * words));
  for (int64_t r = 0; r < grid.rows; ++r) {
    for (int64_t c = 0; c < grid.cols; ++c) {
      for (int b = 0; b < bits; ++b) {
        const int64_t bit = c * bits + b;
        if ((grid(r, c) >> b & 1) != 0) out[static_cast<size_t>(r * words + bit / 32)] |= 1U << (bit % 32);
      }
    }
  }
  return i32_tensor({grid.rows, words}, out);
}

Grid transposed(const Grid& grid) {
  Grid out(grid.cols, grid.rows);
  for (int64_t r = 0; r < grid.rows; ++r)
    for (int64_t c = 0; c < grid.cols; ++c) out(c, r) = grid(r, c);
  return out;
}

Tensor transposed_words(const Tensor& tensor) {
  const int64_t rows = tensor.shape[0], cols = tensor.shape[1];
  std::vector<uint32_t> words(static_cast<size_t>(rows * cols)), out(words.size());
  std::memcpy(words.data(), tensor.bytes.data(), tensor.bytes.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) out[static_cast<size_t>(c * rows + r)] = words[static_cast<size_t>(r * cols + c)];
  return i32_tensor({cols, rows}, out);
}

/// [lines, n] in words of eight: outputs 0 2 4 6 1 3 5 7 from the low bits on.
Tensor pack_awq(const Grid& grid) {
  constexpr int kOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};
  const int64_t words = grid.cols / 8;
  std::vector<uint32_t> out(static_cast<size_t>(grid.rows * words));
  for (int64_t r = 0; r < grid.rows; ++r)
    for (int64_t w = 0; w < words; ++w)
      for (int i = 0; i < 8; ++i) out[static_cast<size_t>(r * words + w)] |= static_cast<uint32_t>(grid(r, w * 8 + kOrder[i])) << (4 * i);
  return i32_tensor({grid.rows, words}, out);
}

/// Two codes a byte, the first in the low half.
Tensor pack_nibbles(const Grid& grid) {
  std::vector<int> bytes;
  for (int64_t r = 0; r < grid.rows; ++r)
    for (int64_t c = 0; c < grid.cols; c += 2) bytes.push_back(grid(r, c) | (c + 1 < grid.cols ? grid(r, c + 1) << 4 : 0));
  return bytes_tensor("U8", {grid.rows, (grid.cols + 1) / 2}, bytes);
}

class Writer {
 public:
  Writer(const QuantRecipe& recipe, std::string name, int64_t n, int64_t k)
      : recipe_(recipe), name_(std::move(name)), n_(n), k_(k), random_(static_cast<uint32_t>(std::hash<std::string>()(name_))) {
    out_.values.resize(static_cast<size_t>(n * k));
  }

  QuantLayer write() {
    switch (recipe_.kind) {
      case Kind::kFp8:
      case Kind::kFp8Static:
      case Kind::kFp8Channel:
      case Kind::kFp8Block:
      case Kind::kMxfp8:
        return fp8();
      case Kind::kInt8:
        return int8();
      case Kind::kMxfp4:
      case Kind::kNvfp4:
      case Kind::kNvfp4ModelOpt:
        return fp4();
      default:
        return integers();
    }
  }

 private:
  int below(int count) { return static_cast<int>(random_() % static_cast<uint32_t>(count)); }
  int64_t groups() const { return recipe_.group == 0 ? 1 : (k_ + recipe_.group - 1) / recipe_.group; }
  /// A scale that bf16 and f16 hold exactly, about `size`.
  float scale(double size) { return std::ldexp(static_cast<float>(64 + below(64)), static_cast<int>(std::floor(std::log2(size))) - 6); }
  double weight_size() const { return 1 / std::sqrt(static_cast<double>(k_)); }
  float& value(int64_t r, int64_t c) { return out_.values[static_cast<size_t>(r * k_ + c)]; }
  void set(const std::string& leaf, Tensor tensor) { out_.tensors[name_ + "." + leaf] = std::move(tensor); }

  Grid fp8_codes() {
    Grid codes(n_, k_);
    for (int& code : codes.at) code = below(0x39) | (below(2) << 7);  // up to 1 in size
    return codes;
  }

  QuantLayer fp8() {
    const Grid codes = fp8_codes();
    set("weight", bytes_tensor("F8_E4M3", {n_, k_}, codes.at));
    const bool block = recipe_.kind == Kind::kFp8Block, mx = recipe_.kind == Kind::kMxfp8, channel = recipe_.kind == Kind::kFp8Channel;
    const int64_t rows = block ? recipe_.block_rows : channel || mx ? 1 : n_;
    const int64_t cols = block ? recipe_.group : mx ? 32 : k_;
    const int64_t down = (n_ + rows - 1) / rows, across = (k_ + cols - 1) / cols;
    std::vector<float> scales;
    std::vector<int> exponents;
    for (int64_t i = 0; i < down * across; ++i) {
      exponents.push_back(124 - static_cast<int>(std::log2(k_) / 2) + below(3));
      scales.push_back(mx ? std::ldexp(1.0F, exponents.back() - 127) : scale(weight_size()));
    }
    for (int64_t r = 0; r < n_; ++r)
      for (int64_t c = 0; c < k_; ++c) {
        value(r, c) = static_cast<float>(e4m3_value(codes(r, c)) * scales[static_cast<size_t>(r / rows * across + c / cols)]);
      }
    if (mx) set("weight_scale_inv", bytes_tensor("U8", {down, across}, exponents));
    if (block) set("weight_scale_inv", f32_tensor({down, across}, scales));
    if (channel) set("weight_scale", make_tensor(DType::kBF16, {n_, 1}, scales));
    if (!mx && !block && !channel) set("weight_scale", f32_tensor({1}, scales));
    if (recipe_.kind == Kind::kFp8Static) set("input_scale", f32_tensor({1}, std::vector<float>{0.03125F}));
    return std::move(out_);
  }

  QuantLayer int8() {
    Grid codes(n_, k_);
    std::vector<float> scales;
    for (int& code : codes.at) code = below(256) - 128;
    for (int64_t r = 0; r < n_; ++r) {
      scales.push_back(scale(weight_size() / 128));
      for (int64_t c = 0; c < k_; ++c) value(r, c) = static_cast<float>(codes(r, c)) * scales.back();
    }
    set("weight", bytes_tensor("I8", {n_, k_}, codes.at));
    set("weight_scale", make_tensor(DType::kBF16, {n_, 1}, scales));
    return std::move(out_);
  }

  QuantLayer fp4() {
    Grid codes(n_, k_);
    for (int& code : codes.at) code = below(16);
    const bool mx = recipe_.kind == Kind::kMxfp4;
    const bool modelopt = recipe_.kind == Kind::kNvfp4ModelOpt;
    const int64_t group = mx ? 32 : 16, across = (k_ + group - 1) / group;
    const double global = modelopt ? 0x1p-6 : 64.0;  // a factor, or a divisor
    std::vector<int> scales;
    const int exponent = 124 - static_cast<int>(std::log2(k_) / 2);
    for (int64_t i = 0; i < n_ * across; ++i) scales.push_back(mx ? exponent + below(3) : 0x30 + below(16));
    for (int64_t r = 0; r < n_; ++r)
      for (int64_t c = 0; c < k_; ++c) {
        const int stored = scales[static_cast<size_t>(r * across + c / group)];
        const double s = mx ? std::ldexp(1.0, stored - 127) : e4m3_value(stored) * (modelopt ? global : 1 / global);
        value(r, c) = static_cast<float>(e2m1_value(codes(r, c)) * s);
      }
    set(modelopt ? "weight" : "weight_packed", pack_nibbles(codes));
    set("weight_scale", bytes_tensor(mx ? "U8" : "F8_E4M3", {n_, across}, scales));
    const std::vector<float> one = {static_cast<float>(global)};
    if (!mx)
      set(modelopt ? "weight_scale_2" : "weight_global_scale",
          f32_tensor(modelopt ? std::vector<int64_t>{} : std::vector<int64_t>{1}, one));
    if (modelopt) set("input_scale", f32_tensor({}, std::vector<float>{0.5F}));
    return std::move(out_);
  }

  /// Group of each input.
  std::vector<int64_t> assign() {
    std::vector<int64_t> out(static_cast<size_t>(k_));
    for (int64_t c = 0; c < k_; ++c) out[static_cast<size_t>(c)] = recipe_.group == 0 ? 0 : c / recipe_.group;
    if (recipe_.act_order) std::shuffle(out.begin(), out.end(), random_);
    return out;
  }

  QuantLayer integers() {
    const int levels = 1 << recipe_.bits, middle = levels / 2;
    const std::vector<int64_t> group = assign();
    Grid codes(n_, k_), zeros(n_, groups());
    std::vector<float> scales;
    for (int& code : codes.at) code = below(levels);
    const bool v1 = recipe_.kind == Kind::kGptq && !recipe_.v2;  // which has no zero point 0
    for (int& zero : zeros.at) {
      zero = recipe_.symmetric ? middle : v1 ? 1 + below(levels - 1) : below(levels);
      if (recipe_.zero >= 0) zero = recipe_.zero;
    }
    for (int64_t i = 0; i < n_ * groups(); ++i) scales.push_back(scale(weight_size() / levels));
    for (int64_t r = 0; r < n_; ++r)
      for (int64_t c = 0; c < k_; ++c) {
        const int64_t g = group[static_cast<size_t>(c)];
        value(r, c) = static_cast<float>(codes(r, c) - zeros(r, g)) * scales[static_cast<size_t>(r * groups() + g)];
      }
    std::vector<uint32_t> index;
    for (const int64_t g : group) index.push_back(static_cast<uint32_t>(g));
    if (recipe_.kind == Kind::kPacked) {
      set("weight_packed", pack_rows(codes, recipe_.bits));
      set("weight_scale", make_tensor(DType::kBF16, {n_, groups()}, scales));
      if (!recipe_.symmetric) set("weight_zero_point", transposed_words(pack_rows(transposed(zeros), recipe_.bits)));
      if (recipe_.act_order) set("weight_g_idx", i32_tensor({k_}, index));
      Tensor shape{"I64", {2}, std::string(16, '\0')};
      const int64_t sizes[2] = {n_, k_};
      std::memcpy(shape.bytes.data(), sizes, sizeof(sizes));
      set("weight_shape", std::move(shape));
      return std::move(out_);
    }
    std::vector<float> by_group(scales.size());
    for (int64_t r = 0; r < n_; ++r)
      for (int64_t g = 0; g < groups(); ++g) by_group[static_cast<size_t>(g * n_ + r)] = scales[static_cast<size_t>(r * groups() + g)];
    set("scales", make_tensor(DType::kF16, {groups(), n_}, by_group));
    if (recipe_.kind == Kind::kAwq) {
      set("qweight", pack_awq(transposed(codes)));
      set("qzeros", pack_awq(transposed(zeros)));
      return std::move(out_);
    }
    for (int& zero : zeros.at) zero -= recipe_.v2 ? 0 : 1;
    set("qweight", transposed_words(pack_rows(codes, recipe_.bits)));
    set("qzeros", pack_rows(transposed(zeros), recipe_.bits));
    set("g_idx", i32_tensor({k_}, index));
    return std::move(out_);
  }

  QuantRecipe recipe_;
  std::string name_;
  int64_t n_, k_;
  std::mt19937 random_;
  QuantLayer out_;
};

/// Weights of a compressed-tensors config.
struct Weights {
  const char* format;
  const char* type;
  int bits;
  const char* strategy;
  int64_t group = 0;
};

Json input_rule(const std::string& type) {
  if (type.empty()) return nullptr;
  Json out;
  out.set("num_bits", 8);
  out.set("type", type);
  out.set("strategy", "token");
  out.set("dynamic", true);
  out.set("symmetric", true);
  return out;
}

Json compressed_config(const Weights& w, const QuantRecipe& recipe) {
  Json weights;
  weights.set("num_bits", w.bits);
  weights.set("type", w.type);
  weights.set("strategy", w.strategy);
  weights.set("group_size", w.group > 0 ? Json(w.group) : Json(nullptr));
  weights.set("symmetric", recipe.symmetric);
  weights.set("dynamic", false);
  weights.set("actorder", recipe.act_order ? Json("group") : Json(nullptr));
  Json one;
  one.set("targets", Json(Json::Array{Json("Linear")}));
  one.set("weights", std::move(weights));
  one.set("input_activations", input_rule(recipe.inputs));
  Json groups;
  groups.set("group_0", std::move(one));
  Json out;
  out.set("quant_method", "compressed-tensors");
  out.set("format", w.format);
  out.set("ignore", Json(Json::Array{Json("lm_head")}));
  out.set("config_groups", std::move(groups));
  return out;
}

}  // namespace

Tensor i32_tensor(std::vector<int64_t> shape, const std::vector<uint32_t>& words) {
  return {"I32", std::move(shape), std::string(reinterpret_cast<const char*>(words.data()), words.size() * sizeof(uint32_t))};
}

std::string QuantRecipe::name() const {
  static constexpr const char* kNames[] = {"Fp8",    "Fp8Static", "Fp8Channel", "Fp8Block", "Mxfp8", "Int8",
                                           "Packed", "Gptq",      "Awq",        "Mxfp4",    "Nvfp4", "Nvfp4ModelOpt"};
  std::string out = kNames[static_cast<size_t>(kind)];
  if (kind == Kind::kPacked || kind == Kind::kGptq) {
    out += std::to_string(bits) + (symmetric ? "Sym" : "Asym") + (act_order ? "ActOrder" : "") + (v2 ? "V2" : "");
  }
  if (group == 0) out += "OneGroup";
  return out;
}

std::vector<QuantRecipe> all_recipes() {
  std::vector<QuantRecipe> out;
  for (const Kind kind : {Kind::kFp8, Kind::kFp8Static, Kind::kFp8Channel, Kind::kFp8Block, Kind::kMxfp8, Kind::kInt8, Kind::kAwq,
                          Kind::kMxfp4, Kind::kNvfp4, Kind::kNvfp4ModelOpt}) {
    out.push_back({.kind = kind, .symmetric = kind != Kind::kAwq});
  }
  for (const bool symmetric : {true, false}) {
    for (const int bits : {4, 8}) {
      for (const bool act_order : {false, true}) {
        out.push_back({.kind = Kind::kPacked, .bits = bits, .symmetric = symmetric, .act_order = act_order});
      }
    }
    for (const int bits : {2, 3, 4, 8}) {
      for (const bool act_order : {false, true}) {
        out.push_back({.kind = Kind::kGptq, .bits = bits, .symmetric = symmetric, .act_order = act_order, .v2 = bits == 3 || bits == 8});
      }
    }
  }
  out.push_back({.kind = Kind::kGptq, .bits = 4, .group = 0});
  out.push_back({.kind = Kind::kGptq, .bits = 3, .group = 0, .symmetric = false});
  out.push_back({.kind = Kind::kAwq, .group = 0, .symmetric = false});
  out.push_back({.kind = Kind::kPacked, .bits = 4, .group = 0});
  return out;
}

QuantLayer quant_layer(const QuantRecipe& recipe, const std::string& name, int64_t n, int64_t k) {
  return Writer(recipe, name, n, k).write();
}

Json quant_config(const QuantRecipe& recipe) {
  Json out;
  const auto fp8 = [&](const char* scheme) {
    out.set("quant_method", recipe.kind == Kind::kMxfp8 ? "mxfp8" : "fp8");
    out.set("activation_scheme", scheme);
    if (recipe.kind == Kind::kFp8Block) out.set("weight_block_size", Json(Json::Array{Json(recipe.block_rows), Json(recipe.group)}));
    return out;
  };
  switch (recipe.kind) {
    case Kind::kFp8:
    case Kind::kFp8Block:
    case Kind::kMxfp8:
      return fp8("dynamic");
    case Kind::kFp8Static:
      return fp8("static");
    case Kind::kFp8Channel:
      return compressed_config({"float-quantized", "float", 8, "channel"}, recipe);
    case Kind::kInt8:
      return compressed_config({"int-quantized", "int", 8, "channel"}, recipe);
    case Kind::kMxfp4:
      return compressed_config({"mxfp4-pack-quantized", "float", 4, "group", 32}, recipe);
    case Kind::kNvfp4:
      return compressed_config({"nvfp4-pack-quantized", "float", 4, "tensor_group", 16}, recipe);
    case Kind::kPacked:
      return compressed_config({"pack-quantized", "int", recipe.bits, recipe.group > 0 ? "group" : "channel", recipe.group}, recipe);
    case Kind::kNvfp4ModelOpt:
      out.set("quant_method", "modelopt");
      out.set("quant_algo", "NVFP4");
      out.set("exclude_modules", Json(Json::Array{Json("lm_head")}));
      return out;
    case Kind::kGptq:
      out.set("quant_method", "gptq");
      out.set("bits", recipe.bits);
      out.set("group_size", recipe.group > 0 ? recipe.group : int64_t{-1});
      out.set("desc_act", recipe.act_order);
      out.set("sym", recipe.symmetric);
      out.set("checkpoint_format", recipe.v2 ? "gptq_v2" : "gptq");
      return out;
    case Kind::kAwq:
      out.set("quant_method", "awq");
      out.set("bits", 4);
      out.set("group_size", recipe.group > 0 ? recipe.group : int64_t{-1});
      out.set("zero_point", true);
      out.set("version", "gemm");
      return out;
  }
  return out;
}

void quantise_module(QuantToy& toy, const QuantRecipe& recipe, const std::string& module) {
  const std::vector<int64_t> shape = toy.dequantised.at(module + ".weight").shape;
  QuantLayer layer = quant_layer(recipe, module, shape[0], shape[1]);
  toy.dequantised[module + ".weight"] = f32_tensor(shape, layer.values);
  std::erase_if(toy.model.tensors,
                [&](const auto& tensor) { return tensor.first.starts_with(module + ".") && !tensor.first.ends_with(".bias"); });
  toy.model.tensors.merge(layer.tensors);
}

QuantToy quant_toy(const QuantRecipe& recipe, const ToyShape& shape) {
  QuantToy toy{.model = toy_model(shape), .dequantised = {}};
  toy.dequantised = toy.model.tensors;
  for (const auto& [name, tensor] : toy_model(shape).tensors) {
    const size_t leaf = name.rfind("_proj.weight");
    if (leaf != std::string::npos) quantise_module(toy, recipe, name.substr(0, name.rfind('.')));
  }
  toy.model.config.set("quantization_config", quant_config(recipe));
  return toy;
}

}  // namespace lamina::fixture
