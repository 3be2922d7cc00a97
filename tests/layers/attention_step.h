#pragma once
// One attention step over a pool full of NaN, and a float64 attention over contiguous keys and values to compare it with.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "base/strings.h"
#include "layers/attention.h"
#include "layers/boundary/layer_stack.h"
#include "layers/rotary.h"

namespace lamina::attention_test {

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
inline constexpr int kQkDim = 20, kVDim = 12;  // unlike each other and no multiples of a vector

inline float rounded(DType dtype, float value) { return dtype == DType::kF32 ? value : bf16_to_f32(f32_to_bf16(value)); }

inline float load(const KvTensor& tensor, int64_t index) {
  return tensor.dtype == DType::kF32 ? static_cast<const float*>(tensor.base)[index]
                                     : bf16_to_f32(static_cast<const uint16_t*>(tensor.base)[index]);
}
inline void write(const KvTensor& tensor, int64_t index, float value) {
  if (tensor.dtype == DType::kF32)
    static_cast<float*>(tensor.base)[index] = value;
  else
    static_cast<uint16_t*>(tensor.base)[index] = f32_to_bf16(value);
}

/// A BuildContext with nothing in it.
struct Build {
  struct NoFormat final : WeightFormat {
    const char* name() const override { return "none"; }
    Result<std::unique_ptr<LinearWeights>> create_weights(const LinearShape&, ParamList&) const override { return error("no weights"); }
  };
  ParallelGroups groups = ParallelGroups::single();
  NoFormat format;
  ParamList params;
  LayerStack stack{groups};
  RotarySet rotary;
  BuildContext context{groups, format, params, stack, rotary};
};

inline RadixAttentionSpec valid_spec() {
  RadixAttentionSpec spec;
  spec.name = "model.layers.3.self_attn.attn";
  spec.layer_id = LayerId(3);
  spec.q_heads = 4, spec.kv_heads = 2;
  spec.qk_dim = kQkDim, spec.v_dim = kVDim;
  spec.scale = 0.6F;
  return spec;
}

struct Matrix {
  int64_t rows = 0, cols = 0;
  std::vector<float> values;
  Matrix() = default;
  Matrix(int64_t r, int64_t c, float fill) : rows(r), cols(c), values(static_cast<size_t>(r * c), fill) {}
  float* row(int64_t r) { return values.data() + r * cols; }
  const float* row(int64_t r) const { return values.data() + r * cols; }
  ConstF32View view() const { return {values.data(), rows, cols}; }
};

struct SequencePlan {
  int64_t prefix = 0, rows = 0;
  int64_t length() const { return prefix + rows; }
};
using Plan = std::vector<SequencePlan>;

/// Queries of a step and the keys and values of every position of its sequences, before rounding.
struct Data {
  Plan plan;
  Matrix q;                          // [real rows, q_heads * kQkDim]
  std::vector<Matrix> keys, values;  // a sequence: [length, kv_heads * dim]
};

inline Data make_data(const Plan& plan, int q_heads, int kv_heads, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  const auto filled = [&](int64_t rows, int64_t cols) {
    Matrix m(rows, cols, 0.0F);
    for (float& value : m.values) value = normal(random);
    return m;
  };
  Data data;
  data.plan = plan;
  int64_t rows = 0;
  for (const SequencePlan& sequence : plan) {
    rows += sequence.rows;
    data.keys.push_back(filled(sequence.length(), kv_heads * kQkDim));
    data.values.push_back(filled(sequence.length(), kv_heads * kVDim));
  }
  data.q = filled(rows, q_heads * kQkDim);
  for (float& value : data.q.values) value = rounded(DType::kBF16, value);  // a path may round queries to the KV dtype
  return data;
}

// --- the oracle ---------------------------------------------------------------------------------------------------------------------

struct Expected {
  std::vector<double> value, tolerance;  // [real rows, q_heads * kVDim]
  std::vector<double> spread;            // weighted mean of |v - value|: how far rounding the weights by a share can move it
};

inline bool visible(const RadixAttentionSpec& spec, int64_t query, int64_t key) {
  if (spec.type == AttentionType::kDecoder && key > query) return false;
  return spec.window < 0 || std::abs(key - query) < spec.window;
}

/// Keys and values of one head of a sequence as the pool holds them.
struct StoredHead {
  DType dtype;
  const Matrix &keys, &values;
  int head;
  double key(int64_t p, int d) const { return rounded(dtype, keys.row(p)[head * kQkDim + d]); }
  double value(int64_t p, int d) const { return rounded(dtype, values.row(p)[head * kVDim + d]); }
};

/// One row and head in float64. The tolerance is that of f32 arithmetic: a score is off by at most about dim * eps * sum|q k|, which moves
/// a weight by that share, and the sums of the softmax add eps each.
inline void oracle_row(const RadixAttentionSpec& spec, const StoredHead& kv, const float* query, int64_t position, Expected& out) {
  const int64_t length = kv.keys.rows;
  std::vector<double> weights(static_cast<size_t>(length), 0.0);
  double magnitude = spec.logit_cap, total = 0, maximum = -1e300;
  for (int64_t p = 0; p < length; ++p) {
    if (!visible(spec, position, p)) continue;
    double score = 0, sum = 0;
    for (int d = 0; d < kQkDim; ++d) {
      const double product = query[d] * kv.key(p, d);
      score += product, sum += std::abs(product);
    }
    score *= static_cast<double>(spec.scale);
    if (spec.logit_cap > 0) score = spec.logit_cap * std::tanh(score / spec.logit_cap);
    magnitude = std::max(magnitude, sum * spec.scale);
    maximum = std::max(maximum, score);
    weights[static_cast<size_t>(p)] = score;
  }
  for (int64_t p = 0; p < length; ++p) {
    double& weight = weights[static_cast<size_t>(p)];
    weight = visible(spec, position, p) ? std::exp(weight - maximum) : 0.0;
    total += weight;
  }
  for (int d = 0; d < kVDim; ++d) {
    double mean = 0, spread = 0, largest = 0;
    for (int64_t p = 0; p < length; ++p) mean += weights[static_cast<size_t>(p)] / total * kv.value(p, d);
    for (int64_t p = 0; p < length; ++p) {
      spread += weights[static_cast<size_t>(p)] / total * std::abs(kv.value(p, d) - mean);
      largest = std::max(largest, std::abs(kv.value(p, d)));
    }
    out.value.push_back(mean);
    out.spread.push_back(spread);
    out.tolerance.push_back(std::ldexp(largest, -24) * (4 * kQkDim * magnitude + 2 * static_cast<double>(length) + 64));
  }
}

inline Expected oracle(const Data& data, const RadixAttentionSpec& spec, DType dtype) {
  Expected out;
  int64_t row = 0;
  for (size_t s = 0; s < data.plan.size(); ++s)
    for (int64_t t = 0; t < data.plan[s].rows; ++t, ++row)
      for (int head = 0; head < spec.q_heads; ++head)
        oracle_row(spec, {dtype, data.keys[s], data.values[s], head * spec.kv_heads / spec.q_heads}, data.q.row(row) + head * kQkDim,
                   data.plan[s].prefix + t, out);
  return out;
}

// --- one step through the adapter ------------------------------------------------------------------------------------------------------

/// A position whose K/V are handed to the adapter.
struct KvEntry {
  size_t sequence = 0;
  int64_t position = 0;
};

/// The K/V of the query rows, in their order.
inline std::vector<KvEntry> step_entries(const Plan& plan) {
  std::vector<KvEntry> out;
  for (size_t s = 0; s < plan.size(); ++s)
    for (int64_t p = plan[s].prefix; p < plan[s].length(); ++p) out.push_back({s, p});
  return out;
}

struct Options {
  Isa isa = Isa::kRef;
  bool reference = false;
  DType kv_dtype = DType::kF32;
  int page_size = 16;
  int threads = 1;
  int64_t padded_rows = 3;
  bool save = true;
  DType out_dtype = DType::kF32;
};

/// A pool whose unused slots are NaN, page tables out of order, a batch and what came out.
class StepRun {
 public:
  StepRun(const Data& data, const RadixAttentionSpec& spec, const Options& setup, const std::vector<KvEntry>& given)
      : data_(data), spec_(spec), setup_(setup), given_(given), pool_(make_pool()) {
    fill_batch();
    fill_pool();
  }

