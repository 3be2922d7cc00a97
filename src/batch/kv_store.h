#pragma once
// Per-layer K and V tensors of this rank. Reserved whole, committed on first use.

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "tensor/buffer.h"

namespace lamina {

/// What one layer caches on this rank.
struct KvLayerShape {
  int kv_heads = 0;
  int k_dim = 0;
  int v_dim = 0;
};

/// K or V of one layer: [slots, heads, dim] of `dtype`; slot 0's page is the dummy. An element of 8 bits times its scale is the value.
struct KvTensor {
  DType dtype = DType::kBF16;  // kF32, kBF16, kF8E4M3, kF8E5M2 or kI8
  void* base = nullptr;
  int64_t slot_stride = 0;  // elements
  int dim = 0;
  float scale = 1.0F;        // of the layer
  float* scales = nullptr;   // kI8: [slots, heads], of each head of each slot
  int64_t scale_stride = 0;  // heads
};

class KvStore {
 public:
  /// Layers are those of this pipeline stage; the first has global id `first_layer`. `pages` excludes the dummy page, which is added:
  /// (pages + 1) * page_size slots. Nothing is committed. An error names the size when the machine refuses to reserve it.
  static Result<KvStore> create(const std::vector<KvLayerShape>& layers, LayerId first_layer, DType dtype, int32_t pages, int page_size);

  /// The scales of a layer's keys and values, before anything is stored. Types other than FP8 have none, or their own.
  void set_scales(LayerId layer, float keys, float values);
  /// `layer` is global; one that another stage holds is a CHECK.
  const KvTensor& keys(LayerId layer) const;
  const KvTensor& values(LayerId layer) const;
  /// Copies the first `tokens` slots of page `from` to page `to`, keys and values of every layer.
  void copy(PageId from, PageId to, int tokens);
  DType dtype() const { return dtype_; }
  int page_size() const { return page_size_; }
  /// Address space of all tensors, the dummy page included.
  size_t reserved_bytes() const;

  /// Bytes one token takes over `layers`, keys and values and their scales.
  static int64_t bytes_per_token(const std::vector<KvLayerShape>& layers, DType dtype);

 private:
  KvStore() = default;
  size_t index_of(LayerId layer) const;
  std::vector<Buffer> buffers_;
  std::vector<KvTensor> keys_, values_;
  LayerId first_layer_;
  DType dtype_ = DType::kBF16;
  int page_size_ = 16;
};

}  // namespace lamina
