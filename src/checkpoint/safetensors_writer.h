#pragma once
// Writes the weights of a checkpoint folder: one safetensors file, or several and their index.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/new_file.h"
#include "base/result.h"
#include "tensor/dtype.h"

namespace lamina {

/// A tensor whose values come later.
struct NewTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // row-major; empty: a scalar

  uint64_t bytes() const;
};

/// Names, types and shapes are known first; then values are written anywhere in any order. Nothing is held in memory but the headers, and
/// no file has its name before finish().
class SafetensorsWriter {
 public:
  static constexpr uint64_t kShardBytes = 5'000'000'000;

  /// Makes the files of `folder`, which exists: tensors go into shards in the given order until `max_shard_bytes` are reached (one that is
  /// larger gets its own). Inside a shard wider types come first, so that every tensor is aligned to its elements. CHECK: names differ.
  static Result<SafetensorsWriter> create(const std::string& folder, std::vector<NewTensor> tensors,
                                          uint64_t max_shard_bytes = kShardBytes);

  /// Bytes of `tensors[tensor]` from `offset` on; CHECK: inside it. Thread-safe.
  Status write(size_t tensor, uint64_t offset, std::span<const uint8_t> bytes);
  /// model.safetensors, or model-00001-of-0000N.safetensors and model.safetensors.index.json. What was not written is zeros.
  Status finish();

  /// Of the files, the index included.
  const std::vector<std::string>& file_names() const { return names_; }
  /// Sum of the tensors' bytes.
  uint64_t tensor_bytes() const { return tensor_bytes_; }

 private:
  struct Place {
    size_t file = 0;
    uint64_t begin = 0, bytes = 0;
  };
  SafetensorsWriter() = default;
  std::string index_text() const;

  std::string folder_;
  std::vector<NewTensor> tensors_;
  std::vector<Place> places_;  // by tensor
  std::vector<NewFile> files_;
  std::vector<std::string> names_;
  uint64_t tensor_bytes_ = 0;
};

}  // namespace lamina