  void forward() {
    Build build;
    const RadixAttention attention(build.context, spec_);
    ASSERT_TRUE(build.context.status().ok()) << build.context.status().error().message;
    const std::unique_ptr<AttentionBackend> backend = setup_.reference ? make_reference_backend() : make_paged_backend();
    ThreadTeam team(setup_.threads, setup_.threads);
    const int64_t out_cols = spec_.q_heads * kVDim;
    const int64_t line = 64 / dtype_bytes(setup_.out_dtype);
    const auto out_bytes = static_cast<size_t>(batch_.rows() * ((out_cols + line - 1) / line) * 64);
    // Exactly what the plan would give.
    StepMemory memory(make_arena(64), make_arena(out_bytes + backend->stage_bytes(spec_, team.size())), make_arena(64));
    ForwardContext ctx{batch_, {&kernels::table(setup_.isa), &team}, memory, pool_, *backend};
    const Matrix q = padded(data_.q, batch_.rows());
    const int64_t kv_rows = given_.size() == static_cast<size_t>(data_.q.rows) ? batch_.rows() : static_cast<int64_t>(given_.size());
    const Matrix keys = padded(given_rows(data_.keys), kv_rows), values = padded(given_rows(data_.values), kv_rows);
    const Activation out = attention.forward(ctx, q.view(), keys.view(), values.view(), setup_.out_dtype, setup_.save);
    ASSERT_EQ(out.rows, batch_.rows());
    ASSERT_EQ(out.cols, out_cols);
    for (int64_t r = 0; r < out.rows; ++r)
      for (int64_t c = 0; c < out.cols; ++c)
        out_.push_back(out.dtype == DType::kF32 ? out.f32().at(r, c) : bf16_to_f32(out.bf16().at(r, c)));
  }

