#include "weights/format/quantising.h"

#include <cmath>

#include "base/strings.h"
#include "weights/format/coded_state.h"
#include "weights/store_parts.h"

namespace lamina {

namespace {

constexpr int64_t kRowsAtOnce = 8;

template <class T, class ToF32>
void widen(const uint8_t* from, int64_t count, float* out, ToF32 to_f32) {
  for (int64_t i = 0; i < count; ++i) {
    T bits;
    std::memcpy(&bits, from + i * static_cast<int64_t>(sizeof(T)), sizeof(T));  // files do not align
    out[i] = to_f32(bits);
  }
}

/// Codes and scales of a layer, made of plain rows.
class QuantisingStore final : public ParamStore {
 public:
  QuantisingStore(std::shared_ptr<CodedState> state, const kernels::Kernels& kernels)
      : state_(std::move(state)), kernels_(kernels), rule_(quantising_rule(state_->scheme)) {
    // Whole groups, of which the first and the last may reach over the rank's columns.
    const ShardCut& cols = state_->cols;
    const int64_t group = rule_.group, end = cols.begin + cols.count, all = state_->col_dim.on_disk().value;
    first_col_ = group == 0 ? 0 : cols.begin / group * group;
    end_col_ = group == 0 ? all : std::min((end + group - 1) / group * group, all);
    for (CodedSection& section : state_->sections) section.matrix.scale_dtype = rule_.scale_dtype;
  }

  Status plan(const std::vector<DType>& sources, std::string_view param) override {
    sources_ = sources;
    return check_float_sources(sources, param);
  }
  size_t bytes() const override {
    size_t total = 0;
    for (const CodedSection& section : state_->sections) total += whole_lines(section.matrix.code_bytes()) + section.matrix.scale_bytes();
    return total;
  }
  DType storage_dtype() const override {
    return rule_.code == kernels::Code::kInt8 ? DType::kI8 : rule_.code == kernels::Code::kInt4 ? DType::kU8 : DType::kF8E4M3;
  }
  std::string describe() const override {
    return cat(code_word(), state_->scheme.scale_cols == 0 ? ", a scale a row" : cat(", groups of ", state_->scheme.scale_cols), ", from ",
               dtype_words(sources_));
  }
  void bind(uint8_t* memory) override {
    kernels::CodedMatrix& matrix = state_->sections.front().matrix;
    matrix.codes = memory;
    matrix.scales = memory + whole_lines(matrix.code_bytes());
  }
  int64_t row_grain() const override { return kernels::kPanelRows; }
  bool reads_whole_rows() const override { return true; }
  DummyBits dummy() const override { return {.dtype = DType::kBF16, .plain = true}; }

  void put(int64_t row, const SourceRows& source) override {
    const kernels::CodedMatrix& matrix = state_->sections.front().matrix;
    const int64_t width = end_col_ - first_col_, most = std::min(kRowsAtOnce, source.count);
    RowQuantiser rows(kernels_, rule_, most, width);
    for (int64_t r = 0; r < source.count; r += kRowsAtOnce) {
      const int64_t count = std::min(kRowsAtOnce, source.count - r);
      if (rows.quantise(source, r, count, first_col_)) return fault_.add(error(source.tensor, ": holds NaN or an infinity"));
      kernels::pack_codes(matrix, row + r, count, rows.codes().data() + state_->cols.begin - first_col_, width);
      kernels::pack_scales(matrix, row + r, count, rows.scales().data(), matrix.runs);
    }
  }

  Status finish() override {
    LAMINA_TRY(fault_.status());
    return state_->options.scratch->reserve();
  }

 private:
  const char* code_word() const {
    return rule_.code == kernels::Code::kInt8 ? "int8" : rule_.code == kernels::Code::kInt4 ? "int4" : "fp8";
  }

