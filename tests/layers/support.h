#pragma once
// Ranks as threads, each with what layers need to be built, filled and run.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/cpu.h"
#include "layers/attention.h"
#include "layers/boundary/layer_stack.h"
#include "layers/context.h"
#include "layers/rotary.h"

namespace lamina::layer_test {

struct Matrix {
  int64_t rows = 0, cols = 0;
  std::vector<float> values;

  Matrix() = default;
  Matrix(int64_t r, int64_t c, float fill = 0.0F) : rows(r), cols(c), values(static_cast<size_t>(r * c), fill) {}
  ConstF32View view() const { return {values.data(), rows, cols}; }
  F32View view() { return {values.data(), rows, cols}; }
  float at(int64_t r, int64_t c) const { return values[static_cast<size_t>(r * cols + c)]; }
};

/// Multiples of 1/64 below 2, which f32 and bf16 hold; so few bits that f32 sums of up to 1000 products of two are exact in any order.
inline Matrix exact_matrix(int64_t rows, int64_t cols, uint32_t seed) {
  std::mt19937 random(seed);
  Matrix out(rows, cols);
  for (float& value : out.values) value = (static_cast<float>(random() % 255) - 127.0F) / 64.0F;
  return out;
}

inline Matrix normal_matrix(int64_t rows, int64_t cols, uint32_t seed, float deviation = 1.0F) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, deviation);
  Matrix out(rows, cols);
  for (float& value : out.values) value = normal(random);
  return out;
}

inline Matrix copy(ConstF32View view) {
  Matrix out(view.rows, view.cols);
  for (int64_t r = 0; r < view.rows; ++r) std::copy_n(view.row(r), view.cols, out.view().row(r));
  return out;
}
inline float element(const Activation& x, int64_t r, int64_t c) {
  return x.dtype == DType::kF32 ? x.f32().at(r, c) : bf16_to_f32(x.bf16().at(r, c));
}
inline Matrix copy(const Activation& x) {
  Matrix out(x.rows, x.cols);
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t c = 0; c < x.cols; ++c) out.view().at(r, c) = element(x, r, c);
  return out;
}
/// Equal to the bit (no NaN occurs, zeros have signs).
inline void expect_bits(const Matrix& got, const Matrix& wanted) {
  ASSERT_EQ(got.rows, wanted.rows);
  ASSERT_EQ(got.cols, wanted.cols);
  for (size_t i = 0; i < got.values.size(); ++i)
    ASSERT_EQ(__builtin_bit_cast(uint32_t, got.values[i]), __builtin_bit_cast(uint32_t, wanted.values[i])) << "element " << i;
}

/// Columns of `got` are rows [first, first + got.cols) of w times x, plus bias. No tolerance: for exact_matrix().
inline void expect_product(ConstF32View got, const Matrix& x, const Matrix& w, const Matrix* bias = nullptr, int64_t first = 0) {
  ASSERT_EQ(got.rows, x.rows);
  ASSERT_LE(first + got.cols, w.rows);
  for (int64_t r = 0; r < got.rows; ++r)
    for (int64_t c = 0; c < got.cols; ++c) {
      double sum = bias == nullptr ? 0.0 : bias->at(first + c, 0);
      for (int64_t k = 0; k < x.cols; ++k) sum += static_cast<double>(x.at(r, k)) * w.at(first + c, k);
      ASSERT_EQ(got.at(r, c), sum) << "row " << r << ", column " << c;
    }
}

/// The values of a checkpoint by their names on disk; vectors have one column.
using Tensors = std::map<std::string, Matrix>;

inline const kernels::Kernels& best_kernels() { return kernels::table(choose_isa(decode_features(read_cpuid()), "").value()); }

/// How ranks are built.
struct RankOptions {
  std::function<std::unique_ptr<WeightFormat>()> make_format;
  BoundaryOptions boundaries;

  RankOptions(DType dtype = DType::kF32, BoundaryOptions b = {})  // NOLINT(google-explicit-constructor)
      : make_format([dtype] { return make_plain_format({.model_dtype = dtype}, best_kernels()); }), boundaries(b) {}
};

