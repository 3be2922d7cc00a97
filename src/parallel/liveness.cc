#include "parallel/liveness.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>

#include "base/check.h"
#include "base/rng.h"
#include "base/strings.h"

namespace lamina {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// A message on a link: its kind, for a fault followed by the length of its text (uint32) and the text.
constexpr char kGoodbye = 'Q', kFault = 'F';
constexpr uint32_t kLongestText = 4096;

struct Hello {
  uint64_t token = 0;
  int32_t rank = 0;
  int32_t reserved = 0;
};

Error system_error_of(std::string_view what) { return error(what, ": ", std::generic_category().message(errno)); }

int64_t ms_left(Clock::time_point until) {
  return std::max<int64_t>(0, std::chrono::duration_cast<milliseconds>(until - Clock::now()).count());
}

/// Whether `fd` is ready for `events` before `until`.
bool ready(int fd, short events, Clock::time_point until) {
  pollfd entry{.fd = fd, .events = events, .revents = 0};
  return poll(&entry, 1, static_cast<int>(std::min<int64_t>(ms_left(until), 60'000))) > 0;
}

bool read_whole(int fd, void* data, size_t bytes, Clock::time_point until) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    if (!ready(fd, POLLIN, until)) return false;
    const ssize_t got = recv(fd, at, bytes, MSG_DONTWAIT);
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

/// What is sent on a link fits its empty send buffer.
bool send_now(int fd, std::string_view bytes) {
  return send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(bytes.size());
}

std::string_view bytes_of(const Hello& hello) { return {reinterpret_cast<const char*>(&hello), sizeof(hello)}; }

/// A machine that vanishes sends nothing: the kernel asks it every second.
void keep_alive(int fd) {
  const std::pair<int, int> settings[] = {
      {TCP_KEEPIDLE, 1}, {TCP_KEEPINTVL, 1}, {TCP_KEEPCNT, 3}, {TCP_USER_TIMEOUT, 4000}, {TCP_NODELAY, 1}};
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  for (const auto& [name, value] : settings) setsockopt(fd, IPPROTO_TCP, name, &value, sizeof(value));
}

/// IPv4 addresses of this machine, loopback last.
std::vector<uint32_t> own_addresses() {
  std::vector<uint32_t> out;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) == 0) {
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
      const uint32_t host = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr.s_addr;
      if (host != htonl(INADDR_LOOPBACK)) out.push_back(host);
    }
    freeifaddrs(list);
  }
  out.push_back(htonl(INADDR_LOOPBACK));
  return out;
}

sockaddr_in socket_address(uint32_t host, uint16_t port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_addr.s_addr = host;
  out.sin_port = htons(port);
  return out;
}

/// A connected socket, or -1.
int connect_before(uint32_t host, uint16_t port, Clock::time_point until) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const sockaddr_in address = socket_address(host, port);
  const int status = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  int failure = status == 0 ? 0 : errno;
  if (failure == EINPROGRESS && ready(fd, POLLOUT, until)) {
    socklen_t length = sizeof(failure);
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &length);
  }
  if (failure == 0) return fd;
  close(fd);
  return -1;
}

}  // namespace

Liveness::Liveness(RankFault& fault, int rank, int size) : fault_(fault), rank_(rank), size_(size) {
  LAMINA_CHECK(rank >= 0 && rank < size, "no such rank");
}

Liveness::~Liveness() {
  stop();
  for (const Link& link : links_) close(link.fd);
  for (const int fd : {listener_, wake_}) {
    if (fd >= 0) close(fd);
  }
}

Result<LinkAddress> Liveness::listen(bool one_machine) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (listener_ < 0) return system_error_of("cannot make a socket for the links between ranks");
  sockaddr_in address = socket_address(htonl(one_machine ? INADDR_LOOPBACK : INADDR_ANY), 0);
  socklen_t length = sizeof(address);
  if (bind(listener_, reinterpret_cast<const sockaddr*>(&address), length) != 0 || ::listen(listener_, SOMAXCONN) != 0 ||
      getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return system_error_of("cannot listen for the links between ranks");
  }
  LinkAddress out{.token = fresh_seed(), .port = ntohs(address.sin_port)};
  const std::vector<uint32_t> hosts = one_machine ? std::vector{htonl(INADDR_LOOPBACK)} : own_addresses();
  for (const uint32_t host : hosts) {
    if (out.count < out.hosts.size()) out.hosts[out.count++] = host;
  }
  return out;
}

Status Liveness::link(const LinkAddress& address, milliseconds deadline) {
  const Clock::time_point until = Clock::now() + deadline;
  wake_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_ < 0) return system_error_of("cannot make an event for the links between ranks");
  LAMINA_TRY(rank_ == 0 ? accept_all(address.token, until) : connect_to(address, until));
  try {
    watcher_ = std::thread([this] { watch(); });
  } catch (const std::system_error& refused) {
    return error("no thread to watch the links between ranks: ", std::string_view(refused.what()));
  }
  return {};
}

