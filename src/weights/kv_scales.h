#pragma once
// Scales of 8-bit keys and values: a key is stored as k / k_scale, a value as v / v_scale, one of each a layer.

#include <memory>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors.h"
#include "parallel/topology.h"
#include "weights/param.h"

namespace lamina {

/// Of the layers of one stage. Filled by the loader through the parameters that declare_kv_scales made; shared by their stores and the
/// rank.
struct KvScales {
  struct Layer {
    float k = 1.0F, v = 1.0F;
    bool has_k = false, has_v = false;  // the checkpoint says so
  };
  StageLayers stage;
  std::vector<Layer> layers;

  /// After loading: v is k where the checkpoint has one scale for both. An error names the first layer that has a scale of values alone.
  Status complete();
};

/// Whether any tensor is a scale of keys or values, under any of its names.
bool holds_kv_scales(const Checkpoint& checkpoint);

/// Declares model.layers.N.self_attn.k_scale and v_scale with their other names: attn.k_scale, k_proj.k_scale, qkv_proj.k_scale,
/// k_proj.output_scale, kv_scale (both), and q_scale and prob_scale, which nothing here uses. Scalars. Unless
/// `required` a checkpoint may lack the scales of keys, or of values, in all layers of the list; in some of them the audit misses the
/// others. Loading refuses values that are not finite and above 0.
std::shared_ptr<KvScales> declare_kv_scales(const StageLayers& stage, bool required, ParamList& params);

}  // namespace lamina
