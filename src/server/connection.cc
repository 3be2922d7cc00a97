#include "server/connection.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <unordered_set>

#include "base/log.h"
#include "base/strings.h"
#include "server/errors.h"

namespace lamina::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Parser = http::request_parser<http::string_body>;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);  // completes with (error_code, ...), nothing is thrown
constexpr size_t kPipelinedBytes = size_t{64} << 10;          // read ahead of a client while its answer is computed
constexpr size_t kWriteBytes = size_t{64} << 10, kReadBytes = 4096;
constexpr size_t kDiscardedBytes = size_t{64} << 20;  // of a refused body, so that the client reads the refusal and not a reset
constexpr double kInterruptSeconds = 0.02;

std::chrono::steady_clock::duration as_duration(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
}

/// What a request that cannot be read is answered; status 0: nothing, the client is gone.
ApiError read_error(const error_code& ec, bool timed_out, const HttpLimits& limits) {
  if (timed_out) return {.status = 408, .message = "the request did not arrive in time"};
  if (ec == http::error::header_limit || ec == http::error::buffer_overflow) {
    return {.status = 431, .message = cat("the request's header is longer than ", limits.header_bytes, " bytes")};
  }
  if (ec == http::error::body_limit) {
    return {.status = 413, .message = cat("the request's body is longer than ", limits.body_bytes, " bytes")};
  }
  if (ec == http::error::bad_version) return {.status = 505, .message = "only HTTP/1.0 and HTTP/1.1 are spoken here"};
  if (ec == http::error::partial_message) return {.status = 400, .message = "the request ended before its announced end"};
  const bool malformed = ec.category() == http::make_error_code(http::error::bad_method).category() && ec != http::error::end_of_stream;
  if (malformed) return {.status = 400, .message = cat("malformed HTTP: ", ec.message())};
  return {.status = 0, .message = ""};
}

/// A request on its way through the request thread. Shared by that thread and the connection.
struct Preparation {
  HttpRequest request;
  Reply reply;
  std::atomic<bool> done{false};
};

}  // namespace

class Connection;

/// What the connections share; all but `requests` belongs to the thread of `io`.
struct ConnectionsShared {
  asio::io_context& io;
  const HttpLimits limits;
  HttpHandler& handler;
  asio::thread_pool requests{1};
  std::unordered_set<Connection*> open;
  size_t active = 0;              // connections whose request is being answered
  std::function<void()> on_idle;  // after `active` fell to 0
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, ConnectionsShared& shared)
      : socket_(std::move(socket)), shared_(shared), deadline_(shared.io), wake_timer_(shared.io) {
    shared_.open.insert(this);
  }
  ~Connection() { shared_.open.erase(this); }

  asio::awaitable<void> run();
  /// Answers 503 whatever is asked.
  asio::awaitable<void> turn_away();
  /// Ends the connection wherever it is.
  void abort();

 private:
  /// Cross-thread wake-ups of one connection; shared by it and by whoever wakes it.
  struct Waker {
    asio::io_context& io;
    std::weak_ptr<Connection> connection;
    std::atomic<bool> posted{false};
  };
  std::function<void()> make_wake();
  void woken();
  asio::awaitable<void> wait_for_wake();

  void arm(double seconds);
  void disarm();
  /// Looks after the client while its answer is computed.
  void watch();
  void client_event(const error_code& ec);
  void watch_for_reset();

  asio::awaitable<bool> serve_one();
  asio::awaitable<bool> answer(Parser& parser, HttpRequest request);
  asio::awaitable<bool> deliver(PendingReply& reply, const HttpRequest& request);
  asio::awaitable<bool> probe(bool streams);
  asio::awaitable<bool> respond(const HttpResponse& response, const HttpRequest& request);
  asio::awaitable<bool> refuse(HttpResponse response, const HttpRequest& request);
  asio::awaitable<bool> write(std::string bytes);

  tcp::socket socket_;
  ConnectionsShared& shared_;
  boost::beast::flat_buffer buffer_;
  Framing framing_;
  asio::steady_timer deadline_;
  int deadline_turn_ = 0;
  bool timed_out_ = false;
  asio::steady_timer wake_timer_;
  bool woken_ = false;
  bool watching_ = false, wait_pending_ = false;
  bool half_closed_ = false, probed_ = false, gone_ = false;
};

std::function<void()> Connection::make_wake() {
  auto waker = std::make_shared<Waker>(shared_.io, weak_from_this());
  return [waker] {
    if (waker->posted.exchange(true)) return;
    asio::post(waker->io, [waker] {
      waker->posted = false;
      if (const auto connection = waker->connection.lock()) connection->woken();
    });
  };
}

void Connection::woken() {
  woken_ = true;
  wake_timer_.cancel();
}

asio::awaitable<void> Connection::wait_for_wake() {
  while (!woken_) {
    wake_timer_.expires_at(std::chrono::steady_clock::time_point::max());
    co_await wake_timer_.async_wait(kAwait);
  }
  woken_ = false;
}

