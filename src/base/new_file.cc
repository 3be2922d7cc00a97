#include "base/new_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/strings.h"

namespace lamina {
namespace {

std::string part_of(const std::string& path) { return path + ".part"; }

}  // namespace

Error NewFile::fault(std::string_view action) const {
  return error("cannot ", action, " ", path_, ": ", std::string_view(std::strerror(errno)));
}

Result<NewFile> NewFile::create(std::string path, uint64_t size) {
  NewFile out(std::move(path), size);
  out.descriptor_ = open(part_of(out.path_).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (out.descriptor_ < 0) return out.fault("create");
  if (ftruncate(out.descriptor_, static_cast<off_t>(size)) != 0) return out.fault("write");
  // Not every file system can reserve; those that cannot tell later that the disk is full.
  const bool refused = size > 0 && fallocate(out.descriptor_, 0, 0, static_cast<off_t>(size)) != 0;
  if (refused && (errno == ENOSPC || errno == EFBIG || errno == EDQUOT)) return out.fault("write");
  return out;
}

NewFile::NewFile(NewFile&& other) noexcept
    : path_(std::move(other.path_)), size_(other.size_), descriptor_(std::exchange(other.descriptor_, -1)) {}

NewFile& NewFile::operator=(NewFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(size_, other.size_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

NewFile::~NewFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(part_of(path_).c_str());
}

Status NewFile::write(uint64_t offset, std::span<const uint8_t> bytes) {
  LAMINA_CHECK(offset <= size_ && bytes.size() <= size_ - offset, "bytes lie inside the file");
  while (!bytes.empty()) {
    const ssize_t written = pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fault("write");
    offset += static_cast<uint64_t>(written);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

Status NewFile::commit() {
  LAMINA_CHECK(descriptor_ >= 0, "a file is committed once");
  if (fsync(descriptor_) != 0) return fault("write");
  if (std::rename(part_of(path_).c_str(), path_.c_str()) != 0) return fault("rename");
  close(std::exchange(descriptor_, -1));
  return {};
}

Status write_file(const std::string& path, std::string_view text) {
  LAMINA_ASSIGN(NewFile file, NewFile::create(path, text.size()));
  LAMINA_TRY(file.write(0, {reinterpret_cast<const uint8_t*>(text.data()), text.size()}));
  return file.commit();
}

}  // namespace lamina
