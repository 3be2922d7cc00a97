#include "server/http_server.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <csignal>

#include "base/log.h"
#include "base/strings.h"
#include "server/connection.h"

namespace lamina::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);  // completes with (error_code, ...), nothing is thrown

std::chrono::steady_clock::duration as_duration(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

struct HttpServer::Impl {
  HttpHandler& handler;
  asio::io_context io{1};
  Connections connections;
  tcp::acceptor acceptor{io};
  asio::signal_set signals{io};
  asio::steady_timer drain_timer{io};
  asio::steady_timer stop_timer{io};
  int port = 0;  // stays after stop() has closed the acceptor; read from any thread
  double drain_seconds = 0;
  bool ending = false;

  Impl(const HttpLimits& limits, HttpHandler& used) : handler(used), connections(io, limits, used) {}

  asio::awaitable<void> accept_loop();
  void wait_for_signal();
  void begin_drain(double seconds);
  void stop();
};

asio::awaitable<void> HttpServer::Impl::accept_loop() {
  while (acceptor.is_open()) {
    auto [ec, socket] = co_await acceptor.async_accept(kAwait);
    if (ec == asio::error::operation_aborted) co_return;
    if (!ec) {
      const bool v6 = socket.local_endpoint(ec).protocol() == tcp::v6();
      connections.open(socket.release(ec), v6);
      continue;
    }
    log_warning(cat("a connection could not be accepted: ", ec.message()));
    asio::steady_timer pause(io, std::chrono::milliseconds(100));  // out of descriptors: some will be closed
    co_await pause.async_wait(kAwait);
  }
}

void HttpServer::Impl::wait_for_signal() {
  signals.async_wait([this](const error_code& ec, int number) {
    if (ec) return;
    log_info(cat(number == SIGTERM ? "SIGTERM" : "SIGINT", ending ? ": stopping at once" : ": finishing what runs"));
    ending ? stop() : begin_drain(drain_seconds);
    wait_for_signal();
  });
}

void HttpServer::Impl::begin_drain(double seconds) {
  if (ending) return;
  ending = true;
  handler.draining();
  connections.when_idle([this] {
    asio::post(io, [this] {
      if (!handler.failed()) stop();
    });
  });
  drain_timer.expires_after(as_duration(seconds));
  drain_timer.async_wait([this, seconds](const error_code& ec) {
    if (ec) return;
    log_warning(cat("--drain-timeout ", seconds, ": ", connections.active(), " requests did not end in time and are cancelled"));
    stop();
  });
}

/// Closes everything; run() returns when the last connection has unwound.
void HttpServer::Impl::stop() {
  error_code ignored;
  acceptor.close(ignored);
  signals.cancel(ignored);
  drain_timer.cancel();
  stop_timer.cancel();
  connections.abort_all();
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() = default;

Result<std::unique_ptr<HttpServer>> HttpServer::listen(const std::string& host, int port, const HttpLimits& limits, HttpHandler& handler) {
  auto impl = std::make_unique<Impl>(limits, handler);
  error_code ec;
  const auto found = tcp::resolver(impl->io).resolve(host, std::to_string(port), tcp::resolver::passive, ec);
  if (ec || found.empty()) return error("--host ", host, ": ", ec.message());
  const tcp::endpoint endpoint = found.begin()->endpoint();
  tcp::acceptor& acceptor = impl->acceptor;
  acceptor.open(endpoint.protocol(), ec);
  if (!ec) acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
  if (!ec) acceptor.bind(endpoint, ec);
  if (!ec) acceptor.listen(tcp::acceptor::max_listen_connections, ec);
  if (!ec) impl->port = acceptor.local_endpoint(ec).port();
  if (ec) return error("--host ", host, " --port ", port, ": ", ec.message());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

int HttpServer::port() const { return impl_->port; }

void HttpServer::run(bool signals, double drain_seconds) {
  impl_->drain_seconds = drain_seconds;
  if (signals) {
    error_code ignored;
    impl_->signals.add(SIGTERM, ignored);
    impl_->signals.add(SIGINT, ignored);
    impl_->wait_for_signal();
  }
  asio::co_spawn(impl_->io, impl_->accept_loop(), asio::detached);
  impl_->io.run();
}

void HttpServer::drain(double seconds) {
  asio::post(impl_->io, [impl = impl_.get(), seconds] { impl->begin_drain(seconds); });
}

void HttpServer::stop_after(double seconds) {
  asio::post(impl_->io, [impl = impl_.get(), seconds] {
    impl->stop_timer.expires_after(as_duration(seconds));
    impl->stop_timer.async_wait([impl](const error_code& ec) {
      if (!ec) impl->stop();
    });
  });
}

}  // namespace lamina::server
