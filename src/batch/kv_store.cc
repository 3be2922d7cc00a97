#include "batch/kv_store.h"

#include <cstring>

#include "base/check.h"
#include "base/strings.h"

namespace lamina {

namespace {

int64_t bytes_of(const KvLayerShape& shape, DType dtype) {
  const int64_t scales = dtype == DType::kI8 ? int64_t{shape.kv_heads} * ((shape.k_dim > 0) + (shape.v_dim > 0)) : 0;
  return int64_t{shape.kv_heads} * (int64_t{shape.k_dim} + shape.v_dim) * dtype_bytes(dtype) + scales * static_cast<int64_t>(sizeof(float));
}

Result<uint8_t*> reserve(int64_t slots, int64_t slot_bytes, std::vector<Buffer>& buffers) {
  size_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<size_t>(slots), static_cast<size_t>(slot_bytes), &bytes))
    return error("a KV pool of ", slots, " slots is larger than the address space");
  LAMINA_ASSIGN(Buffer buffer, Buffer::allocate(bytes));
  buffers.push_back(std::move(buffer));
  return buffers.back().data();
}

/// [slots, heads, dim]; a layer that stores nothing here (dim 0) gets no memory.
Result<KvTensor> make_tensor(int64_t slots, int heads, int dim, DType dtype, std::vector<Buffer>& buffers) {
  KvTensor tensor;
  tensor.dtype = dtype;
  tensor.dim = dim;
  tensor.slot_stride = int64_t{heads} * dim;
  if (tensor.slot_stride == 0) return tensor;
  LAMINA_ASSIGN(tensor.base, reserve(slots, tensor.slot_stride * dtype_bytes(dtype), buffers));
  if (dtype != DType::kI8) return tensor;
  tensor.scale_stride = heads;
  LAMINA_ASSIGN(uint8_t* const scales, reserve(slots, heads * static_cast<int64_t>(sizeof(float)), buffers));
  tensor.scales = reinterpret_cast<float*>(scales);
  return tensor;
}

/// The first `tokens` slots of a page of `slot` bytes a slot.
void copy_page(void* base, size_t slot, int page_size, PageId from, PageId to, int tokens) {
  if (base == nullptr) return;
  const size_t page = slot * static_cast<size_t>(page_size);
  char* const bytes = static_cast<char*>(base);
  std::memcpy(bytes + page * static_cast<size_t>(to.value), bytes + page * static_cast<size_t>(from.value),
              slot * static_cast<size_t>(tokens));
}

}  // namespace

Result<KvStore> KvStore::create(const std::vector<KvLayerShape>& layers, LayerId first_layer, DType dtype, int32_t pages, int page_size) {
  LAMINA_CHECK(pages >= 0 && page_size >= 1, "KV pool of negative size");
  KvStore store;
  store.first_layer_ = first_layer;
  store.dtype_ = dtype;
  store.page_size_ = page_size;
  const int64_t slots = (int64_t{pages} + 1) * page_size;
  for (const KvLayerShape& shape : layers) {
    LAMINA_CHECK(shape.kv_heads >= 0 && shape.k_dim >= 0 && shape.v_dim >= 0, "negative KV shape");
    LAMINA_ASSIGN(KvTensor keys, make_tensor(slots, shape.kv_heads, shape.k_dim, dtype, store.buffers_));
    LAMINA_ASSIGN(KvTensor values, make_tensor(slots, shape.kv_heads, shape.v_dim, dtype, store.buffers_));
    store.keys_.push_back(keys);
    store.values_.push_back(values);
  }
  return store;
}

size_t KvStore::index_of(LayerId layer) const {
  const int index = layer.value - first_layer_.value;
  LAMINA_CHECK(index >= 0 && index < static_cast<int>(keys_.size()), "layer of another pipeline stage");
  return static_cast<size_t>(index);
}

const KvTensor& KvStore::keys(LayerId layer) const { return keys_[index_of(layer)]; }
const KvTensor& KvStore::values(LayerId layer) const { return values_[index_of(layer)]; }

void KvStore::set_scales(LayerId layer, float keys, float values) {
  if (dtype_ != DType::kF8E4M3 && dtype_ != DType::kF8E5M2) return;
  keys_[index_of(layer)].scale = keys;
  values_[index_of(layer)].scale = values;
}

void KvStore::copy(PageId from, PageId to, int tokens) {
  for (std::vector<KvTensor>* tensors : {&keys_, &values_}) {
    for (const KvTensor& tensor : *tensors) {
      copy_page(tensor.base, static_cast<size_t>(tensor.slot_stride * dtype_bytes(tensor.dtype)), page_size_, from, to, tokens);
      copy_page(tensor.scales, static_cast<size_t>(tensor.scale_stride) * sizeof(float), page_size_, from, to, tokens);
    }
  }
}

size_t KvStore::reserved_bytes() const {
  size_t bytes = 0;
  for (const Buffer& buffer : buffers_) bytes += buffer.size();
  return bytes;
}

int64_t KvStore::bytes_per_token(const std::vector<KvLayerShape>& layers, DType dtype) {
  int64_t bytes = 0;
  for (const KvLayerShape& shape : layers) bytes += bytes_of(shape, dtype);
  return bytes;
}

}  // namespace lamina
