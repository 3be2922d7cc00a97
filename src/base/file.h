#pragma once
// Files: whole small ones, and read-only maps of large ones.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace lamina {

/// Reads a whole file of at most `max_bytes`. Errors name the path.
Result<std::string> read_file(const std::string& path, size_t max_bytes = size_t{512} << 20);
/// True for whatever can be opened for reading except a folder.
bool file_exists(const std::string& path);
bool is_directory(const std::string& path);
Result<uint64_t> file_size(const std::string& path);
/// Names (not paths) of the entries of a folder, sorted.
Result<std::vector<std::string>> list_folder(const std::string& path);

/// A read-only private map of a whole file; unmapped when destroyed. Movable.
class MappedFile {
 public:
  /// Refuses what is not a regular file. An empty file gives an empty span.
  static Result<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  /// Valid while this object lives. The file must not shrink meanwhile (the system then ends the process on access).
  std::span<const uint8_t> bytes() const { return {data_, size_}; }
  /// Hints that [offset, offset+length) will be read soon.
  void will_need(uint64_t offset, uint64_t length) const;
  /// Drops the resident pages wholly inside the range (they can be read again from the file).
  void drop(uint64_t offset, uint64_t length) const;

 private:
  MappedFile() = default;
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace lamina
