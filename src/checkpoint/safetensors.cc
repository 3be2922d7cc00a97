#include "checkpoint/safetensors.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/json.h"
#include "base/strings.h"
#include "checkpoint/config_reader.h"
#include "checkpoint/lfs.h"

namespace lamina {

namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeader = 100'000'000;  // the reference library's cap
constexpr int64_t kMaxElements = int64_t{1} << 56;

uint64_t little_endian(std::span<const uint8_t> bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) value |= uint64_t{bytes[i]} << (8 * i);
  return value;
}

std::string_view as_text(std::span<const uint8_t> bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// The JSON text of the header.
Result<std::string_view> header_text(std::span<const uint8_t> bytes, std::string_view path) {
  LAMINA_TRY(refuse_lfs_pointer(as_text(bytes), path));
  if (bytes.size() < kLengthBytes) return error(path, " has ", bytes.size(), " bytes, too few for a safetensors file (cut?)");
  const uint64_t length = little_endian(bytes);
  if (length > kMaxHeader) {
    return error(path, " is no safetensors file: its first 8 bytes claim a header of ", length, " bytes, at most ", kMaxHeader,
                 " are allowed");
  }
  if (length > bytes.size() - kLengthBytes) {
    return error(path, " is cut: its header takes ", kLengthBytes + length, " bytes, the file has ", bytes.size());
  }
  return as_text(bytes.subspan(kLengthBytes, length));
}

/// Elements of a shape, or nothing when the count is out of bounds.
std::optional<int64_t> count_elements(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (int64_t dim : shape) {
    if (dim < 0 || dim > kMaxElements) return std::nullopt;
    if (__builtin_mul_overflow(count, dim, &count) || count > kMaxElements) return std::nullopt;
  }
  return count;
}

/// One entry of the header; begin and end stay relative to the end of the header.
Result<TensorInfo> parse_tensor(const std::string& name, const Json& entry, std::string_view path) {
  const std::string what = cat(path, ": tensor \"", name, "\"");
  if (!entry.is_object()) return error(what, " is ", entry.kind_name(), ", wanted an object");
  const ConfigReader reader(entry, what);
  TensorInfo out;
  out.name = name;
  LAMINA_ASSIGN(const std::string dtype, reader.required<std::string>({"dtype"}));
  const Result<DType> parsed = parse_safetensors_dtype(dtype);
  if (!parsed.ok()) return error(what, ": ", parsed.error().message);
  out.dtype = *parsed;
  LAMINA_ASSIGN(out.shape, reader.required<std::vector<int64_t>>({"shape"}));
  const std::optional<int64_t> elements = count_elements(out.shape);
  if (!elements) return error(what, " has the impossible shape ", shape_string({out.shape.begin(), out.shape.end()}));
  LAMINA_ASSIGN(const std::vector<int64_t> range, reader.required<std::vector<int64_t>>({"data_offsets"}));
  if (range.size() != 2 || range[0] < 0 || range[1] < range[0]) {
    return error(what, ": data_offsets ", brief(*entry.find("data_offsets")), " are no range");
  }
  out.begin = static_cast<uint64_t>(range[0]);
  out.end = static_cast<uint64_t>(range[1]);
  const uint64_t wanted = static_cast<uint64_t>(*elements) * static_cast<uint64_t>(dtype_bytes(out.dtype));
  if (out.bytes() != wanted) {
    return error(what, " spans ", out.bytes(), " bytes, but ", shape_string({out.shape.begin(), out.shape.end()}), " of ", dtype, " takes ",
                 wanted);
  }
  return out;
}

/// The tensors must cover [0, size) back to back.
Status check_layout(std::vector<TensorInfo>& tensors, uint64_t header, uint64_t size, std::string_view path) {
  std::ranges::sort(tensors, {}, [](const TensorInfo& t) { return std::pair(t.begin, t.end); });
  uint64_t covered = 0;
  uint64_t last = 0;
  for (const TensorInfo& tensor : tensors) last = std::max(last, tensor.end);
  if (last > size) {
    return error(path, " is cut: header and tensors take ", header + last, " bytes, the file has ", header + size,
                 " (incomplete download?)");
  }
  for (const TensorInfo& tensor : tensors) {
    if (tensor.begin < covered) return error(path, ": tensor \"", tensor.name, "\" overlaps another one");
    if (tensor.begin > covered)
      return error(path, ": there is a hole of ", tensor.begin - covered, " bytes before tensor \"", tensor.name, "\"");
    covered = tensor.end;
  }
  if (covered < size) {
    return error(path, " is too long: header and tensors take ", header + covered, " bytes, the file has ", header + size);
  }
  return {};
}

}  // namespace

int64_t TensorInfo::elements() const {
  int64_t count = 1;
  for (int64_t dim : shape) count *= dim;
  return count;
}

Result<std::vector<TensorInfo>> parse_safetensors(std::span<const uint8_t> bytes, std::string_view path) {
  LAMINA_ASSIGN(const std::string_view text, header_text(bytes, path));
  LAMINA_ASSIGN(const Json header, parse_json(text, cat(path, " (header)"), {.max_depth = 4, .max_bytes = kMaxHeader}));
  if (!header.is_object()) return error(path, ": the header is ", header.kind_name(), ", wanted an object");
  std::vector<TensorInfo> tensors;
  for (const auto& [name, entry] : header.as_object()) {
    if (name == "__metadata__") continue;
    LAMINA_ASSIGN(TensorInfo tensor, parse_tensor(name, entry, path));
    tensors.push_back(std::move(tensor));
  }
  const uint64_t start = kLengthBytes + text.size();
  LAMINA_TRY(check_layout(tensors, start, bytes.size() - start, path));
  for (TensorInfo& tensor : tensors) {
    tensor.begin += start;
    tensor.end += start;
  }
  std::ranges::sort(tensors, {}, &TensorInfo::name);
  return tensors;
}

}  // namespace lamina
