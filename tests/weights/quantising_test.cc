// Plain checkpoints quantised while they are loaded: what is kept is the whole matrix's codes, however it is cut.

#include "weights/format/quantising.h"

#include <gmock/gmock.h>

#include <limits>

#include "checkpoint/quant_presets.h"
#include "tests/weights/toy_model.h"

namespace lamina {
namespace {

using testing::HasSubstr;

const std::vector<std::string> kLayers = {toy::kEmbed, toy::kQkv, toy::kOut, toy::kGateUp, toy::kDown};

QuantConfig config_of(const std::string& scheme, int64_t group_size = 0, const std::string& ignore = "") {
  return quantising_config({.scheme = scheme, .group_size = group_size, .ignore = ignore}).value();
}

std::unique_ptr<WeightFormat> format_of(const QuantConfig& config, Isa isa = Isa::kRef) {
  return make_quantised_format(config, {.model_dtype = DType::kBF16, .quantise = true}, kernels::table(isa));
}

Status load_files(const toy::Files& files, toy::Model& model) {
  LAMINA_ASSIGN(const LoadPlan plan, plan_load(files.checkpoint(), model.params(), {}));
  ThreadTeam team(2, 2);
  return execute_load(plan, files.checkpoint(), team, {});
}

/// Values that no type of codes holds exactly.
fixture::Tensors odd_tensors(DType dtype) {
  fixture::Tensors out = toy::tensors(dtype);
  for (auto& [name, tensor] : out) {
    int64_t count = 1;
    for (const int64_t extent : tensor.shape) count *= extent;
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(0.37F * toy::value(name, i) + 0.011F * toy::value(name, i + 1));
    tensor = fixture::make_tensor(dtype, tensor.shape, values);
  }
  return out;
}

/// The matrix of one tensor, quantised by rows and expanded again.
std::vector<float> quantised(const fixture::Tensor& tensor, const QuantScheme& scheme) {
  const int64_t rows = tensor.shape[0], cols = tensor.shape[1];
  const kernels::WeightQuant rule = quantising_rule(scheme);
  std::vector<float> values(static_cast<size_t>(rows * cols)), scales(static_cast<size_t>(rows * rule.groups(cols)));
  std::vector<uint8_t> codes(values.size());
  const SourceRows source{
      .data = tensor.bytes.data(), .dtype = *parse_safetensors_dtype(tensor.dtype), .rows = rows, .cols = cols, .stride = cols};
  widen_rows(source, 0, rows, 0, cols, values.data());
  const F32View scale(scales.data(), rows, rule.groups(cols));
  kernels::quantise_weights(kernels::table(Isa::kRef), rule, ConstF32View(values.data(), rows, cols), codes.data(), scale);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) {
      const auto i = static_cast<size_t>(r * cols + c);
      const float level = kernels::decode(rule.code, codes[i]) - (rule.code == kernels::Code::kInt4 ? 8.0F : 0.0F);
      values[i] = level * scale.at(r, rule.group == 0 ? 0 : c / rule.group);
    }
  return values;
}

/// What a rank should hold of a layer: its rows of every part and its columns, zeros where the vocabulary is padded.
std::vector<float> share(const toy::Model& model, const std::string& layer, const fixture::Tensors& tensors, const QuantScheme& scheme) {
  const Param& param = *model.params().find(layer + ".weight");
  const ShardCut cols = cut(param.cols, layer).value();
  std::vector<float> out;
  for (int part = 0; part < static_cast<int>(param.parts.size()); ++part) {
    const ShardCut rows = cut(param.parts[static_cast<size_t>(part)].rows, layer).value();
    const std::vector<float> whole = quantised(tensors.at(param.part_name(part)), scheme);
    for (int64_t r = rows.begin; r < rows.begin + rows.count; ++r) {
      const float* const row = whole.data() + r * param.cols.on_disk().value + cols.begin;
      out.insert(out.end(), row, row + cols.count);
    }
    out.resize(out.size() + static_cast<size_t>((rows.local.value - rows.count) * cols.count));
  }
  return out;
}

struct Scheme {
  const char* name;
  int64_t group_size;
};
class QuantisingLayers : public testing::TestWithParam<Scheme> {
 protected:
  const QuantConfig config = config_of(GetParam().name, GetParam().group_size);
  const QuantScheme scheme = quantise_preset({.scheme = GetParam().name, .group_size = GetParam().group_size}).value().scheme;
};

TEST_P(QuantisingLayers, ARankHoldsItsShareOfTheWholeMatrixsCodes) {
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
    const fixture::Tensors tensors = odd_tensors(dtype);
    fixture::Tensors fused = tensors;
    toy::fuse_all(fused);
    const toy::Files split_files(tensors), fused_files(fused, 2);
    for (const int ranks : {1, 2, 4, 8}) {  // from 2 on groups of down_proj, from 4 on of o_proj reach over the ranks' edges
      for (int rank = 0; rank < ranks; ++rank) {
        for (const toy::Files* files : {&split_files, &fused_files}) {
          toy::Model model(ranks, rank, format_of(config));
          const Status loaded = load_files(*files, model);
          ASSERT_TRUE(loaded.ok()) << loaded.error().message;
          for (const std::string& layer : kLayers) {
            ASSERT_EQ(model.matrix(layer), share(model, layer, tensors, scheme)) << layer << ", rank " << rank << " of " << ranks;
          }
        }
      }
    }
  }
}

