#pragma once
// Files that appear under their name only when they are complete.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lamina {

/// A file of a size known ahead, written anywhere in any order. Until commit() it is "<path>.part", which goes away with this object.
class NewFile {
 public:
  /// Takes the disk space at once where the file system can. Errors name the path: a full disk, a "<path>.part" that exists.
  static Result<NewFile> create(std::string path, uint64_t size);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&& other) noexcept;
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();

  /// CHECK: [offset, offset + bytes) lies inside the size. Thread-safe.
  Status write(uint64_t offset, std::span<const uint8_t> bytes);
  /// Puts the file to disk and gives it its name, in place of what had it. What was not written is zeros.
  Status commit();

 private:
  NewFile(std::string path, uint64_t size) : path_(std::move(path)), size_(size) {}
  Error fault(std::string_view action) const;
  std::string path_;
  uint64_t size_ = 0;
  int descriptor_ = -1;
};

/// A whole small file, by way of NewFile.
Status write_file(const std::string& path, std::string_view text);

}  // namespace lamina