  /// [rows, q_heads * kVDim]
  const std::vector<float>& out() const { return out_; }

  /// Real rows within the tolerance, padded rows zero.
  void expect(const Expected& expected) const {
    ASSERT_EQ(out_.size(), static_cast<size_t>(batch_.rows() * spec_.q_heads * kVDim));
    for (size_t i = 0; i < out_.size(); ++i) {
      const double value = i < expected.value.size() ? expected.value[i] : 0.0;
      const double tolerance = i < expected.value.size() ? expected.tolerance[i] + weight_rounding() * expected.spread[i] : 0.0;
      ASSERT_LE(std::abs(out_[i] - value), tolerance)
          << "row " << i / static_cast<size_t>(spec_.q_heads * kVDim) << ": got " << out_[i] << ", wanted " << value;
    }
  }

  /// Every position of a sequence holds its rounded K/V; everything else, the dummy page too, is as untouched as before.
  void expect_pool() const {
    std::map<int64_t, KvEntry> owner;
    for (size_t s = 0; s < data_.plan.size(); ++s)
      for (int64_t p = 0; p < data_.plan[s].length(); ++p) owner[slot(s, p)] = {s, p};
    expect_tensor(pool_.keys(spec_.layer_id), data_.keys, owner);
    expect_tensor(pool_.values(spec_.layer_id), data_.values, owner);
  }

 private:
  /// The bf16 dot product multiplies weights rounded to bf16.
  double weight_rounding() const {
    const bool rounds = !setup_.reference && setup_.isa == Isa::kAvx512 && setup_.kv_dtype == DType::kBF16;
    return rounds ? 1.01 / 256 : 0.0;
  }

  static Arena make_arena(size_t bytes) { return Arena(Buffer::allocate(bytes).value()); }

  int64_t pages_of(size_t sequence) const { return (data_.plan[sequence].length() + setup_.page_size - 1) / setup_.page_size; }

  KvStore make_pool() {
    total_pages_ = 1;  // one that nobody owns, besides the dummy
    for (size_t s = 0; s < data_.plan.size(); ++s) total_pages_ += pages_of(s);
    return KvStore::create({{spec_.kv_heads, kQkDim, kVDim}}, spec_.layer_id, setup_.kv_dtype, static_cast<int32_t>(total_pages_),
                           setup_.page_size)
        .value();
  }