/// One rank: modules are made with `build`, filled by load() and run with `ctx`.
struct TestRank {
  ParallelGroups groups;
  std::unique_ptr<WeightFormat> format;
  ParamList params;
  LayerStack stack;
  RotarySet rotary;
  BuildContext build{groups, *format, params, stack, rotary};
  ThreadTeam team{1, 1};
  StepMemory memory{arena(), arena(), arena()};
  ForwardBatch batch;
  KvStore kv = KvStore::create({}, LayerId(0), DType::kF32, 0, 16).value();
  std::unique_ptr<AttentionBackend> attention = make_reference_backend();
  ForwardContext ctx{batch, {&best_kernels(), &team}, memory, kv, *attention};

  explicit TestRank(ParallelGroups g, const RankOptions& options = {})
      : groups(std::move(g)), format(options.make_format()), stack(groups, options.boundaries) {}
  TestRank(const TestRank&) = delete;

  /// The batch has `rows` rows, all of this attention-DP rank.
  void set_rows(int64_t rows) {
    batch.clear();
    batch.input_ids.resize(static_cast<size_t>(rows));
    batch.positions.resize(static_cast<size_t>(rows));
    batch.dp_rows = {rows};
    batch.real_rows = rows;
  }
  /// The batch has `rows[d]` rows of each attention-DP rank d.
  void set_dp_rows(const std::vector<int64_t>& rows) {
    set_rows(rows.at(static_cast<size_t>(index("attn_dp"))));
    batch.dp_rows = rows;
    batch.dp_rank = index("attn_dp");
    batch.input_ids.resize(static_cast<size_t>(std::accumulate(rows.begin(), rows.end(), int64_t{0})));
  }
  RowGroups row_groups() const { return {groups.find("tp").value(), groups.find("attn_tp").value(), groups.find("attn_dp").value()}; }

  int index(std::string_view group = "tp") const { return groups.find(group).value()->rank; }
  /// The error of what was built, or "".
  std::string error() const { return build.status().ok() ? "" : build.status().error().message; }

  /// Cuts this rank's share out of whole tensors.
  void load(const Tensors& tensors) {
    ASSERT_EQ(error(), "");
    for (const auto& param : params.all()) ASSERT_TRUE(param->store->plan({DType::kF32}, param->name).ok());
    ASSERT_TRUE(params.reserve().ok());
    for (const auto& param : params.all()) {
      int64_t local_row = 0;
      for (size_t p = 0; p < param->parts.size(); ++p) {
        const std::string name = param->part_name(static_cast<int>(p));
        ASSERT_TRUE(tensors.contains(name)) << name;
        const Matrix& tensor = tensors.at(name);
        const ShardCut rows = *cut(param->parts[p].rows, name);
        const ShardCut cols = *cut(param->is_vector() ? kOneColumn : param->cols, name);
        ASSERT_EQ(tensor.rows, param->parts[p].rows.on_disk().value) << name;
        ASSERT_EQ(tensor.cols, param->is_vector() ? 1 : param->cols.on_disk().value) << name;
        const float* first = tensor.values.data() + rows.begin * tensor.cols + cols.begin;
        SourceRows source;
        source.data = first, source.dtype = DType::kF32;
        source.rows = rows.count, source.cols = cols.count, source.stride = tensor.cols;
        if (rows.count > 0) param->store->put(local_row, source);
        local_row += rows.local.value;
      }
    }
  }

 private:
  static constexpr ShardDim kOneColumn{.units = 1};
  static Arena arena() { return Arena(Buffer::allocate(size_t{512} << 10).value()); }
};

/// Runs body(rank) on a thread for each rank of `groups`. All of a group must make the same collective calls.
template <class Body>
void on_each(std::vector<ParallelGroups> groups, const RankOptions& options, Body body) {
  std::vector<std::thread> threads;
  for (ParallelGroups& own : groups) {
    threads.emplace_back([&body, &options, &own] {
      TestRank rank(std::move(own), options);
      body(rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// On `ranks` threads that form the group `name`.
template <class Body>
void on_ranks(int ranks, const RankOptions& options, Body body, std::string_view name = "tp") {
  RankFault fault;
  std::vector<ParallelGroups> groups;
  for (std::unique_ptr<Communicator>& own : make_thread_communicators(ranks, fault))
    groups.push_back(ParallelGroups::over(name, std::move(own)));
  on_each(std::move(groups), options, body);
  EXPECT_EQ(fault.message(), "");
}

/// On a thread for each rank of `topology`.
template <class Body>
void on_topology(const Topology& topology, const RankOptions& options, Body body) {
  RankFault fault;
  on_each(make_thread_groups(topology, fault), options, body);
  EXPECT_EQ(fault.message(), "");
}

}  // namespace lamina::layer_test
