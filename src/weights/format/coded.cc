#include "weights/format/coded.h"

#include <cstring>

#include "base/strings.h"
#include "weights/format/coded_state.h"

namespace lamina {

namespace {

void add_tensor(const LinearShape& shape, const PublishedTensor& tensor, std::unique_ptr<ParamStore> store, ParamList& params) {
  Param param{.name = cat(shape.name, ".", tensor.leaf), .parts = shape.parts, .cols = shape.cols, .store = std::move(store)};
  param.disk = tensor.disk;
  param.aliases = tensor.aliases;
  param.optional = tensor.optional;
  params.add(std::move(param));
}

}  // namespace

PublishedTensor scales_tensor(const QuantScheme& scheme, std::string leaf) {
  using Axis = DiskDim::Axis;
  PublishedTensor out{.leaf = std::move(leaf)};
  const DiskDim cols = DiskDim::blocks(Axis::kCols, scheme.scale_cols);
  out.disk = scheme.scale_rows == 0 ? std::vector{DiskDim::fixed(1)} : std::vector{DiskDim::blocks(Axis::kRows, scheme.scale_rows), cols};
  switch (scheme.scale) {
    case QuantScheme::Scale::kFloat:
      out.dtypes = {DType::kF32, DType::kBF16, DType::kF16, DType::kF8E8M0};
      out.dummy = {.dtype = DType::kBF16, .keep = 0x007F007F, .set = 0x3C003C00};  // 2^-7 to 2^-6
      break;
    case QuantScheme::Scale::kE8m0:
      out.dtypes = {DType::kU8, DType::kF8E8M0};  // the same byte
      out.dummy = {.dtype = DType::kU8, .keep = 0x01010101, .set = 0x78787878};
      break;
    case QuantScheme::Scale::kE4m3:
      out.dtypes = {DType::kF8E4M3};
      out.dummy = {.dtype = DType::kF8E4M3, .keep = 0x07070707, .set = 0x38383838};
      break;
  }
  return out;
}

PublishedTensor input_scale_tensor() {
  return {.leaf = "input_scale",
          .disk = {DiskDim::fixed(1)},
          .dtypes = {DType::kF32, DType::kBF16, DType::kF16},
          .dummy = {.dtype = DType::kF32, .keep = 0, .set = 0x3C800000}};  // 2^-6
}

void unpack_bytes(const QuantScheme&, const SourceRows& source, int64_t row, int64_t count, int64_t cols, uint8_t* out) {
  const auto* from = static_cast<const uint8_t*>(source.data) + row * source.stride;
  for (int64_t r = 0; r < count; ++r) std::memcpy(out + r * cols, from + r * source.stride, static_cast<size_t>(cols));
}

DiskDim group_dim(const LinearShape& shape, const QuantScheme& scheme) {
  const DiskDim groups = DiskDim::blocks(DiskDim::Axis::kCols, scheme.scale_cols);
  return scheme.act_order ? DiskDim::fixed(groups.units(0, shape.cols.on_disk().value).count) : groups;
}

Result<std::unique_ptr<LinearWeights>> create_coded(const LinearShape& shape, const QuantScheme& scheme, const PublishedLayout& layout,
                                                    const CodedOptions& options, ParamList& params) {
  LAMINA_ASSIGN(const std::shared_ptr<CodedState> state, make_coded_state(shape, scheme, layout, options));
  add_tensor(shape, layout.codes, make_codes_store(state), params);
  add_tensor(shape, layout.scales, make_scales_store(state), params);
  if (layout.zeros) add_tensor(shape, *layout.zeros, make_zeros_store(state), params);
  if (layout.index) add_tensor(shape, *layout.index, make_index_store(state), params);
  if (layout.shape) add_tensor(shape, *layout.shape, make_shape_store(state), params);
  if (layout.global_scale) add_tensor(shape, *layout.global_scale, make_global_scale_store(state), params);
  if (layout.input_scale) add_tensor(shape, *layout.input_scale, make_input_scale_store(state), params);
  return make_coded_weights(state);
}

}  // namespace lamina
