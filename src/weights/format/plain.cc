// Unquantised weights: bf16, f16 or f32 panels.

#include <algorithm>

#include "base/strings.h"
#include "kernels/gated.h"
#include "weights/format.h"

namespace lamina {

namespace {

/// The narrowest type that holds every source exactly.
DType widest(const std::vector<DType>& sources) {
  const bool same = std::adjacent_find(sources.begin(), sources.end(), std::not_equal_to<>()) == sources.end();
  return same && !sources.empty() ? sources.front() : DType::kF32;
}

class PlainStore final : public ParamStore {
 public:
  PlainStore(DType model_dtype, const kernels::Kernels& kernels, int64_t rows, int64_t cols)
      : rounds_to_bf16_(model_dtype == DType::kBF16), kernels_(kernels) {
    packed_.n = rows;
    packed_.k = cols;
    packed_.compute = rounds_to_bf16_ ? DType::kBF16 : DType::kF32;
  }

  Status plan(const std::vector<DType>& sources, std::string_view param) override {
    LAMINA_TRY(check_float_sources(sources, param));
    packed_.storage = rounds_to_bf16_ ? DType::kBF16 : widest(sources);
    sources_ = sources;
    return {};
  }
  size_t bytes() const override { return packed_.bytes(); }
  DType storage_dtype() const override { return packed_.storage; }
  std::string describe() const override {
    const bool same = std::ranges::all_of(sources_, [&](DType source) { return source == packed_.storage; });
    return dtype_word(packed_.storage) + (same ? "" : cat(" from ", dtype_words(sources_)));
  }
  void bind(uint8_t* memory) override { packed_.data = memory; }
  int64_t row_grain() const override { return kernels::kPanelRows; }
  void put(int64_t row, const SourceRows& source) override {
    LAMINA_CHECK(row >= 0 && row + source.rows <= packed_.n && source.cols == packed_.k, "rows outside the matrix");
    kernels_.pack_rows(packed_, row, source.rows, source.data, source.dtype, source.stride);
  }

  const kernels::PackedMatrix& packed() const { return packed_; }

 private:
  bool rounds_to_bf16_;
  const kernels::Kernels& kernels_;
  kernels::PackedMatrix packed_;
  std::vector<DType> sources_;
};

class PlainWeights final : public LinearWeights {
 public:
  explicit PlainWeights(const PlainStore& store) : store_(store) {}

  DType input_dtype() const override { return store_.packed().compute; }
  void matmul(const Compute& compute, const Activation& x, const float* bias, F32View out) const override {
    kernels::matmul(*compute.kernels, *compute.team, x, store_.packed(), bias, out);
  }
  bool can_gate() const override { return kernels::halves_are_panels(store_.packed().n); }
  void matmul_gated(const Compute& compute, const Activation& x, const float* bias, const MutableActivation& out,
                    void* scratch) const override {
    kernels::matmul_gated(*compute.kernels, *compute.team, x, store_.packed(), bias, {out, scratch});
  }
  void row(const Compute& compute, int64_t r, float* out) const override { compute.kernels->unpack_row(store_.packed(), r, out); }

 private:
  const PlainStore& store_;  // lives in the ParamList
};

class PlainFormat final : public WeightFormat {
 public:
  PlainFormat(PlainFormatOptions options, const kernels::Kernels& kernels) : options_(options), kernels_(kernels) {}

  const char* name() const override { return torch_dtype_name(options_.model_dtype); }

  Result<std::unique_ptr<LinearWeights>> create_weights(const LinearShape& shape, ParamList& params) const override {
    Param param{.name = cat(shape.name, ".weight"), .parts = shape.parts, .cols = shape.cols, .store = nullptr};
    LAMINA_ASSIGN(const std::vector<int64_t> local, param.local_shape());
    auto store = std::make_unique<PlainStore>(options_.model_dtype, kernels_, local[0], local[1]);
    auto weights = std::make_unique<PlainWeights>(*store);
    param.store = std::move(store);
    params.add(std::move(param));
    return std::unique_ptr<LinearWeights>(std::move(weights));
  }

 private:
  PlainFormatOptions options_;
  const kernels::Kernels& kernels_;
};

}  // namespace

std::unique_ptr<WeightFormat> make_plain_format(PlainFormatOptions options, const kernels::Kernels& kernels) {
  return std::make_unique<PlainFormat>(options, kernels);
}

}  // namespace lamina