TEST_P(QuantisingLayers, MadeUpValuesAreThePlainOnesQuantised) {
  toy::Model plain(1, 0, DType::kBF16), dummy(1, 0, format_of(config)), from_file(1, 0, format_of(config));
  ThreadTeam team(2, 2);
  ASSERT_TRUE(execute_dummy(*plan_dummy(plain.params(), DType::kBF16), team).ok());
  ASSERT_TRUE(execute_dummy(*plan_dummy(dummy.params(), DType::kBF16), team).ok());
  fixture::Tensors tensors = toy::tensors(DType::kBF16);
  toy::fuse_all(tensors);
  for (const std::string& layer : kLayers) {
    fixture::Tensor& tensor = tensors.at(layer + ".weight");
    const std::vector<float> padded = plain.matrix(layer);
    const auto count = static_cast<std::ptrdiff_t>(tensor.shape[0] * tensor.shape[1]);
    tensor = fixture::make_tensor(DType::kBF16, tensor.shape, std::vector<float>(padded.begin(), padded.begin() + count));
  }
  ASSERT_TRUE(load_files(toy::Files(tensors), from_file).ok());
  for (const std::string& layer : kLayers) EXPECT_EQ(dummy.matrix(layer), from_file.matrix(layer)) << layer;
}

TEST_P(QuantisingLayers, KeepsCodesAndScalesOnly) {
  toy::Model model(1, 0, format_of(config));
  ASSERT_TRUE(plan_dummy(model.params(), DType::kBF16).ok());
  const Param& down = *model.params().find(toy::kDown + ".weight");
  const int64_t rows = 32, cols = toy::kInner;  // whole panels
  const int64_t groups = scheme.scale_cols == 0 ? 1 : (cols + scheme.scale_cols - 1) / scheme.scale_cols;
  const int64_t bytes = rows * cols * scheme.bits / 8 + rows * groups * (scheme.bits == 4 ? 2 : 4);
  EXPECT_EQ(down.store->bytes(), static_cast<size_t>(bytes));
}

INSTANTIATE_TEST_SUITE_P(Schemes, QuantisingLayers,
                         testing::Values(Scheme{"int8", 0}, Scheme{"int4", 32}, Scheme{"int4", 128}, Scheme{"fp8", 0}),
                         [](const auto& given) { return std::string(given.param.name) + std::to_string(given.param.group_size); });

TEST(Quantising, WhatIsNotFiniteIsRefusedByTheTensorsName) {
  constexpr float kBad[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()};
  for (const char* const scheme : {"int8", "int4", "fp8"}) {
    for (const float bad : kBad) {
      fixture::Tensors tensors = toy::tensors(DType::kBF16);
      std::vector<float> values(toy::kInner * toy::kHidden, 0.5F);
      values[777] = bad;
      tensors["model.layers.0.mlp.up_proj.weight"] = fixture::make_tensor(DType::kBF16, {toy::kInner, toy::kHidden}, values);
      const QuantConfig config = config_of(scheme);
      toy::Model model(1, 0, format_of(config));
      const Status loaded = load_files(toy::Files(tensors), model);
      ASSERT_FALSE(loaded.ok());
      EXPECT_EQ(loaded.error().message, "model.layers.0.mlp.up_proj.weight: holds NaN or an infinity");
    }
  }
}

TEST(Quantising, IgnoredModulesStayPlain) {
  const QuantConfig config = config_of("int8", 0, "model.embed_tokens,re:.*mlp\\.down");
  toy::Model model(1, 0, format_of(config)), plain(1, 0, DType::kBF16);
  const toy::Files files(toy::tensors(DType::kBF16));
  ASSERT_TRUE(load_files(files, model).ok());
  ASSERT_TRUE(load_files(files, plain).ok());
  for (const std::string& layer : kLayers) {
    const bool ignored = layer == toy::kEmbed || layer == toy::kDown;
    EXPECT_EQ(model.params().find(layer + ".weight")->is_plain(), ignored) << layer;
    EXPECT_EQ(model.matrix(layer) == plain.matrix(layer), ignored) << layer;
  }
}

TEST(Quantising, APatternThatMatchesNoModuleIsRefused) {
  const toy::Model model;
  const auto check = [&](const std::string& ignore) {
    return check_matched(quantise_preset({.scheme = "int8", .ignore = ignore}).value().ignore, model.params(), "--quantization-ignore");
  };
  for (const char* const good :
       {"model.embed_tokens", "model.layers.0.self_attn.q_proj", "layers.0.mlp.down_proj", "re:.*gate_up_proj", ""}) {
    EXPECT_TRUE(check(good).ok()) << good;
  }
  for (const char* const bad : {"lm_head", "mlp.down_proj", "model.embed_tokens,re:.*visual"}) {
    const Status refused = check(bad);
    ASSERT_FALSE(refused.ok()) << bad;
    EXPECT_THAT(refused.error().message, HasSubstr("matches no module")) << bad;
  }
  EXPECT_THAT(check("model.embed_tokens,re:.*visual").error().message, HasSubstr("--quantization-ignore: re:.*visual matches"));
}

}  // namespace
}  // namespace lamina
