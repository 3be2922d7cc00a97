#include "batch/kv_store.h"

#include <cstring>

#include "base/check.h"
#include "base/strings.h"

namespace lamina {

namespace {

int64_t elements_per_token(const KvLayerShape& shape) { return int64_t{shape.kv_heads} * (int64_t{shape.k_dim} + shape.v_dim); }

/// [slots, heads, dim]; a layer that stores nothing here (dim 0) gets no memory.
Result<KvTensor> make_tensor(int64_t slots, int64_t slot_stride, DType dtype, std::vector<Buffer>& buffers) {
  KvTensor tensor;
  tensor.dtype = dtype;
  tensor.slot_stride = slot_stride;
  if (slot_stride == 0) return tensor;
  size_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<size_t>(slots), static_cast<size_t>(slot_stride * dtype_bytes(dtype)), &bytes))
    return error("a KV pool of ", slots, " slots is larger than the address space");
  LAMINA_ASSIGN(Buffer buffer, Buffer::allocate(bytes));
  tensor.base = buffer.data();
  buffers.push_back(std::move(buffer));
  return tensor;
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
    LAMINA_ASSIGN(KvTensor keys, make_tensor(slots, int64_t{shape.kv_heads} * shape.k_dim, dtype, store.buffers_));
    LAMINA_ASSIGN(KvTensor values, make_tensor(slots, int64_t{shape.kv_heads} * shape.v_dim, dtype, store.buffers_));
    store.keys_.push_back(keys);
    store.values_.push_back(values);
  }
  return store;
}

const KvTensor& KvStore::keys(LayerId layer) const {
  const int index = layer.value - first_layer_.value;
  LAMINA_CHECK(index >= 0 && index < static_cast<int>(keys_.size()), "layer of another pipeline stage");
  return keys_[static_cast<size_t>(index)];
}

const KvTensor& KvStore::values(LayerId layer) const {
  const int index = layer.value - first_layer_.value;
  LAMINA_CHECK(index >= 0 && index < static_cast<int>(values_.size()), "layer of another pipeline stage");
  return values_[static_cast<size_t>(index)];
}

void KvStore::copy(PageId from, PageId to, int tokens) {
  for (std::vector<KvTensor>* tensors : {&keys_, &values_}) {
    for (const KvTensor& tensor : *tensors) {
      const size_t slot = static_cast<size_t>(tensor.slot_stride) * static_cast<size_t>(dtype_bytes(tensor.dtype));
      const size_t page = slot * static_cast<size_t>(page_size_);
      char* base = static_cast<char*>(tensor.base);
      if (slot > 0) {
        std::memcpy(base + page * static_cast<size_t>(to.value), base + page * static_cast<size_t>(from.value),
                    slot * static_cast<size_t>(tokens));
      }
    }
  }
}

size_t KvStore::reserved_bytes() const {
  size_t bytes = 0;
  for (const Buffer& buffer : buffers_) bytes += buffer.size();
  return bytes;
}

int64_t KvStore::bytes_per_token(const std::vector<KvLayerShape>& layers, DType dtype) {
  int64_t elements = 0;
  for (const KvLayerShape& shape : layers) elements += elements_per_token(shape);
  return elements * dtype_bytes(dtype);
}

}  // namespace lamina