  std::shared_ptr<CodedState> state_;  // of one section: no part has inputs of its own
  const kernels::Kernels& kernels_;
  kernels::WeightQuant rule_;
  int64_t first_col_ = 0, end_col_ = 0;
  std::vector<DType> sources_;
  LeastFault fault_;
};

bool is_last(std::string_view name, std::string_view component) {
  return name.ends_with(component) && (name.size() == component.size() || name[name.size() - component.size() - 1] == '.');
}

/// What a checkpoint may call the module `name`: as it is, of a bare decoder, of the language model in a wrapper.
void add_names(std::string_view name, std::vector<std::string>& out) {
  out.emplace_back(name);
  out.push_back(cat("language_model.", name));
  if (!name.starts_with("model.")) return;
  const std::string_view inner = name.substr(6);
  out.emplace_back(inner);
  out.push_back(cat("model.language_model.", inner));
}

std::string module_of(const std::string& tensor) { return tensor.substr(0, tensor.rfind('.')); }

bool matches_any(const ModulePattern& pattern, const Param& param) {
  for (int part = 0; part < static_cast<int>(param.parts.size()); ++part) {
    if (matches(pattern, quant_module(module_of(param.part_name(part)), module_of(param.name)))) return true;
  }
  return false;
}

}  // namespace

kernels::WeightQuant quantising_rule(const QuantScheme& scheme) {
  using Layout = QuantScheme::Layout;
  switch (scheme.layout) {
    case Layout::kInt8:
      return {.code = kernels::Code::kInt8, .group = scheme.scale_cols};
    case Layout::kFp8:
      return {.code = kernels::Code::kFp8E4m3, .group = scheme.scale_cols};
    default:
      LAMINA_CHECK(scheme.layout == Layout::kPacked && scheme.bits == 4 && scheme.symmetric, "weights are quantised to int8, int4 or fp8");
      return {.code = kernels::Code::kInt4, .group = scheme.scale_cols, .scale_dtype = DType::kBF16};
  }
}

void widen_rows(const SourceRows& source, int64_t row, int64_t count, int64_t col, int64_t cols, float* out) {
  const int64_t element = dtype_bytes(source.dtype);
  for (int64_t r = 0; r < count; ++r, out += cols) {
    const uint8_t* const from = static_cast<const uint8_t*>(source.data) + ((row + r) * source.stride + col) * element;
    if (source.dtype == DType::kF32) {
      std::memcpy(out, from, static_cast<size_t>(cols) * sizeof(float));
    } else if (source.dtype == DType::kBF16) {
      widen<uint16_t>(from, cols, out, bf16_to_f32);
    } else {
      widen<uint16_t>(from, cols, out, f16_to_f32);
    }
  }
}

RowQuantiser::RowQuantiser(const kernels::Kernels& kernels, const kernels::WeightQuant& rule, int64_t rows, int64_t cols)
    : kernels_(kernels),
      rule_(rule),
      cols_(cols),
      values_(static_cast<size_t>(rows * cols)),
      scales_(static_cast<size_t>(rows * rule.groups(cols))),
      codes_(values_.size()) {}

std::optional<int64_t> RowQuantiser::quantise(const SourceRows& source, int64_t row, int64_t count, int64_t col) {
  const int64_t groups = rule_.groups(cols_);
  widen_rows(source, row, count, col, cols_, values_.data());
  kernels::quantise_weights(kernels_, rule_, {values_.data(), count, cols_}, codes_.data(), {scales_.data(), count, groups});
  const auto end = scales_.begin() + count * groups;
  const auto bad = std::find_if_not(scales_.begin(), end, [](float scale) { return std::isfinite(scale); });
  return bad == end ? std::nullopt : std::optional((bad - scales_.begin()) / groups);
}

Result<std::unique_ptr<LinearWeights>> create_quantising(const LinearShape& shape, const QuantScheme& scheme, const PublishedLayout& layout,
                                                         const CodedOptions& options, const kernels::Kernels& kernels, ParamList& params) {
  LAMINA_ASSIGN(const std::shared_ptr<CodedState> state, make_coded_state(shape, scheme, layout, options));
  params.add({.name = cat(shape.name, ".weight"),
              .parts = shape.parts,
              .cols = shape.cols,
              .store = std::make_unique<QuantisingStore>(state, kernels),
              .disk = {DiskDim::rows(), DiskDim::cols()}});
  return make_coded_weights(state);
}

QuantConfig::Module quant_module(const std::string& own, const std::string& fused) {
  QuantConfig::Module module{.names = {}, .embedding = is_last(own, "embed_tokens"), .head = is_last(own, "lm_head")};
  add_names(own, module.names);
  if (own != fused) add_names(fused, module.names);
  return module;
}

Status check_matched(const std::vector<ModulePattern>& patterns, const ParamList& params, std::string_view flag) {
  for (const ModulePattern& pattern : patterns) {
    if (std::ranges::any_of(params.all(), [&](const auto& param) { return !param->is_vector() && matches_any(pattern, *param); })) continue;
    return error(
        flag, ": ", pattern.kind == ModulePattern::Kind::kRegex ? "re:" : "", pattern.text,
        " matches no module with a matrix (allowed: whole names of modules as in the checkpoint, of a tied head that of its embedding, "
        "and \"re:\" with a regular expression)");
  }
  return {};
}

}  // namespace lamina
