#include "checkpoint/safetensors_writer.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/json.h"
#include "base/strings.h"

namespace lamina {

namespace {

constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr size_t kAlignment = 8;  // of the tensors' beginning, in bytes

std::string five_digits(size_t number) {
  const std::string digits = cat(number);
  return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
}

std::string shard_name(size_t shard, size_t shards) {
  return shards == 1 ? "model.safetensors" : cat("model-", five_digits(shard + 1), "-of-", five_digits(shards), ".safetensors");
}

/// Indices of the tensors of each shard, wider types first.
std::vector<std::vector<size_t>> deal_out(const std::vector<NewTensor>& tensors, uint64_t max_shard_bytes) {
  std::vector<std::vector<size_t>> shards(1);
  uint64_t bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!shards.back().empty() && bytes + tensors[i].bytes() > max_shard_bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().push_back(i);
    bytes += tensors[i].bytes();
  }
  for (std::vector<size_t>& shard : shards) {
    std::ranges::stable_sort(shard, std::greater<>(), [&](size_t i) { return dtype_bytes(tensors[i].dtype); });
  }
  return shards;
}

Json header_entry(const NewTensor& tensor, uint64_t begin) {
  Json shape = Json::array();
  for (const int64_t dim : tensor.shape) shape.push(dim);
  Json entry;
  entry.set("dtype", dtype_name(tensor.dtype));
  entry.set("shape", std::move(shape));
  entry.set("data_offsets", Json::Array{Json(begin), Json(begin + tensor.bytes())});
  return entry;
}

/// Its length in eight little-endian bytes, and the header padded with spaces.
std::string with_length(std::string header) {
  header.append((kAlignment - header.size() % kAlignment) % kAlignment, ' ');
  std::string out;
  for (size_t i = 0; i < kAlignment; ++i) out.push_back(static_cast<char>(header.size() >> (8 * i) & 0xFF));
  return out + header;
}

}  // namespace

uint64_t NewTensor::bytes() const {
  return static_cast<uint64_t>(std::accumulate(shape.begin(), shape.end(), int64_t{dtype_bytes(dtype)}, std::multiplies<>()));
}

Result<SafetensorsWriter> SafetensorsWriter::create(const std::string& folder, std::vector<NewTensor> tensors, uint64_t max_shard_bytes) {
  SafetensorsWriter out;
  out.folder_ = folder;
  out.tensors_ = std::move(tensors);
  out.places_.resize(out.tensors_.size());
  const std::vector<std::vector<size_t>> shards = deal_out(out.tensors_, max_shard_bytes);
  for (size_t shard = 0; shard < shards.size(); ++shard) {
    Json::Object header = {{"__metadata__", Json::Object{{"format", "pt"}}}};
    uint64_t bytes = 0;
    for (const size_t i : shards[shard]) {
      header.emplace_back(out.tensors_[i].name, header_entry(out.tensors_[i], bytes));
      out.places_[i] = {.file = shard, .begin = bytes, .bytes = out.tensors_[i].bytes()};
      bytes += out.tensors_[i].bytes();
    }
    const std::string text = with_length(Json(std::move(header)).dump());
    for (const size_t i : shards[shard]) out.places_[i].begin += text.size();
    out.names_.push_back(shard_name(shard, shards.size()));
    LAMINA_ASSIGN(NewFile file, NewFile::create(cat(folder, "/", out.names_.back()), text.size() + bytes));
    LAMINA_TRY(file.write(0, {reinterpret_cast<const uint8_t*>(text.data()), text.size()}));
    out.files_.push_back(std::move(file));
    out.tensor_bytes_ += bytes;
  }
  if (shards.size() > 1) out.names_.emplace_back(kIndexName);
  return out;
}

Status SafetensorsWriter::write(size_t tensor, uint64_t offset, std::span<const uint8_t> bytes) {
  const Place& place = places_[tensor];
  LAMINA_CHECK(offset <= place.bytes && bytes.size() <= place.bytes - offset, "bytes lie inside the tensor");
  return files_[place.file].write(place.begin + offset, bytes);
}

std::string SafetensorsWriter::index_text() const {
  Json::Object map;
  for (size_t i = 0; i < tensors_.size(); ++i) map.emplace_back(tensors_[i].name, names_[places_[i].file]);
  std::ranges::sort(map, {}, &Json::Member::first);
  Json index;
  index.set("metadata", Json::Object{{"total_size", Json(tensor_bytes_)}});
  index.set("weight_map", std::move(map));
  return index.dump(2) + "\n";
}

Status SafetensorsWriter::finish() {
  for (NewFile& file : files_) LAMINA_TRY(file.commit());
  return files_.size() == 1 ? Status() : write_file(cat(folder_, "/", kIndexName), index_text());
}

}  // namespace lamina
