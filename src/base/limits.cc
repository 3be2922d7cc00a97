// Limits that the kernel sets on this process: affinity, cgroups, memory.
#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <vector>

#include "base/cpu.h"
#include "base/file.h"
#include "base/numa.h"
#include "base/strings.h"

namespace lamina {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

/// The number at the start of `text` after blanks; nothing for "max", "-1" or an empty text.
std::optional<uint64_t> leading_number(std::string_view text) {
  const size_t start = text.find_first_not_of(" \t");
  if (start == text.npos) return {};
  uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data() + start, text.data() + text.size(), value);
  if (problem != std::errc()) return {};
  return value;
}

std::string small_file(const std::string& path) {
  auto text = read_file(path, 1 << 20);
  return text.ok() ? *std::move(text) : std::string();
}

std::optional<uint64_t> number_in(const std::string& path) { return leading_number(small_file(path)); }

/// The number after `key` at the start of a line, as in "MemAvailable:  123 kB" or "inactive_file 123".
std::optional<uint64_t> field_in(const std::string& text, std::string_view key) {
  for (const std::string& line : split(text, '\n')) {
    if (line.starts_with(key)) return leading_number(std::string_view(line).substr(key.size()));
  }
  return {};
}

struct CgroupFolders {
  std::vector<std::string> v1, v2;  // existing or not: this process's folder and all above it
};

void add_with_parents(const std::string& root, std::string path, std::vector<std::string>& folders) {
  // A path that leads outside the namespace ("/../..") is not visible here; the root of the mount then is.
  if (path.find("..") != path.npos) path = "/";
  while (path.size() > 1) {
    folders.push_back(root + path);
    path.resize(path.rfind('/'));
  }
  folders.push_back(root);
}

/// Where the limits of `controller` may stand. /proc/self/cgroup has lines "id:controllers:path"; id 0 is v2, which a mixed system
/// mounts under "unified".
CgroupFolders cgroup_folders(const LimitSources& sources, std::string_view controller) {
  CgroupFolders folders;
  for (const std::string& line : split(small_file(sources.proc_self_cgroup), '\n')) {
    const size_t first = line.find(':');
    const size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      add_with_parents(sources.cgroup_root, path, folders.v2);
      add_with_parents(sources.cgroup_root + "/unified", path, folders.v2);
      continue;
    }
    const auto names = split(controllers, ',');
    if (std::find(names.begin(), names.end(), controller) == names.end()) continue;
    add_with_parents(cat(sources.cgroup_root, "/", controllers), path, folders.v1);
    if (names.size() > 1) add_with_parents(cat(sources.cgroup_root, "/", controller), path, folders.v1);
  }
  return folders;
}

uint64_t whole_cpus(std::optional<uint64_t> quota, std::optional<uint64_t> period) {
  if (!quota || !period || *quota == 0 || *period == 0) return kUnlimited;
  return (*quota - 1) / *period + 1;
}

uint64_t cgroup_cpus(const LimitSources& sources) {
  const CgroupFolders folders = cgroup_folders(sources, "cpu");
  uint64_t cpus = kUnlimited;
  for (const std::string& folder : folders.v2) {
    const auto words = split(small_file(folder + "/cpu.max"), ' ');  // "400000 100000" or "max 100000"
    if (words.size() == 2) cpus = std::min(cpus, whole_cpus(leading_number(words[0]), leading_number(words[1])));
  }
  for (const std::string& folder : folders.v1) {
    cpus = std::min(cpus, whole_cpus(number_in(folder + "/cpu.cfs_quota_us"), number_in(folder + "/cpu.cfs_period_us")));
  }
  return cpus;
}

struct MemoryFiles {
  const char *limit, *use, *inactive_file, *active_file;
};
constexpr MemoryFiles kMemoryV1{"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file ", "total_active_file "};
constexpr MemoryFiles kMemoryV2{"/memory.max", "/memory.current", "inactive_file ", "active_file "};

uint64_t room_in(const std::vector<std::string>& folders, const MemoryFiles& files) {
  uint64_t room = kUnlimited;
  for (const std::string& folder : folders) {
    const auto limit = number_in(folder + files.limit);
    if (!limit) continue;
    const std::string stat = small_file(folder + "/memory.stat");
    const uint64_t file_pages = field_in(stat, files.inactive_file).value_or(0) + field_in(stat, files.active_file).value_or(0);
    const uint64_t use = number_in(folder + files.use).value_or(0);
    const uint64_t held = use - std::min(use, file_pages);
    room = std::min(room, *limit - std::min(*limit, held));
  }
  return room;
}

uint64_t status_bytes(std::string_view key) { return field_in(small_file("/proc/self/status"), key).value_or(0) * 1024; }

}  // namespace

int usable_cpus(const LimitSources& sources) {
  const int affinity = sources.affinity_cpus > 0 ? sources.affinity_cpus : static_cast<int>(allowed_cpus().size());
  return static_cast<int>(std::max<uint64_t>(1, std::min(static_cast<uint64_t>(affinity), cgroup_cpus(sources))));
}

uint64_t available_memory(const LimitSources& sources) {
  const auto free_kb = field_in(small_file(sources.meminfo), "MemAvailable:");
  const CgroupFolders folders = cgroup_folders(sources, "memory");
  const uint64_t machine = free_kb ? *free_kb * 1024 : kUnlimited;
  return std::min({machine, room_in(folders.v2, kMemoryV2), room_in(folders.v1, kMemoryV1)});
}

uint64_t peak_rss() { return status_bytes("VmHWM:"); }
uint64_t current_rss() { return status_bytes("VmRSS:"); }
uint64_t anonymous_rss() { return status_bytes("RssAnon:"); }

}  // namespace lamina
