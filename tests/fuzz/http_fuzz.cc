// An HTTP request behind its framing: the request line, the route, and the body of every endpoint, down to an engine with a tiny model.
// An input is "METHOD TARGET CONTENT-TYPE", a line break, and the body.
#include <condition_variable>
#include <cstring>
#include <mutex>

#include "base/check.h"
#include "server/errors.h"
#include "server/router.h"
#include "tests/fuzz/json_mutator.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t capacity);

namespace {

using namespace lamina;

/// Lives until the process ends: its threads may not outlive it.
server::ServerContext& tiny_server() {
  static server::ServerContext* context = [] {
    EngineOptions options;
    options.model = LAMINA_SOURCE_DIR "/tests/fuzz/model";
    options.load_format = "dummy";
    options.max_total_tokens = 512;
    options.threads = 1;
    auto started = Engine::start(options);
    LAMINA_CHECK(started.ok(), started.ok() ? "" : started.error().message.c_str());
    static std::unique_ptr<Engine> engine = std::move(*started);
    static server::ServerContext made(*engine, server::ServerOptions{});
    return &made;
  }();
  return *context;
}

/// Reads a few pieces of an answer, then goes away.
void listen_a_while(server::PendingReply& reply) {
  constexpr int kPieces = 4;
  std::mutex mutex;
  std::condition_variable ready;
  bool woken = false;
  reply.set_wake([&] {
    const std::lock_guard lock(mutex);
    woken = true;
    ready.notify_one();
  });
  for (int count = 0; count < kPieces; ++count) {
    const server::PendingReply::Piece piece = reply.poll();
    if (piece.done) break;
    if (piece.full) continue;
    std::unique_lock lock(mutex);
    ready.wait(lock, [&] { return woken; });
    woken = false;
  }
  reply.set_wake({});
}

/// Up to `separator`, which goes too.
std::string_view take(std::string_view& text, char separator) {
  const size_t end = std::min(text.find(separator), text.size());
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return taken;
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t capacity, unsigned int seed) {
  const void* line_end = std::memchr(data, '\n', size);
  if (line_end == nullptr || seed % 8 == 0) return LLVMFuzzerMutate(data, size, capacity);
  const size_t head = static_cast<size_t>(static_cast<const uint8_t*>(line_end) - data) + 1;
  return head + fuzz::mutate_json_input(data + head, size - head, capacity - head, seed / 8);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view body(reinterpret_cast<const char*>(data), size);
  std::string_view line = take(body, '\n');
  server::HttpRequest request;
  request.method = take(line, ' ');
  const std::string_view target = take(line, ' ');
  request.content_type = line;
  if (const server::Fault fault = server::check_request_line(target, true, 1, request.path)) {
    (void)server::encode_response(server::error_response(*fault), {});
    return 0;
  }
  if (const auto refusal = server::check_route(request)) {
    (void)server::encode_response(*refusal, {});
    return 0;
  }
  request.body = body;
  server::Reply reply = server::dispatch(tiny_server(), request);
  if (const auto* whole = std::get_if<server::HttpResponse>(&reply)) {
    LAMINA_CHECK(whole->status < 500, "no request is the server's fault");
    (void)server::encode_response(*whole, {});
  } else {
    listen_a_while(*std::get<std::unique_ptr<server::PendingReply>>(reply));
  }
  return 0;
}