/// Interrupts what is under way after `seconds`, and again until disarm(): a cancel between two parts of one read or write meets neither.
void Connection::arm(double seconds) {
  timed_out_ = false;
  deadline_.expires_after(as_duration(seconds));
  deadline_.async_wait([self = shared_from_this(), turn = ++deadline_turn_](const error_code& ec) {
    if (ec || turn != self->deadline_turn_) return;
    error_code ignored;
    self->socket_.cancel(ignored);
    self->arm(kInterruptSeconds);
    self->timed_out_ = true;
  });
}

void Connection::disarm() {
  ++deadline_turn_;
  deadline_.cancel();
}

void Connection::abort() {
  gone_ = true;
  woken();
  error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_both, ignored);
  socket_.cancel(ignored);
}

void Connection::watch() {
  watching_ = true;
  if (wait_pending_ || half_closed_ || gone_) return;
  if (buffer_.size() >= kPipelinedBytes) return watch_for_reset();
  wait_pending_ = true;
  socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](const error_code& ec) {
    self->wait_pending_ = false;
    if (self->watching_) self->client_event(ec);
  });
}

/// Takes what has arrived: the next request of a client that does not wait for its answers, or the end.
void Connection::client_event(const error_code& ec) {
  error_code fault = ec;
  if (!fault) {
    const size_t count = socket_.read_some(buffer_.prepare(kReadBytes), fault);
    buffer_.commit(count);
  }
  if (!fault || fault == asio::error::would_block || fault == asio::error::operation_aborted) return watch();
  if (fault == asio::error::eof) {
    half_closed_ = true;
  } else {
    gone_ = true;
  }
  woken();
}

void Connection::watch_for_reset() {
  socket_.async_wait(tcp::socket::wait_error, [self = shared_from_this()](const error_code& ec) {
    if (ec || !self->watching_) return;
    self->gone_ = true;
    self->woken();
  });
}

/// Sends what a client that still listens skips and the socket of one that is gone answers with a reset.
asio::awaitable<bool> Connection::probe(bool streams) {
  probed_ = true;
  watch_for_reset();
  if (streams) co_return co_await write(encode_stream_piece(":\n\n", framing_));
  if (framing_.http_1_0) co_return true;  // which knows no interim responses
  co_return co_await write("HTTP/1.1 102 Processing\r\n\r\n");
}

asio::awaitable<bool> Connection::write(std::string bytes) {
  for (size_t begin = 0; begin < bytes.size(); begin += kWriteBytes) {
    arm(shared_.limits.write_seconds);
    const size_t count = std::min(kWriteBytes, bytes.size() - begin);
    const auto [ec, written] = co_await asio::async_write(socket_, asio::buffer(bytes.data() + begin, count), kAwait);
    disarm();
    if (ec) {
      gone_ = true;
      co_return false;
    }
  }
  co_return true;
}

asio::awaitable<bool> Connection::respond(const HttpResponse& response, const HttpRequest& request) {
  shared_.handler.answered(request, response.status);
  co_return co_await write(encode_response(response, framing_)) && framing_.keep_alive;
}

/// Answers without having read the whole request and closes; what still arrives is thrown away for a while.
asio::awaitable<bool> Connection::refuse(HttpResponse response, const HttpRequest& request) {
  framing_.keep_alive = false;
  if (!co_await respond(response, request) && gone_) co_return false;
  error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  arm(shared_.limits.refused_seconds);
  std::string scratch(kWriteBytes, '\0');
  for (size_t total = 0; total < kDiscardedBytes;) {
    const auto [ec, count] = co_await socket_.async_read_some(asio::buffer(scratch), kAwait);
    if (ec) break;
    total += count;
  }
  disarm();
  co_return false;
}

asio::awaitable<bool> Connection::deliver(PendingReply& reply, const HttpRequest& request) {
  reply.set_wake(make_wake());
  if (reply.streams()) {
    shared_.handler.answered(request, 200);
    if (!co_await write(encode_stream_head(framing_))) co_return false;
  }
  while (true) {
    PendingReply::Piece piece = reply.poll();
    if (piece.whole) co_return co_await respond(*piece.whole, request);
    if (!piece.events.empty() && !co_await write(encode_stream_piece(piece.events, framing_))) co_return false;
    if (piece.done) co_return co_await write(encode_stream_end(framing_)) && framing_.keep_alive;
    if (half_closed_ && !probed_) co_await probe(reply.streams());
    if (!piece.full) co_await wait_for_wake();
    if (gone_) co_return false;
  }
}