  void fill_batch() {
    int64_t page = total_pages_;  // handed out downwards: neighbouring positions are no neighbouring pages
    for (size_t s = 0; s < data_.plan.size(); ++s) {
      batch_.sequences.push_back({.row_begin = batch_.real_rows,
                                  .row_count = data_.plan[s].rows,
                                  .prefix_len = data_.plan[s].prefix,
                                  .page_begin = static_cast<int64_t>(batch_.pages.size())});
      for (int64_t i = 0; i < pages_of(s); ++i) batch_.pages.push_back(static_cast<int32_t>(page--));
      batch_.real_rows += data_.plan[s].rows;
    }
    batch_.page_size = setup_.page_size;
    batch_.input_ids.assign(static_cast<size_t>(batch_.real_rows + setup_.padded_rows), 0);
    batch_.positions.assign(batch_.input_ids.size(), 0);
    for (const KvEntry& entry : given_) batch_.out_cache_loc.push_back(slot(entry.sequence, entry.position));
    if (given_.size() == static_cast<size_t>(batch_.real_rows)) batch_.out_cache_loc.resize(batch_.input_ids.size(), 0);
  }

  /// NaN everywhere but at positions that are not handed to the adapter (all of them when it does not save).
  void fill_pool() {
    const int64_t slots = (total_pages_ + 1) * setup_.page_size;
    for (const KvTensor* tensor : {&pool_.keys(spec_.layer_id), &pool_.values(spec_.layer_id)})
      for (int64_t i = 0; i < slots * tensor->slot_stride; ++i) write(*tensor, i, kNaN);
    for (size_t s = 0; s < data_.plan.size(); ++s)
      for (int64_t p = 0; p < data_.plan[s].length(); ++p) {
        const auto same = [&](const KvEntry& entry) { return entry.sequence == s && entry.position == p; };
        if (setup_.save && std::any_of(given_.begin(), given_.end(), same)) continue;
        for (int64_t c = 0; c < data_.keys[s].cols; ++c)
          write(pool_.keys(spec_.layer_id), index(slot(s, p), c, true), data_.keys[s].row(p)[c]);
        for (int64_t c = 0; c < data_.values[s].cols; ++c)
          write(pool_.values(spec_.layer_id), index(slot(s, p), c, false), data_.values[s].row(p)[c]);
      }
  }

  int64_t index(int64_t slot_index, int64_t column, bool key) const {
    const KvTensor& tensor = key ? pool_.keys(spec_.layer_id) : pool_.values(spec_.layer_id);
    return slot_index * tensor.slot_stride + column;
  }
  int64_t slot(size_t sequence, int64_t position) const {
    const auto page = static_cast<size_t>(batch_.sequences[sequence].page_begin + position / setup_.page_size);
    return batch_.pages[page] * int64_t{setup_.page_size} + position % setup_.page_size;
  }

  /// K or V of the given entries; NaN when nothing of them may be used.
  Matrix given_rows(const std::vector<Matrix>& source) const {
    Matrix out(static_cast<int64_t>(given_.size()), source.front().cols, kNaN);
    for (size_t i = 0; setup_.save && i < given_.size(); ++i)
      std::copy_n(source[given_[i].sequence].row(given_[i].position), out.cols, out.row(static_cast<int64_t>(i)));
    return out;
  }
  static Matrix padded(const Matrix& m, int64_t rows) {
    Matrix out(rows, m.cols, kNaN);
    std::copy(m.values.begin(), m.values.end(), out.values.begin());
    return out;
  }

  void expect_tensor(const KvTensor& tensor, const std::vector<Matrix>& source, const std::map<int64_t, KvEntry>& owner) const {
    for (int64_t at = 0; at < (total_pages_ + 1) * setup_.page_size; ++at) {
      const auto found = owner.find(at);
      for (int64_t c = 0; c < tensor.slot_stride; ++c) {
        const float actual = load(tensor, at * tensor.slot_stride + c);
        if (found == owner.end()) {
          ASSERT_TRUE(std::isnan(actual)) << "slot " << at << " belongs to nobody and was written";
        } else {
          const KvEntry entry = found->second;
          ASSERT_EQ(actual, rounded(tensor.dtype, source[entry.sequence].row(entry.position)[c])) << "slot " << at;
        }
      }
    }
  }

  const Data& data_;
  const RadixAttentionSpec& spec_;
  const Options& setup_;
  const std::vector<KvEntry>& given_;
  int64_t total_pages_ = 0;
  KvStore pool_;
  ForwardBatch batch_;
  std::vector<float> out_;
};

}  // namespace lamina::attention_test
