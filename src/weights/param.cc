#include "weights/param.h"

#include <algorithm>
#include <cstring>

#include "base/strings.h"
#include "weights/store_parts.h"

namespace lamina {

std::string dtype_word(DType dtype) {
  std::string out = dtype_name(dtype);
  std::ranges::transform(out, out.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return out;
}

std::string dtype_words(const std::vector<DType>& dtypes) {
  std::vector<std::string> words;
  for (const DType dtype : dtypes) {
    std::string word = dtype_word(dtype);
    if (std::ranges::find(words, word) == words.end()) words.push_back(std::move(word));
  }
  return join(words, " and ");
}

std::vector<DiskDim> Param::dims() const {
  if (!disk.empty()) return disk;
  if (is_vector()) return {DiskDim::rows()};
  return {DiskDim::rows(), DiskDim::cols()};
}

std::vector<int64_t> Param::on_disk_shape(int part) const {
  int64_t rows = 0;
  if (part >= 0)
    rows = parts[static_cast<size_t>(part)].rows.on_disk().value;
  else
    for (const ParamPart& p : parts) rows += p.rows.on_disk().value;
  std::vector<int64_t> shape;
  for (const DiskDim& dim : dims()) {
    shape.push_back(dim.units(0, dim.axis == DiskDim::Axis::kRows ? rows : cols.on_disk().value).count);
  }
  return shape;
}

bool Param::fits(const std::vector<int64_t>& shape, int part) const {
  const std::vector<int64_t> whole = on_disk_shape(part);
  if (shape == whole) return true;
  std::vector<int64_t> without;
  for (size_t i = 0; i < whole.size(); ++i) {
    if (whole[i] != 1 || dims()[i].axis != DiskDim::Axis::kNone) without.push_back(whole[i]);
  }
  return shape == without;
}

int64_t Param::on_disk_elements() const {
  int64_t elements = 0;
  for (int part = 0; part < static_cast<int>(parts.size()); ++part) {
    int64_t of_part = 1;
    for (const int64_t extent : on_disk_shape(part)) of_part *= extent;
    elements += of_part;
  }
  return elements;
}

namespace {

/// The shape of `param` when each dimension counts `extent` (a run of elements) of its cut; tensors without rows stand one below the other.
template <class F>
Result<std::vector<int64_t>> shape_of(const Param& param, F extent) {
  ShardCut cols;
  if (!param.is_vector()) {
    LAMINA_ASSIGN(cols, cut(param.cols, param.name));
  }
  std::vector<int64_t> shape;
  bool by_rows = false;
  for (const DiskDim& dim : param.dims()) {
    if (dim.axis != DiskDim::Axis::kRows) {
      const DiskRange run = extent(cols);
      shape.push_back(dim.units(run.begin, run.count).count);
      continue;
    }
    by_rows = true;
    int64_t rows = 0;
    for (const ParamPart& part : param.parts) {
      LAMINA_ASSIGN(const ShardCut share, cut(part.rows, param.name));
      const DiskRange run = extent(share);
      rows += dim.units(run.begin, run.count).count;
    }
    shape.push_back(rows);
  }
  if (!by_rows && param.parts.size() > 1) shape.insert(shape.begin(), static_cast<int64_t>(param.parts.size()));
  return shape;
}

}  // namespace

Result<std::vector<int64_t>> Param::local_shape() const {
  return shape_of(*this, [](const ShardCut& share) { return DiskRange{share.begin, share.local.value}; });
}

Result<std::vector<int64_t>> Param::global_shape() const {
  return shape_of(*this, [](const ShardCut& share) { return DiskRange{0, share.global.value}; });
}

std::string Param::part_name(int part) const {
  const std::string& module = parts[static_cast<size_t>(part)].module;
  const size_t leaf = name.rfind('.');
  if (module.empty() || leaf == std::string::npos || leaf == 0) return name;
  const size_t dot = name.rfind('.', leaf - 1);
  return cat(dot == std::string::npos ? "" : name.substr(0, dot + 1), module, name.substr(leaf));
}

std::string Param::with_leaf(std::string_view tensor, std::string_view leaf) {
  const size_t dot = tensor.rfind('.');
  return cat(dot == std::string_view::npos ? "" : tensor.substr(0, dot + 1), leaf);
}

Param& ParamList::add(Param param) {
  LAMINA_CHECK(find(param.name) == nullptr, "a parameter is declared once");
  LAMINA_CHECK(!param.parts.empty() && param.store != nullptr, "a parameter has parts and a store");
  params_.push_back(std::make_unique<Param>(std::move(param)));
  by_name_.emplace(params_.back()->name, params_.back().get());
  return *params_.back();
}

const Param* ParamList::find(std::string_view name) const {
  const auto found = by_name_.find(std::string(name));
  return found == by_name_.end() ? nullptr : found->second;
}

size_t ParamList::bytes() const {
  size_t total = 0;
  for (const auto& param : params_) total += whole_lines(param->store->bytes());
  return total;
}

Status ParamList::reserve() {
  LAMINA_ASSIGN(memory_, Buffer::allocate(bytes()));
  uint8_t* next = memory_.data();
  for (const auto& param : params_) {
    param->store->bind(next);
    next += whole_lines(param->store->bytes());
  }
  return {};
}

Status check_float_sources(const std::vector<DType>& sources, std::string_view param) {
  for (const DType dtype : sources) {
    if (dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBF16) {
      return error(param, ": type ", dtype_name(dtype), " cannot be loaded here (allowed: F32, F16, BF16)");
    }
  }
  return {};
}

Status VectorStore::plan(const std::vector<DType>& sources, std::string_view param) { return check_float_sources(sources, param); }

size_t VectorStore::bytes() const { return static_cast<size_t>(size_) * sizeof(float); }

void VectorStore::put(int64_t row, const SourceRows& source) {
  LAMINA_CHECK(row >= 0 && row + source.rows <= size_ && source.cols == 1, "rows outside the vector");
  const auto* from = static_cast<const uint8_t*>(source.data);
  const int64_t step = source.stride * dtype_bytes(source.dtype);
  for (int64_t i = 0; i < source.rows; ++i) data_[row + i] = element_f32(from + i * step, source.dtype);
}

}  // namespace lamina