asio::awaitable<bool> Connection::answer(Parser& parser, HttpRequest request) {
  request.body = std::move(parser.get().body());
  const auto work = std::make_shared<Preparation>();
  work->request = std::move(request);
  watch();
  asio::post(shared_.requests, [work, &handler = shared_.handler, wake = make_wake()] {
    work->reply = handler.handle(work->request);
    work->request.body.clear();
    work->request.body.shrink_to_fit();
    work->done = true;
    wake();
  });
  while (!work->done && !gone_) co_await wait_for_wake();
  if (gone_) co_return false;
  if (const auto* whole = std::get_if<HttpResponse>(&work->reply)) co_return co_await respond(*whole, work->request);
  co_return co_await deliver(*std::get<std::unique_ptr<PendingReply>>(work->reply), work->request);
}

asio::awaitable<bool> Connection::serve_one() {
  Parser parser;
  parser.header_limit(static_cast<uint32_t>(shared_.limits.header_bytes));
  parser.body_limit(shared_.limits.body_bytes);
  framing_ = {};
  HttpRequest request;
  if (buffer_.size() == 0) {
    arm(shared_.limits.idle_seconds);
    const auto [ec, count] = co_await socket_.async_read_some(buffer_.prepare(kReadBytes), kAwait);
    disarm();
    if (ec) co_return false;
    buffer_.commit(count);
  }
  arm(shared_.limits.header_seconds);
  const auto [head_fault, head_bytes] = co_await http::async_read_header(socket_, buffer_, parser, kAwait);
  disarm();
  if (head_fault) {
    const ApiError fault = read_error(head_fault, timed_out_, shared_.limits);
    if (fault.status != 0) co_await refuse(error_response(fault), request);
    co_return false;
  }
  const auto& head = parser.get();
  const Fault head_error =
      check_request_line(std::string_view(head.target()), head.version() >= 11, head.count(http::field::host), request.path);
  request.method = std::string(head.method_string());
  request.content_type = std::string(head[http::field::content_type]);
  request.authorization = std::string(head[http::field::authorization]);
  framing_ = {.http_1_0 = head.version() < 11, .keep_alive = parser.keep_alive(), .head_only = request.method == "HEAD"};
  std::optional<HttpResponse> refusal = head_error ? error_response(*head_error) : shared_.handler.check_head(request);
  if (refusal && !parser.is_done()) co_return co_await refuse(std::move(*refusal), request);
  if (refusal) co_return co_await respond(*refusal, request);
  if (!parser.is_done() && boost::beast::iequals(head[http::field::expect], "100-continue")) {
    if (!co_await write("HTTP/1.1 100 Continue\r\n\r\n")) co_return false;
  }
  arm(shared_.limits.body_seconds);
  const auto [body_fault, body_bytes] = co_await http::async_read(socket_, buffer_, parser, kAwait);
  disarm();
  if (body_fault) {
    const ApiError fault = read_error(body_fault, timed_out_, shared_.limits);
    if (fault.status != 0) co_await refuse(error_response(fault), request);
    co_return false;
  }
  ++shared_.active;
  const bool goes_on = co_await answer(parser, std::move(request));
  watching_ = false;
  if (--shared_.active == 0 && shared_.on_idle) shared_.on_idle();
  co_return goes_on && !gone_ && !half_closed_;
}

asio::awaitable<void> Connection::run() {
  const auto self = shared_from_this();
  error_code ignored;
  socket_.set_option(tcp::no_delay(true), ignored);
  if (const int most = shared_.limits.send_bytes; most > 0) socket_.set_option(tcp::socket::send_buffer_size(most), ignored);
  socket_.non_blocking(true, ignored);
  while (co_await serve_one()) {
  }
  socket_.shutdown(tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
}

asio::awaitable<void> Connection::turn_away() {
  const auto self = shared_from_this();
  const ApiError fault{.status = 503, .message = cat("all ", shared_.limits.max_connections, " connections are in use")};
  framing_.keep_alive = false;
  co_await write(encode_response(error_response(fault), framing_));
}

Connections::Connections(asio::io_context& io, const HttpLimits& limits, HttpHandler& handler)
    : shared_(new ConnectionsShared{.io = io, .limits = limits, .handler = handler}) {}

Connections::~Connections() { shared_->requests.join(); }

void Connections::open(int descriptor, bool v6) {
  error_code ec;
  tcp::socket socket(shared_->io);
  socket.assign(v6 ? tcp::v6() : tcp::v4(), descriptor, ec);
  if (ec) return log_warning(cat("a connection could not be taken: ", ec.message()));
  const bool crowded = shared_->open.size() >= shared_->limits.max_connections;
  const auto connection = std::make_shared<Connection>(std::move(socket), *shared_);
  asio::co_spawn(shared_->io, crowded ? connection->turn_away() : connection->run(), [](const std::exception_ptr& fault) {
    if (fault) log_error("a connection ended by an exception");
  });
}

size_t Connections::active() const { return shared_->active; }

void Connections::when_idle(std::function<void()> on_idle) {
  shared_->on_idle = std::move(on_idle);
  if (shared_->active == 0) shared_->on_idle();
}

void Connections::abort_all() {
  shared_->on_idle = {};
  const std::unordered_set<Connection*> all = shared_->open;
  for (Connection* connection : all) connection->abort();
}

}  // namespace lamina::server