void Liveness::add_link(int fd, int rank) {
  keep_alive(fd);
  links_.push_back({.fd = fd, .rank = rank});
}

Status Liveness::accept_all(uint64_t token, Clock::time_point until) {
  std::vector<bool> seen(static_cast<size_t>(size_));
  while (static_cast<int>(links_.size()) < size_ - 1) {
    if (!ready(listener_, POLLIN, until)) {
      if (ms_left(until) > 0) continue;
      std::vector<std::string> missing;
      for (int r = 1; r < size_; ++r) {
        if (!seen[static_cast<size_t>(r)]) missing.push_back(cat(r));
      }
      return error(missing.size() == 1 ? "rank " : "ranks ", join(missing, ", "), " did not connect to rank 0 in time");
    }
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) continue;
    Hello hello;
    const bool whole = read_whole(fd, &hello, sizeof(hello), std::min(until, Clock::now() + std::chrono::seconds(2)));
    if (!whole || hello.token != token || hello.rank < 1 || hello.rank >= size_ || seen[static_cast<size_t>(hello.rank)] ||
        !send_now(fd, bytes_of({.token = token}))) {
      close(fd);
      continue;
    }
    seen[static_cast<size_t>(hello.rank)] = true;
    add_link(fd, hello.rank);
  }
  return {};
}

Status Liveness::connect_to(const LinkAddress& address, Clock::time_point until) {
  if (address.count == 0) return error("rank 0 has no address for the links between ranks");
  do {
    for (uint16_t i = 0; i < std::min<size_t>(address.count, address.hosts.size()); ++i) {
      const int fd = connect_before(address.hosts[i], address.port, std::min(until, Clock::now() + std::chrono::seconds(2)));
      if (fd < 0) continue;
      Hello answer;
      if (send_now(fd, bytes_of({.token = address.token, .rank = rank_})) && read_whole(fd, &answer, sizeof(answer), until) &&
          answer.token == address.token) {
        add_link(fd, 0);
        return {};
      }
      close(fd);
    }
    poll(nullptr, 0, 20);
  } while (ms_left(until) > 0);
  return error("rank ", rank_, " cannot connect to rank 0 at port ", address.port, " of any of its ", address.count, " addresses");
}

void Liveness::watch() {
  constexpr int kLocalFaultPollMs = 10;
  std::vector<pollfd> entries;
  while (!stopping_.load() && !fault_.raised()) {
    entries.assign(1, {.fd = wake_, .events = POLLIN, .revents = 0});
    // An ended link is silent: its end is awaited by nobody.
    for (const Link& link : links_) entries.push_back({.fd = link.ended ? -1 : link.fd, .events = POLLIN, .revents = 0});
    if (poll(entries.data(), entries.size(), kLocalFaultPollMs) <= 0) continue;
    for (size_t i = 0; i < links_.size(); ++i) {
      if (entries[i + 1].revents != 0) read(links_[i]);
    }
  }
  if (fault_.raised()) tell_fault();
}

void Liveness::read(Link& link) {
  char bytes[1024];
  const ssize_t got = recv(link.fd, bytes, sizeof(bytes), MSG_DONTWAIT);
  if (got > 0) {
    link.unread.append(bytes, static_cast<size_t>(got));
    take_messages(link);
  } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
    fault_.raise(cat("rank ", link.rank, " of ", size_, " is gone"));
  }
}

void Liveness::take_messages(Link& link) {
  if (link.unread.front() == kGoodbye) {
    link.ended = true;
    return;
  }
  uint32_t length = 0;
  if (link.unread.front() != kFault) return fault_.raise(cat("rank ", link.rank, " of ", size_, " sent what is no message of a link"));
  if (link.unread.size() < 1 + sizeof(length)) return;
  std::memcpy(&length, link.unread.data() + 1, sizeof(length));
  length = std::min(length, kLongestText);
  if (link.unread.size() >= 1 + sizeof(length) + length) fault_.raise(link.unread.substr(1 + sizeof(length), length));
}

void Liveness::tell_fault() {
  const std::string text = fault_.message().substr(0, kLongestText);
  const auto length = static_cast<uint32_t>(text.size());
  std::string message(1, kFault);
  message.append(reinterpret_cast<const char*>(&length), sizeof(length)).append(text);
  for (const Link& link : links_) send_now(link.fd, message);
}

void Liveness::stop() {
  if (!watcher_.joinable()) return;
  stopping_.store(true);
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof(one));
  watcher_.join();
}

void Liveness::end() {
  for (const Link& link : links_) send_now(link.fd, std::string_view(&kGoodbye, 1));
  stop();
}

}  // namespace lamina
