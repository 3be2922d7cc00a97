#include "weights/kv_scales.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/strings.h"

namespace lamina {

namespace {

constexpr std::array<std::string_view, 7> kLeaves = {"k_scale", "v_scale",    "kv_scale",         "output_scale",
                                                     "q_scale", "prob_scale", "prob_output_scale"};

/// One scalar, put where `value` and `present` point (null: checked and dropped).
class ScaleStore final : public ParamStore {
 public:
  ScaleStore(std::shared_ptr<KvScales> owner, float* value, bool* present) : owner_(std::move(owner)), value_(value), present_(present) {}

  Status plan(const std::vector<DType>& sources, std::string_view param) override { return check_float_sources(sources, param); }
  size_t bytes() const override { return 0; }
  DType storage_dtype() const override { return DType::kF32; }
  std::string describe() const override { return value_ == nullptr ? "scale: checked, not used" : "f32 scale of the KV cache"; }
  void bind(uint8_t*) override {}
  int64_t row_grain() const override { return 1; }
  void put(int64_t, const SourceRows& source) override {
    VectorStore one(1);
    float value = 0;
    one.bind(reinterpret_cast<uint8_t*>(&value));
    one.put(0, {.data = source.data, .dtype = source.dtype, .rows = 1, .cols = 1, .stride = 1});
    if (!std::isfinite(value) || !(value > 0)) fault_ = cat(source.tensor, ": scale ", value, " (allowed: finite, above 0)");
    if (value_ != nullptr) *value_ = value;
    if (present_ != nullptr) *present_ = true;
  }
  Status finish() override { return fault_.empty() ? Status() : Status(error(fault_)); }
  DummyBits dummy() const override { return {.dtype = DType::kF32, .keep = 0, .set = 0x3F800000}; }

 private:
  std::shared_ptr<KvScales> owner_;  // owners: the stores and the rank
  float* value_;
  bool* present_;
  std::string fault_;
};

}  // namespace

Status KvScales::complete() {
  for (size_t i = 0; i < layers.size(); ++i) {
    Layer& layer = layers[i];
    const std::string name = cat("model.layers.", stage.begin + static_cast<int64_t>(i), ".self_attn.");
    if (layer.has_v && !layer.has_k) return error("checkpoint has ", name, "v_scale but no ", name, "k_scale");
    if (layer.has_k && !layer.has_v) layer.v = layer.k;
  }
  return {};
}

bool holds_kv_scales(const Checkpoint& checkpoint) {
  return std::ranges::any_of(checkpoint.tensors(), [](const TensorInfo& tensor) {
    const std::string_view leaf = std::string_view(tensor.name).substr(tensor.name.rfind('.') + 1);
    return std::ranges::find(kLeaves, leaf) != kLeaves.end();
  });
}

std::shared_ptr<KvScales> declare_kv_scales(const StageLayers& stage, bool required, ParamList& params) {
  auto scales = std::make_shared<KvScales>();
  scales->stage = stage;
  scales->layers.resize(static_cast<size_t>(stage.count));
  const auto add = [&](std::string name, std::vector<std::string> aliases, std::unique_ptr<ParamStore> store, bool optional,
                       std::string set) {
    Param param{
        .name = std::move(name), .parts = {{"", {.rule = ShardRule::kReplicate, .units = 1}}}, .cols = {}, .store = std::move(store)};
    param.disk = {DiskDim::fixed(1)};
    param.aliases = std::move(aliases);
    param.optional = optional;
    param.set = std::move(set);
    params.add(std::move(param));
  };
  for (size_t i = 0; i < scales->layers.size(); ++i) {
    KvScales::Layer& layer = scales->layers[i];
    const std::string module = cat("model.layers.", stage.begin + static_cast<int64_t>(i), ".self_attn.");
    const auto store = [&](float* value, bool* present) { return std::make_unique<ScaleStore>(scales, value, present); };
    add(module + "k_scale", {"attn.k_scale", "k_proj.k_scale", "qkv_proj.k_scale", "k_proj.output_scale", "kv_scale", "attn.kv_scale"},
        store(&layer.k, &layer.has_k), !required, "k_scale");
    add(module + "v_scale", {"attn.v_scale", "v_proj.v_scale", "qkv_proj.v_scale", "v_proj.output_scale"}, store(&layer.v, &layer.has_v),
        !required, "v_scale");
    add(module + "q_scale", {"attn.q_scale", "q_proj.output_scale"}, store(nullptr, nullptr), true, "");
    add(module + "prob_scale", {"attn.prob_scale", "prob_output_scale"}, store(nullptr, nullptr), true, "");
  }
  return scales;
}

}  // namespace lamina
