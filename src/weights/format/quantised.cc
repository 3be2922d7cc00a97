// The format of a quantised checkpoint: which scheme each layer has, or none.

#include <array>

#include "base/strings.h"
#include "weights/format/quantising.h"

namespace lamina {

namespace {

using Answer = QuantConfig::Answer;

using MakeLayout = PublishedLayout (*)(const LinearShape& shape, const QuantScheme& scheme);
constexpr std::array<MakeLayout, 6> kLayouts = {fp8_layout, int8_layout, packed_layout, gptq_layout, awq_layout, fp4_layout};  // by Layout

PublishedLayout layout_of(const LinearShape& shape, const QuantScheme& scheme) {
  return kLayouts[static_cast<size_t>(scheme.layout)](shape, scheme);
}

class QuantisedFormat final : public WeightFormat {
 public:
  QuantisedFormat(const QuantConfig& config, QuantisedFormatOptions options, const kernels::Kernels& kernels)
      : config_(config),
        holds_(std::move(options.holds)),
        quantises_(options.quantise),
        kernels_(kernels),
        plain_(make_plain_format({options.model_dtype}, kernels)),
        coded_{.model_dtype = options.model_dtype, .act_quant = options.act_quant, .scratch = std::make_shared<InputScratch>()} {}

  const char* name() const override { return config_.method().c_str(); }
  size_t scratch_bytes() const override { return coded_.scratch->needed(); }

  Result<std::unique_ptr<LinearWeights>> create_weights(const LinearShape& shape, ParamList& params) const override {
    if (std::optional<std::string> fault = mixture(shape)) {
      params.add_fault(*std::move(fault));
      return create_parts(shape, params);
    }
    return create(shape, scheme_of_part(shape, part_name(shape, shape.parts.front())), params);
  }

 private:
  /// `scheme` null: plain.
  Result<std::unique_ptr<LinearWeights>> create(const LinearShape& shape, const QuantScheme* scheme, ParamList& params) const {
    if (scheme == nullptr) return plain_->create_weights(shape, params);
    if (quantises_) return create_quantising(shape, *scheme, layout_of(shape, *scheme), coded_, kernels_, params);
    return create_coded(shape, *scheme, layout_of(shape, *scheme), coded_, params);
  }

  static std::string part_name(const LinearShape& shape, const ParamPart& part) {
    return part.module.empty() ? shape.name : Param::with_leaf(shape.name, part.module);
  }

  /// Which parts of a fused layer differ; nothing when they agree.
  std::optional<std::string> mixture(const LinearShape& shape) const {
    const ParamPart& first = shape.parts.front();
    const QuantScheme* const agreed = scheme_of_part(shape, part_name(shape, first));
    for (const ParamPart& part : shape.parts) {
      const QuantScheme* const scheme = scheme_of_part(shape, part_name(shape, part));
      if (scheme == agreed || (scheme != nullptr && agreed != nullptr && *scheme == *agreed)) continue;
      return cat(shape.name, ": ", first.module, " is ", describe(agreed), ", ", part.module, " is ", describe(scheme));
    }
    return std::nullopt;
  }

  /// The parts of a mixed layer each by itself, so that an audit goes on to what else is wrong. Nothing multiplies by them.
  Result<std::unique_ptr<LinearWeights>> create_parts(const LinearShape& shape, ParamList& params) const {
    std::unique_ptr<LinearWeights> out;
    for (const ParamPart& part : shape.parts) {
      const std::string own = part_name(shape, part);
      LAMINA_ASSIGN(out, create({own, {{"", part.rows}}, shape.cols}, scheme_of_part(shape, own), params));
    }
    return out;
  }

  static std::string describe(const QuantScheme* scheme) { return scheme == nullptr ? "plain" : scheme->describe(); }

  const QuantScheme* scheme_of_part(const LinearShape& shape, const std::string& own) const {
    const QuantConfig::Decision decision = config_.decide(quant_module(own, shape.name));
    if (decision.answer == Answer::kPlain) return nullptr;
    if (decision.answer == Answer::kUndecided && !holds_scales(shape, own, *decision.scheme)) return nullptr;
    return decision.scheme;
  }

  bool holds_scales(const LinearShape& shape, const std::string& own, const QuantScheme& scheme) const {
    if (!holds_) return false;
    const PublishedTensor scales = layout_of(shape, scheme).scales;
    if (holds_(cat(own, ".", scales.leaf))) return true;
    for (const std::string& alias : scales.aliases) {
      if (holds_(cat(own, ".", alias))) return true;
    }
    return false;
  }

  const QuantConfig& config_;
  std::function<bool(const std::string&)> holds_;
  bool quantises_;
  const kernels::Kernels& kernels_;
  std::unique_ptr<WeightFormat> plain_;
  CodedOptions coded_;
};

}  // namespace

std::unique_ptr<WeightFormat> make_quantised_format(const QuantConfig& config, QuantisedFormatOptions options,
                                                    const kernels::Kernels& kernels) {
  return std::make_unique<QuantisedFormat>(config, std::move(options), kernels);
}

}  // namespace lamina
