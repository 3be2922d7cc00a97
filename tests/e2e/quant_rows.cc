#include "tests/e2e/quant_rows.h"

#include <gtest/gtest.h>

#include "base/strings.h"

namespace lamina::e2e {

using fixture::QuantRecipe;
using fixture::QuantToy;
using fixture::Tensor;

namespace {

const std::string kConfig = "quantization_config";

}  // namespace

Change drop_leaf(std::string leaf) {
  return [=](QuantToy& t) { std::erase_if(t.model.tensors, [&](const auto& tensor) { return tensor.first.ends_with("." + leaf); }); };
}
Change drop(std::string tensor) {
  return [=](QuantToy& t) { ASSERT_EQ(t.model.tensors.erase(tensor), 1U) << tensor; };
}
Change add(std::string name, Tensor tensor) {
  return [=](QuantToy& t) { t.model.tensors[name] = tensor; };
}
Change move(std::string from, std::string to) {
  return [=](QuantToy& t) { t.model.rename(from, to); };
}
Change all(std::vector<Change> changes) {
  return [=](QuantToy& t) {
    for (const Change& change : changes) change(t);
  };
}
Change move_leaf(std::string from, std::string to) {
  return [=](QuantToy& t) {
    const fixture::Tensors before = t.model.tensors;
    for (const auto& [name, tensor] : before) {
      if (name.ends_with("." + from)) t.model.rename(name, name.substr(0, name.size() - from.size()) + to);
    }
  };
}
Change each_layer(std::string leaf, Tensor tensor) {
  return [=](QuantToy& t) {
    for (const char* layer : {"0", "1"}) t.model.tensors[cat("model.layers.", layer, ".self_attn.", leaf)] = tensor;
  };
}
Change scalar(std::string tensor, float value) { return add(tensor, fixture::f32_tensor({1}, std::vector<float>{value})); }
Change first_value(std::string tensor, float value) {
  return [=](QuantToy& t) {
    Tensor& found = t.model.tensors.at(tensor);
    const Tensor one = fixture::make_tensor(parse_safetensors_dtype(found.dtype).value(), {1}, std::vector<float>{value});
    found.bytes.replace(0, one.bytes.size(), one.bytes);
  };
}
Change first_byte(std::string tensor, int value) {
  return [=](QuantToy& t) { t.model.tensors.at(tensor).bytes[0] = static_cast<char>(value); };
}
Change copied(std::string from, std::string to) {
  return [=](QuantToy& t) {
    const fixture::Tensors before = t.model.tensors;
    for (const auto& [name, tensor] : before) {
      if (name.starts_with(from + ".")) t.model.tensors[to + name.substr(from.size())] = tensor;
    }
  };
}
Change reshape(std::string tensor, std::vector<int64_t> shape) {
  return [=](QuantToy& t) { t.model.tensors.at(tensor).shape = shape; };
}
Change retype(std::string suffix, std::string dtype) {
  return [=](QuantToy& t) {
    int changed = 0;
    for (auto& [name, tensor] : t.model.tensors) {
      if (name.ends_with(suffix)) tensor.dtype = dtype, ++changed;
    }
    ASSERT_GT(changed, 0) << suffix;
  };
}
Change index(std::string tensor, std::vector<uint32_t> words) {
  return add(tensor, fixture::i32_tensor({static_cast<int64_t>(words.size())}, words));
}
Change with(std::string key, Json value) {
  return [=](QuantToy& t) {
    Json block = *t.model.config.find(kConfig);
    block.set(key, value);
    t.model.config.set(kConfig, block);
  };
}
Change with_json(std::string key, std::string_view json) { return with(std::move(key), parse_json(json, "row").value()); }
Change with_group(std::string key, Json value) {
  return [=](QuantToy& t) {
    Json group = *t.model.config.find(kConfig)->find("config_groups")->find("group_0"), groups;
    group.set(key, value);
    groups.set("group_0", group);
    with("config_groups", groups)(t);
  };
}
Change with_weights(std::string key, Json value) {
  return [=](QuantToy& t) {
    Json weights = *t.model.config.find(kConfig)->find("config_groups")->find("group_0")->find("weights");
    weights.set(key, value);
    with_group("weights", weights)(t);
  };
}
Change plain(std::string part) {
  return [=](QuantToy& t) {
    const fixture::Tensors before = t.model.tensors;
    for (const auto& [name, tensor] : before) {
      const std::string module = name.substr(0, name.rfind('.'));
      if (module.find(part) == std::string::npos || !module.ends_with("_proj")) continue;
      t.model.tensors.erase(name);
      t.dequantised[module + ".weight"] = fixture::toy_model().tensors.at(module + ".weight");
      t.model.tensors[module + ".weight"] = t.dequantised.at(module + ".weight");
    }
  };
}
Change quantised(QuantRecipe recipe, std::string module) {
  return [=](QuantToy& t) { fixture::quantise_module(t, recipe, module); };
}
Change added(QuantRecipe recipe, std::string module, int64_t n, int64_t k) {
  return [=](QuantToy& t) { t.model.tensors.merge(fixture::quant_layer(recipe, module, n, k).tensors); };
}
namespace {

void fuse_qkv(QuantToy& t, const QuantRecipe& recipe) {
  for (const char* layer : {"0", "1"}) {
    const std::string prefix = cat("model.layers.", layer, ".self_attn.");
    int64_t rows = 0;
    for (const char* part : {"q_proj", "k_proj", "v_proj"}) rows += t.dequantised.at(cat(prefix, part, ".weight")).shape[0];
    fixture::QuantLayer fused = fixture::quant_layer(recipe, prefix + "qkv_proj", rows, 64);
    const float* next = fused.values.data();
    for (const char* part : {"q_proj", "k_proj", "v_proj"}) {
      Tensor& own = t.dequantised.at(cat(prefix, part, ".weight"));
      const auto count = static_cast<size_t>(own.shape[0] * own.shape[1]);
      own = fixture::f32_tensor(own.shape, std::span(next, count));
      next += count;
      std::erase_if(t.model.tensors, [&](const auto& tensor) { return tensor.first.starts_with(cat(prefix, part, ".")); });
    }
    t.model.tensors.merge(fused.tensors);
  }
}

}  // namespace

Change fused(QuantRecipe recipe) {
  return [=](QuantToy& t) { fuse_qkv(t, recipe); };
}
Change zero_biases() {
  return [](QuantToy& t) {
    const fixture::Tensors weights = t.dequantised;
    for (const auto& [name, tensor] : weights) {
      if (!name.ends_with("_proj.weight")) continue;
      t.model.tensors[name.substr(0, name.size() - 6) + "bias"] = fixture::constant_tensor({tensor.shape[0]}, 0);
    }
  };
}

}  // namespace lamina::e2e
