#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/strings.h"

namespace lamina {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

Error system_error(std::string_view action, const std::string& path) {
  return error("cannot ", action, " ", path, ": ", std::string_view(std::strerror(errno)));
}

/// Opens for reading and stats; a folder is refused here because open() accepts one.
Status open_and_stat(int fd, const std::string& path, struct stat& info) {
  if (fd < 0) return system_error("open", path);
  if (fstat(fd, &info) != 0) return system_error("stat", path);
  if (S_ISDIR(info.st_mode)) return error(path, " is a folder, not a file");
  return {};
}

}  // namespace

Result<std::string> read_file(const std::string& path, size_t max_bytes) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info{};
  LAMINA_TRY(open_and_stat(file.get(), path, info));
  const auto expected = static_cast<uint64_t>(info.st_size);
  if (expected > max_bytes) return error(path, " has ", expected, " bytes; at most ", max_bytes, " are allowed");
  // Files of /proc say 0: the size is a hint, the end of the file decides.
  std::string text(expected + 1, '\0');
  size_t used = 0;
  while (true) {
    if (used == text.size()) text.resize(text.size() * 2 + 4096);
    const ssize_t got = read(file.get(), text.data() + used, text.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error("read", path);
    if (got == 0) break;
    used += static_cast<size_t>(got);
    if (used > max_bytes) return error(path, " has more than the ", max_bytes, " bytes that are allowed");
  }
  text.resize(used);
  return text;
}

bool file_exists(const std::string& path) { return access(path.c_str(), R_OK) == 0 && !is_directory(path); }

bool is_directory(const std::string& path) {
  struct stat info{};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

Result<uint64_t> file_size(const std::string& path) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0) return system_error("stat", path);
  if (S_ISDIR(info.st_mode)) return error(path, " is a folder, not a file");
  return static_cast<uint64_t>(info.st_size);
}

Result<std::vector<std::string>> list_folder(const std::string& path) {
  const auto closer = [](DIR* folder) { closedir(folder); };
  const std::unique_ptr<DIR, decltype(closer)> folder(opendir(path.c_str()), closer);
  if (!folder) return system_error("open folder", path);
  std::vector<std::string> names;
  while (const dirent* entry = readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info{};
  LAMINA_TRY(open_and_stat(file.get(), path, info));
  if (!S_ISREG(info.st_mode)) return error(path, " is not a regular file");
  MappedFile mapped;
  if (info.st_size == 0) return mapped;
  mapped.size_ = static_cast<size_t>(info.st_size);
  void* data = mmap(nullptr, mapped.size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) {
    mapped.size_ = 0;
    return system_error("map", path);
  }
  mapped.data_ = static_cast<const uint8_t*>(data);
  return mapped;
}

MappedFile::MappedFile(MappedFile&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<uint8_t*>(data_), size_);
}

void MappedFile::will_need(uint64_t offset, uint64_t length) const {
  if (offset >= size_) return;
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t begin = offset / page * page;
  const uint64_t end = offset + std::min<uint64_t>(length, size_ - offset);
  madvise(const_cast<uint8_t*>(data_) + begin, end - begin, MADV_WILLNEED);
}

void MappedFile::drop(uint64_t offset, uint64_t length) const {
  if (offset >= size_) return;
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t begin = (offset + page - 1) / page * page;
  uint64_t end = offset + std::min<uint64_t>(length, size_ - offset);
  if (end < size_) end = end / page * page;  // the file's last page holds nothing else
  if (begin < end) madvise(const_cast<uint8_t*>(data_) + begin, end - begin, MADV_DONTNEED);
}

}  // namespace lamina
